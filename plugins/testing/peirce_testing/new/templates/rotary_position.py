"""new_part: a position that turns queries and keys.

A spec with it:

    [[model.positions]]
    use = "new_part"
"""

import math
from collections.abc import Sequence

import torch
from peirce.algebra import at_least_float32
from peirce.kernels import Rotation
from peirce.parts import Dims, NoOptions, PlainMap, PlainScope, RotaryPosition, Tokens
from torch import nn


class NewPart(RotaryPosition):
    """The first two channels of a head are turned by a learned angle a token, another one in each layer."""

    name = "new_part"
    source = "RoFormer (Su et al., 2021), eq. 13, with a learned angle"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.rates = nn.Parameter(torch.linspace(0.1, 1.0, dims.layers))

    @classmethod
    def check(cls, options: NoOptions, dims: Dims, scope: str) -> str | None:
        """A pair takes two channels."""
        return None if dims.head_size > 1 else "a head of one channel has no pair to turn"

    def rotations(self, tokens: Tokens) -> Sequence[Rotation | None]:
        """One a layer."""
        rates = at_least_float32(self.rates)  # bfloat16 does not count to 1001
        index = tokens.rows(tokens.index).to(rates.dtype).unsqueeze(2)
        return [Rotation((index * rate).cos(), (index * rate).sin()) for rate in rates]

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Vector by vector: the first two channels are turned, those behind stay."""
        rate = parameters["rates"][given["layer"]]

        def turned(vector: list[float], angle: float) -> list[float]:
            (u, v, *rest), cos, sin = vector, math.cos(angle), math.sin(angle)
            return [u * cos - v * sin, u * sin + v * cos, *rest]

        return {
            name: [
                [turned(head, t * rate) for head in heads]
                for t, heads in zip(scope.rows, given[name], strict=True)
            ]
            for name in ("query", "key")
        }
