"""none: says in a spec that tokens have no position."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from peirce.parts import Dims, PlainMap, PlainScope, Tokens, UnaryPosition


class NoPosition(UnaryPosition):
    """u(x) += 0. A causal network knows the order of tokens by what each of them sees; any other one sees a set."""

    name = "none"
    source = "NoPE (Kazemnejad et al., 2023)"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.register_buffer("zero", torch.zeros(1, 1, dims.unary), persistent=False)

    def unary(self, tokens: Tokens) -> Tensor:
        """[1, x, d1]."""
        return self.get_buffer("zero").expand(-1, tokens.rows(tokens.index).shape[1], -1)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Zeros."""
        return {"unary": [[0.0] * dims.unary for _ in scope]}
