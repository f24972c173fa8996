"""How a pass computes: traced or not, on behalf of which part, and in which precision."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx.traceback import annotate, preserve_node_meta

PART = "peirce.part"
"""The key under which a node of a traced graph names the part that made it."""


def has_static_shapes(values: Tensor) -> bool:
    """Whether shapes may not depend on these values: in a traced graph, on `meta`, while a CUDA graph is recorded."""
    if torch.compiler.is_compiling() or values.is_meta:
        return True
    return not values.is_cpu and torch.backends.cuda.is_built() and torch.cuda.is_current_stream_capturing()


record_parts = preserve_node_meta
"""A context to trace a model in, so that each node of its graph has its part in `node.meta["custom"][PART]`."""


def annotate_part(part: str) -> AbstractContextManager[None]:
    """Say in an exported graph which part the nodes belong to: `position 'shaw'` is noted as `positions.shaw`."""
    if not torch.compiler.is_exporting():
        return nullcontext()
    return annotate({PART: re.sub(r"^(\w+) '(.+)'$", r"\1s.\2", part)})


def without_autocast(values: Tensor) -> AbstractContextManager[Any]:
    """A context in which autocast leaves operations on the device of these values alone."""
    kind = values.device.type
    if torch.compiler.is_compiling() or values.is_meta or not torch.is_autocast_enabled(kind):
        return nullcontext()
    return torch.autocast(kind, enabled=False)


class Linear(nn.Linear):
    """A linear map in the precision of what it maps, not in that of its weights."""

    def forward(self, values: Tensor) -> Tensor:
        """[..., n] -> [..., m]."""
        bias = None if self.bias is None else self.bias.to(values.dtype)
        return F.linear(values, self.weight.to(values.dtype), bias)
