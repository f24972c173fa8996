"""new_part: a position that gives the first relations between tokens.

A spec with it:

    [[model.positions]]
    use = "new_part"
"""

from peirce.parts import BinaryPosition, Dims, NoOptions, PlainMap, PlainScope, Tokens, new_table
from torch import Tensor


class NewPart(BinaryPosition):
    """u(x,y) = table[1 if x and y are the same word else 0]: a model need not learn which words come again."""

    name = "new_part"
    source = "the predicate x = y of first-order logic"

    @classmethod
    def check(cls, options: NoOptions, dims: Dims, scope: str) -> str | None:
        """There must be binary atoms to begin with."""
        return None if dims.binary else "it gives the initial binary atoms, and the model has none"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.table = new_table(2, dims.binary)

    def binary(self, tokens: Tokens) -> Tensor:
        """[b, x, y, d2]."""
        words = tokens.inputs["input_ids"]
        same = tokens.rows(words).unsqueeze(2) == words.unsqueeze(1)
        return self.table(same.long())

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: row 1 of the table for the same word, row 0 for another."""
        words, table = given["input_ids"], parameters["table.weight"]
        return {"binary": [[table[1 if x == y else 0] for y in words] for x in words]}
