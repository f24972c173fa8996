"""new_part: an operator on relations.

Layers of a spec with it:

    [[model.operators.layer]]
    use = "join"

    [[model.operators.layer]]
    use = "assoc"

    [[model.operators.layer]]
    use = "new_part"
"""

from typing import Any

from peirce.algebra import Scope
from peirce.parts import Dims, Operator, PlainMap, PlainScope, Reader, Writer, plain_linear
from torch import Tensor


class NewPart(Operator):
    """u[d](x,y) = K[d](x,y) v[d](x,y): two tokens are related in a new way where they are in two ways at once."""

    name = "new_part"
    typing = "B <- B x B"
    scope_rule = "pairwise"
    source = "the product t-norm of fuzzy logic (Hajek, 1998), channel by channel"

    def kernel(self) -> Reader:
        """K: [b, x, y, d], from the relations."""
        return Reader(branch="B", shape={"d": self.dims.binary})

    def premise(self) -> Reader:
        """v: [b, x, y, d], another reading of the relations."""
        return Reader(branch="B", shape={"d": self.dims.binary})

    def output(self) -> Writer:
        """u: [b, x, y, d], to the relations."""
        return Writer(branch="B", shape={"d": self.dims.binary})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, y, d], [b, x, y, d] -> [b, x, y, d]."""
        return kernel * premise

    def reference(self, kernel: list[Any], premise: list[Any], scope: PlainScope) -> list[Any]:
        """Pair by pair, channel by channel."""
        rows, columns, channels = range(len(kernel)), range(len(kernel[0])), range(self.dims.binary)
        return [[[kernel[x][y][d] * premise[x][y][d] for d in channels] for y in columns] for x in rows]

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """The same behind the maps that `kernel`, `premise` and `output` ask for."""
        kernel, premise = (
            plain_linear(given["binary"], parameters, name, dims.binary) for name in ("kernel", "premise")
        )
        return {"binary": plain_linear(kernel * premise, parameters, "output", dims.binary)}
