"""hadamard: two tokens are related in a new way when they are related in two ways at once."""

from typing import Any

from torch import Tensor

from peirce.algebra import Scope
from peirce.parts import Dims, Operator, PlainMap, PlainScope, Reader, Writer, plain_linear


class Hadamard(Operator):
    """u[d](x,y) = K[d](x,y) v[d](x,y): a fuzzy "and" of two readings of the relations, pair by pair."""

    name = "hadamard"
    letter = "h"
    typing = "B <- B x B"
    scope_rule = "pairwise"
    source = "the algebraic product, the t-norm of product fuzzy logic"

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
        tokens, channels = range(len(kernel)), range(self.dims.binary)
        return [[[kernel[x][y][d] * premise[x][y][d] for d in channels] for y in tokens] for x in tokens]

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """The same behind the maps that `kernel`, `premise` and `output` ask for."""
        kernel, premise = (
            plain_linear(given["binary"], parameters, name, dims.binary) for name in ("kernel", "premise")
        )
        return {"binary": plain_linear(kernel * premise, parameters, "output", dims.binary)}
