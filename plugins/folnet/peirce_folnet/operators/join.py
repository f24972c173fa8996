"""join: what a token inherits from the tokens that it is related to; the summing half of self-attention."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from torch import Tensor

from peirce.algebra import Scope
from peirce.kernels import channels_first
from peirce.parts import Dims, Operator, PlainMap, PlainScope, Reader, Writer, plain_linear, plain_softmax


class Join(Operator):
    """u[h,s](x) = sum_a K[h](x,a) v[h,s](a), with K a softmax over a."""

    name = "join"
    letter = "j"
    typing = "U <- B x U"
    scope_rule = "reduce"
    pair = "value"
    source = "FOLNet (Chen, 2023), Table 2, row j"

    def kernel(self) -> Reader:
        """K: [b, x, a, h], from the relations."""
        return Reader(
            branch="B",
            shape={"h": self.dims.heads},
            bias=False,
            activation="softmax",
            dropout=True,
            tokens_last=True,
        )

    def premise(self) -> Reader:
        """v: [b, a, h, s], from the properties."""
        shape = {"h": self.dims.heads, "s": self.dims.head_size}
        return Reader(branch="U", shape=shape, cached=True)

    def output(self) -> Writer:
        """u: [b, x, h, s], to the properties."""
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, a, h], [b, a, h, s] -> [b, x, h, s]."""
        return (channels_first(kernel) @ premise.permute(0, 2, 1, 3)).transpose(1, 2)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The sum over a, term by term."""
        return cast(list[Any], np.einsum("xah,ahs->xhs", kernel, premise).tolist())

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """The weights from the relations, the values from the properties, and the sum."""
        logits = plain_linear(given["binary"], parameters, "kernel", dims.heads, bias=False)
        weights = plain_softmax(logits, np.asarray(scope)[..., None], axis=1)
        values = plain_linear(given["unary"], parameters, "premise", dims.heads * dims.head_size)
        sums = np.einsum("xah,ahs->xhs", weights, values.reshape(-1, dims.heads, dims.head_size))
        return {"unary": plain_linear(sums.reshape(len(scope), -1), parameters, "output", dims.unary)}
