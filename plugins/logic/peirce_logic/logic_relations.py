"""logic_relations: the logical relations of a text as FOLNet's initial binary atoms."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from peirce.algebra import at_least_float32
from peirce.parts import BinaryPosition, Dims, PlainMap, PlainScope, TensorSpec, Tokens, new_table
from peirce_logic.relations import LOGICAL_ID_COUNT, LOGICAL_IDS, ROLES

AFTER = {
    LOGICAL_IDS[relation, role]: LOGICAL_IDS[relation, after]
    for relation, role in LOGICAL_IDS
    for before, after in pairwise(ROLES)
    if role == before and (relation, after) in LOGICAL_IDS
}
"""The id of a span by that of what comes before it in its relation: alpha by the keyword, beta by alpha."""
NOTHING = -1
"""What comes after the last span of a relation."""


class LogicRelations(BinaryPosition):
    """u(x,y) = the sum of R[id of x] over the relations where y's span comes after x's part, and of C[id of y] over
    those where x's span comes after y's part.

    After a keyword comes alpha, after alpha comes beta. So there is one vector for each relation and pair, keyword to
    alpha and alpha to beta, and one for its converse: 22 of each. Relations that have the same type add up.
    """

    name = "logic_relations"
    source = (
        "Logical Transformers (Wang et al., 2023), Section 3, whose relations become binary atoms as in FOLNet (Chen, "
        "2023), Section 3.1; not published in this form"
    )

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        """Why there is nothing to put the relations in."""
        return None if dims.binary else "it gives the initial binary atoms, and the model has none"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.pairs = new_table(len(AFTER), dims.binary)
        self.converse_pairs = new_table(len(AFTER), dims.binary)
        after, rows = (
            torch.full((LOGICAL_ID_COUNT,), NOTHING),
            torch.zeros(LOGICAL_ID_COUNT, dtype=torch.long),
        )
        for row, (first, second) in enumerate(AFTER.items()):
            after[first], rows[first] = second, row
        self.register_buffer("after", after, persistent=False)
        self.register_buffer("rows", rows, persistent=False)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """What each token is to each relation."""
        return (
            TensorSpec(
                name="logical_relations",
                dtype="int64",
                dims=("batch", "relations", "length"),
                meaning="What each token is to each relation of the text: keyword, left or right span; 0 for nothing.",
                high=LOGICAL_ID_COUNT,
            ),
        )

    def binary(self, tokens: Tokens) -> Tensor:
        """[b, x, y, d2]; zero between tokens that no relation joins."""
        every = tokens.inputs["logical_relations"]
        rows = tokens.rows(every, 2)
        atoms = self._after(self.pairs, rows, every)
        atoms = atoms + self._after(self.converse_pairs, every, rows).transpose(1, 2)
        return atoms.to(self.pairs.get_parameter("weight").dtype)

    def _after(self, table: torch.nn.Module, first: Tensor, second: Tensor) -> Tensor:
        """The vectors of pairs where y's span comes after x's part, [b, x, y, d2]; ids are [b, r, x] and [b, r, y]."""
        joined = self.get_buffer("after")[first].unsqueeze(3) == second.unsqueeze(2)
        weight = at_least_float32(table.get_parameter("weight"))
        vectors = F.embedding(self.get_buffer("rows")[first], weight)
        return joined.to(weight.dtype).permute(0, 2, 3, 1) @ vectors.transpose(1, 2)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: the vectors of the relations where one's span comes after the other's part."""
        joined, tokens = [*AFTER.items()], range(len(scope))
        tables = parameters["pairs.weight"], parameters["converse_pairs.weight"]

        def pair(x: int, y: int) -> list[float]:
            total = [0.0] * dims.binary
            for relation in given["logical_relations"]:
                for row, after in enumerate(joined):
                    for table, found in zip(
                        tables, ((relation[x], relation[y]), (relation[y], relation[x])), strict=True
                    ):
                        if found == after:
                            total = [one + other for one, other in zip(total, table[row], strict=True)]
            return total

        return {"binary": [[pair(x, y) for y in tokens] for x in tokens]}
