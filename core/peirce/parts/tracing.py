"""What code that may be traced asks: whether shapes may depend on values, and whose nodes those of a graph are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor
from torch.fx.traceback import annotate, preserve_node_meta

PART = "peirce.part"
"""Under which a node of a traced graph says which part made it."""


def dense(values: Tensor) -> bool:
    """Whether everything is computed and masked, as shapes cannot follow these values."""
    return torch.compiler.is_compiling() or values.is_meta


@contextmanager
def noting_parts() -> Iterator[None]:
    """Trace a model so that each node of its graph has the part that made it in `node.meta["custom"][PART]`."""
    with preserve_node_meta():
        yield


def made_by(part: str) -> AbstractContextManager[None]:
    """Say in an exported graph which part the nodes belong to: `position 'shaw'` is noted as `positions.shaw`."""
    if not torch.compiler.is_exporting():
        return nullcontext()
    return annotate({PART: re.sub(r"^(\w+) '(.+)'$", r"\1s.\2", part)})
