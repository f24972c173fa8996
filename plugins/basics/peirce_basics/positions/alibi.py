"""alibi: a penalty on the attention score that grows with the distance, at a fixed rate for each head."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from peirce.algebra import at_least_float32
from peirce.kernels import DenseBias
from peirce.parts import Dims, PairPosition, PlainMap, PlainScope, Tokens, offsets


class Alibi(PairPosition):
    """score[h](x,y) -= m[h] |y - x|, with m[h] = 2 ** (-8 h / n) for the heads h = 1 .. n.

    Where the number of heads is not a power of two, n is the power below it, and the other heads have every second
    slope of 2 n heads, as in the published code. Without parameters; the layers share the bias. The paper is about
    causal scopes; where a token sees what follows, the same distance costs the same both ways.
    """

    name = "alibi"
    source = "ALiBi (Press et al., 2022), Section 3, with the slopes of its published code"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers, self.heads = dims.layers, dims.heads
        # Without parameters, this follows the dtype and the device of the model.
        self.register_buffer("like", torch.zeros(()), persistent=False)

    def pairs(self, tokens: Tokens) -> list[DenseBias]:
        """The same bias for every layer."""
        # Distances need the precision even where the model has none.
        exact = at_least_float32(self.get_buffer("like"))
        distances = offsets(tokens).abs().to(exact.dtype).unsqueeze(3)
        return [DenseBias(-distances * self.slopes(exact))] * self.layers

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Head by head: slopes of the power of two below, and every second one of the power above."""
        power = 2 ** math.floor(math.log2(dims.heads))
        slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
        slopes += [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * (dims.heads - power), 2)]
        places = scope.rows
        return {"score": [[[-m * abs(y - x) for m in slopes] for y in places] for x in places]}

    def slopes(self, like: Tensor) -> Tensor:
        """m, [h]."""
        power = 1 << self.heads.bit_length() - 1
        rest = 2 * (self.heads - power)
        first = torch.arange(1, power + 1, dtype=like.dtype, device=like.device) * (-8 / power)
        others = torch.arange(1, rest + 1, 2, dtype=like.dtype, device=like.device) * (-4 / power)
        return torch.cat([first, others]).exp2()
