"""What several positions share: tables of vectors, and how far apart two tokens are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from peirce.kernels import PairBias
from peirce.parts.initialisation import narrow
from peirce.parts.tokens import Tokens


def new_table(entries: int, width: int) -> nn.Embedding:
    """A table of `entries` learned vectors."""
    table = nn.Embedding(entries, width)
    narrow(table)
    return table


def offsets(tokens: Tokens) -> Tensor:
    """How far y lies after x, int64 [b or 1, x, y]."""
    return tokens.index.unsqueeze(1) - tokens.rows(tokens.index).unsqueeze(2)


def reach(limit: int, length: int) -> int:
    """The largest distance to tell apart: no more than the sequence has, unless its length is symbolic."""
    return limit if torch.compiler.is_compiling() else max(1, min(limit, length - 1))


def layer_biases(
    layers: int, ids: Tensor, rows: Tensor | None, keys: Sequence[Tensor], values: Sequence[Tensor]
) -> list[PairBias]:
    """One bias a layer, from one bank a layer or one for all; without `values` they have keys alone."""
    banks = [
        PairBias(ids=ids, rows=rows, key=key, value=values[place] if values else None)
        for place, key in enumerate(keys)
    ]
    return banks * layers if len(banks) == 1 else banks
