"""distance: FOLNet's relations between tokens at the input, one for each clipped distance."""

from __future__ import annotations

import torch
from attrs import field, frozen, validators
from torch import Tensor

from peirce.parts import BinaryPosition, Dims, PlainMap, PlainScope, Tokens, new_table, offsets


@frozen(kw_only=True)
class DistanceOptions:
    """Which distances are told apart.

    Args:
        clip: Delta; distances of Delta - 1 and more, either way, count as Delta - 1.
        cls: whether the first token is a [CLS], which stands in one relation to every other token and every
            other token in another to it, whatever their distance and sequence.
    """

    clip: int = field(default=64, validator=validators.ge(2))
    cls: bool = False


class Distance(BinaryPosition):
    """u(x,y) = table[id of dist_Delta(x, y)], with 2 Delta + 2 ids.

    Let d = y - x over real tokens. In the same sequence (equal token_type_ids, or none given), d >= 0 has the id
    min(d, Delta - 1) and d < 0 has 2 Delta + max(d, 1 - Delta); a pair in different sequences has Delta. With a [CLS]
    at position 0, its row (x = 0, y > 0) has 2 Delta and its column (x > 0, y = 0) has 2 Delta + 1.
    """

    name = "distance"
    source = "FOLNet (Chen, 2023), Appendix A.4, dist_Delta"
    Options = DistanceOptions

    @classmethod
    def check(cls, options: DistanceOptions, dims: Dims, scope: str) -> str | None:
        """Why there is nothing to put the distances in."""
        return None if dims.binary else "it gives the initial binary atoms, and the model has none"

    def __init__(self, options: DistanceOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.table = new_table(2 * options.clip + 2, dims.binary)

    def binary(self, tokens: Tokens) -> Tensor:
        """[b or 1, x, y, d2]."""
        return self.table(self.ids(tokens))

    def ids(self, tokens: Tokens) -> Tensor:
        """int64 [b or 1, x, y] in [0, 2 Delta + 2)."""
        clip = self.options.clip
        offset = offsets(tokens)
        ids = torch.where(offset < 0, 2 * clip + offset.clamp_min(1 - clip), offset.clamp_max(clip - 1))
        types = tokens.inputs.get("token_type_ids")
        if types is not None:
            ids = torch.where(tokens.rows(types).unsqueeze(2) == types.unsqueeze(1), ids, clip)
        if self.options.cls:
            first = tokens.index == 0
            row, column = tokens.rows(first).unsqueeze(2), first.unsqueeze(1)
            ids = torch.where(row & ~column, 2 * clip, ids)
            ids = torch.where(column & ~row, 2 * clip + 1, ids)
        return ids

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: the vector of the id."""
        clip, places, types = self.options.clip, scope.rows, given["token_type_ids"]

        def row(x: int, y: int) -> int:
            if self.options.cls and x == 0 < y:
                return 2 * clip
            if self.options.cls and y == 0 < x:
                return 2 * clip + 1
            if types[x] != types[y]:
                return clip
            return min(y - x, clip - 1) if y >= x else 2 * clip + max(y - x, 1 - clip)

        return {"binary": [[parameters["table.weight"][row(x, y)] for y in places] for x in places]}
