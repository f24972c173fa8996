"""assoc: how two tokens' properties go together; the scoring half of self-attention."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from torch import Tensor

from peirce.algebra import Scope
from peirce.parts import Dims, Operator, PlainMap, PlainScope, Reader, Writer, plain_linear


class Assoc(Operator):
    """u[h](x,y) = sum_w K[h,w](x) v[h,w](y), both scaled by head_size ** -1/4."""

    name = "assoc"
    letter = "a"
    typing = "B <- U x U"
    scope_rule = "pairwise"
    pair = "score"
    source = "FOLNet (Chen, 2023), Table 2, row a"

    def _reader(self, *, cached: bool) -> Reader:
        shape = {"h": self.dims.heads, "s": self.dims.head_size}
        return Reader(branch="U", shape=shape, scale=self.dims.head_size**-0.25, cached=cached)

    def kernel(self) -> Reader:
        """K: [b, x, h, w], from the properties; the query of self-attention."""
        return self._reader(cached=False)

    def premise(self) -> Reader:
        """v: [b, y, h, w], from the properties; the key of self-attention."""
        return self._reader(cached=True)

    def output(self) -> Writer:
        """u: [b, x, y, h], to the relations."""
        return Writer(branch="B", shape={"h": self.dims.heads})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, h, w], [b, y, h, w] -> [b, x, y, h]."""
        return (kernel.transpose(1, 2) @ premise.permute(0, 2, 3, 1)).permute(0, 2, 3, 1)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The sum over w, term by term."""
        return cast(list[Any], np.einsum("xhw,yhw->xyh", kernel, premise).tolist())

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """Query and key, each over the fourth root of the head's size, and their products."""
        shape = len(scope), dims.heads, dims.head_size
        query, key = (
            plain_linear(given["unary"], parameters, name, dims.heads * dims.head_size).reshape(shape)
            / dims.head_size**0.25
            for name in ("kernel", "premise")
        )
        products = np.einsum("xhw,yhw->xyh", query, key)
        return {"binary": plain_linear(products, parameters, "output", dims.binary)}
