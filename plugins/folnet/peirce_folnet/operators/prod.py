"""prod: a relation refined by a property of its first token; a relative position's key term, made dynamic."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from torch import Tensor

from peirce.algebra import Scope
from peirce.parts import Dims, Operator, PlainMap, PlainScope, Reader, Writer, plain_linear


class Prod(Operator):
    """u[h](x,y) = sum_w K[h,w](x) v[w](x,y), both scaled by head_size ** -1/4."""

    name = "prod"
    letter = "p"
    typing = "B <- U x B"
    scope_rule = "pairwise"
    source = "FOLNet (Chen, 2023), Table 2, row p, and eq. 37"

    def kernel(self) -> Reader:
        """K: [b, x, h, w], from the properties."""
        shape = {"h": self.dims.heads, "s": self.dims.head_size}
        return Reader(branch="U", shape=shape, scale=self.dims.head_size**-0.25)

    def premise(self) -> Reader:
        """v: [b, x, y, w], from the relations."""
        return Reader(branch="B", shape={"s": self.dims.head_size}, scale=self.dims.head_size**-0.25)

    def output(self) -> Writer:
        """u: [b, x, y, h], to the relations."""
        return Writer(branch="B", shape={"h": self.dims.heads})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, h, w], [b, x, y, w] -> [b, x, y, h]."""
        return premise @ kernel.transpose(2, 3)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The sum over w, term by term."""
        return cast(list[Any], np.einsum("xhw,xyw->xyh", kernel, premise).tolist())

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """Both readings, each over the fourth root of the head's size, and their products."""
        root = dims.head_size**0.25
        query = plain_linear(given["unary"], parameters, "kernel", dims.heads * dims.head_size) / root
        relations = plain_linear(given["binary"], parameters, "premise", dims.head_size) / root
        products = np.einsum("xhw,xyw->xyh", query.reshape(-1, dims.heads, dims.head_size), relations)
        return {"binary": plain_linear(products, parameters, "output", dims.binary)}
