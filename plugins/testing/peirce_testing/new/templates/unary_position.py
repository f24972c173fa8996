"""new_part: a position that is added to the tokens' embeddings.

A spec with it:

    [[model.positions]]
    use = "new_part"
"""

import math

import torch
from peirce.algebra import at_least_float32
from peirce.parts import Dims, NoOptions, PlainMap, PlainScope, Tokens, UnaryPosition
from torch import Tensor, nn


class NewPart(UnaryPosition):
    """u(x) += log(1 + t) w, for the position t of x, counted over real tokens, and one learned direction w."""

    name = "new_part"
    source = "the Weber-Fechner law: what is far away is told apart less finely"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.direction = nn.Parameter(0.02 * torch.randn(dims.unary))

    def unary(self, tokens: Tokens) -> Tensor:
        """[b or 1, x, d1]."""
        direction = at_least_float32(self.direction)  # bfloat16 does not count to 1001
        steps = tokens.rows(tokens.index).to(direction.dtype).log1p()
        return (steps.unsqueeze(2) * direction).to(self.direction.dtype)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Token by token, at the position t."""
        return {"unary": [[math.log1p(t) * w for w in parameters["direction"]] for t in scope.rows]}
