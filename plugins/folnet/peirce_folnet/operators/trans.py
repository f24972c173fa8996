"""trans: the composition of two relations, as a grandfather is a father's parent."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from torch import Tensor

from peirce.algebra import Scope
from peirce.kernels import product_by_channel, uses_kernel
from peirce.parts import Dims, Operator, PlainMap, PlainScope, Reader, Writer, plain_linear, plain_softmax


class Trans(Operator):
    """u[d](x,y) = sum_a K[d](x,a) v[d](a,y), with K a softmax over a and one head for each binary channel d."""

    name = "trans"
    letter = "t"
    typing = "B <- B x B"
    scope_rule = "reduce"
    source = "FOLNet (Chen, 2023), Table 2, row t"

    def kernel(self) -> Reader:
        """K: [b, x, a, d], from the relations."""
        shape = {"d": self.dims.binary}
        return Reader(
            branch="B", shape=shape, bias=False, activation="softmax", dropout=True, tokens_last=True
        )

    def premise(self) -> Reader:
        """v: [b, a, y, d], from the relations."""
        return Reader(branch="B", shape={"d": self.dims.binary}, bias=False, tokens_last=True, cached=True)

    def output(self) -> Writer:
        """u: [b, x, y, d], to the relations."""
        return Writer(branch="B", shape={"d": self.dims.binary})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, a, d], [b, a, y, d] -> [b, x, y, d]."""
        return product_by_channel(kernel, premise)

    def fused(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor | None:
        """The same of the kernel's logits, which are normalised tile by tile and never in memory."""
        if not uses_kernel("trans", kernel, premise):
            return None
        from peirce_folnet.kernels.trans import trans

        return trans(kernel, premise, scope.pairs, scope.dropout)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The sum over a, term by term."""
        return cast(list[Any], np.einsum("xad,ayd->xyd", kernel, premise).tolist())

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """Weights and relations of the second step, and the sum."""
        logits = plain_linear(given["binary"], parameters, "kernel", dims.binary, bias=False)
        weights = plain_softmax(logits, np.asarray(scope)[..., None], axis=1)
        second = plain_linear(given["binary"], parameters, "premise", dims.binary, bias=False)
        sums = np.einsum("xad,ayd->xyd", weights, second)
        return {"binary": plain_linear(sums, parameters, "output", dims.binary)}
