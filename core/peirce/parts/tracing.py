"""Whether shapes may depend on values: in a traced graph, and without storage, they may not."""

from __future__ import annotations

import torch
from torch import Tensor


def dense(values: Tensor) -> bool:
    """Whether everything is computed and masked, as shapes cannot follow these values."""
    return torch.compiler.is_compiling() or values.is_meta
