"""new_part: a position that acts on pairs of tokens inside attention.

A spec with it:

    [[model.positions]]
    use = "new_part"
"""

from collections.abc import Sequence

import numpy as np
import torch
from peirce.kernels import PairBias, PairTerm
from peirce.parts import Dims, NoOptions, PairPosition, PlainMap, PlainScope, Tokens
from torch import nn


class NewPart(PairPosition):
    """score[h](x,y) += q[side(x,y), h] . k(y): each side of a token asks for keys of its own."""

    name = "new_part"
    source = "DeBERTa (He et al., 2020), eq. 4, the term of positions and content, with two positions"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers = dims.layers
        self.queries = nn.Parameter(0.02 * torch.randn(1, 2, dims.heads, dims.head_size))

    def pairs(self, tokens: Tokens) -> Sequence[PairTerm]:
        """The same bias for every layer; side 0 is the token itself and what is before it."""
        after = tokens.index.unsqueeze(1) > tokens.rows(tokens.index).unsqueeze(2)
        return [PairBias(ids=after.long(), query=self.queries)] * self.layers

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """What is added to the score of each pair, head by head; the suite asks layer by layer, `given["layer"]`."""
        sides = [[1 if y > x else 0 for y in scope.columns] for x in scope.rows]
        queries = np.array(parameters["queries"][0])[sides]
        return {"score": np.einsum("xyhs,yhs->xyh", queries, given["key"])}
