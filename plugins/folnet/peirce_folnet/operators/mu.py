"""mu: what holds of a token because of the relations that it has; a relative position's value term, made dynamic."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from torch import Tensor

from peirce.algebra import Scope
from peirce.parts import Dims, Operator, PlainMap, PlainScope, Reader, Writer, plain_linear, plain_softmax


class Mu(Operator):
    """u[h,s](x) = sum_a K[h](x,a) v[s](x,a), with K a softmax over a."""

    name = "mu"
    letter = "m"
    typing = "U <- B x B"
    scope_rule = "reduce"
    source = "FOLNet (Chen, 2023), Table 2, row m, and eq. 36"

    def kernel(self) -> Reader:
        """K: [b, x, a, h], from the relations."""
        shape = {"h": self.dims.heads}
        return Reader(branch="B", shape=shape, bias=False, activation="softmax", tokens_last=True)

    def premise(self) -> Reader:
        """v: [b, x, a, s], from the relations."""
        return Reader(branch="B", shape={"s": self.dims.head_size}, bias=False)

    def output(self) -> Writer:
        """u: [b, x, h, s], to the properties."""
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, a, h], [b, x, a, s] -> [b, x, h, s]."""
        return kernel.transpose(2, 3) @ premise

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The sum over a, term by term."""
        return cast(list[Any], np.einsum("xah,xas->xhs", kernel, premise).tolist())

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """Weights and values from the relations, and the sum."""
        logits = plain_linear(given["binary"], parameters, "kernel", dims.heads, bias=False)
        weights = plain_softmax(logits, np.asarray(scope)[..., None], axis=1)
        values = plain_linear(given["binary"], parameters, "premise", dims.head_size, bias=False)
        sums = np.einsum("xah,xas->xhs", weights, values)
        return {"unary": plain_linear(sums.reshape(len(scope), -1), parameters, "output", dims.unary)}
