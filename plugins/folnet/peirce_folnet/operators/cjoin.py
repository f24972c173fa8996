"""cjoin: join with kernel and premise exchanged, so that properties weigh relations."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
from attrs import field, frozen, validators
from torch import Tensor

from peirce.algebra import Scope
from peirce.kernels import weigh
from peirce.parts import Dims, Operator, PlainMap, PlainScope, Reader, Writer, plain_linear, plain_softmax


@frozen(kw_only=True)
class CJoinOptions:
    """The two readings of the operator.

    Args:
        premise: `published` takes v(a, x), as the published code does; `paper` takes v(x, a), as Table 2 does.
            Causal and prefix scopes need `paper`: in them v(a, x) lies outside the scope.
        batch_over: the channels of the premise, `size` (the published code: head_size of them) or `heads` (Table 2).
    """

    premise: Literal["published", "paper"] = field(
        default="published", validator=validators.in_(("published", "paper"))
    )
    batch_over: Literal["size", "heads"] = field(default="size", validator=validators.in_(("size", "heads")))


class CJoin(Operator):
    """u[g,n](x) = sum_a K[g,n](x,a) v[g](a,x), with K(x,a) a softmax of k(a) over the tokens a that x may attend to."""

    name = "cjoin"
    letter = "c"
    typing = "U <- U x B"
    scope_rule = "reduce"
    source = "FOLNet (Chen, 2023), Table 2, row c"
    Options = CJoinOptions

    @classmethod
    def check(cls, options: CJoinOptions, dims: Dims, scope: str) -> str | None:
        """The published premise reads v(a, x), which only a symmetric scope contains."""
        if options.premise == "published" and scope != "bidirectional":
            return (
                f"its premise v(a, x) lies outside a {scope} scope, which need not contain (a, x) where it contains "
                '(x, a); set premise = "paper", which takes v(x, a)'
            )
        return None

    @property
    def _shape(self) -> dict[str, int]:
        heads, size = self.dims.heads, self.dims.head_size
        return {"s": size, "h": heads} if self.options.batch_over == "size" else {"h": heads, "s": size}

    def kernel(self) -> Reader:
        """k: [b, a, g, n], from the properties; logits, for each row normalises them over its own scope."""
        return Reader(
            branch="U", shape=self._shape, bias=False, activation="softmax", dropout=True, cached=True
        )

    def premise(self) -> Reader:
        """v: [b, a, x, g], from the relations."""
        group, channels = next(iter(self._shape.items()))
        published = self.options.premise == "published"
        return Reader(branch="B", shape={group: channels}, tokens_last=True, cached=published)

    def output(self) -> Writer:
        """u: [b, x, g, n], to the properties."""
        return Writer(branch="U", shape=self._shape)

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, a, g, n], [b, a, x, g] -> [b, x, g, n]."""
        return weigh(
            kernel, premise.transpose(1, 2) if self.options.premise == "published" else premise, scope
        )

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The softmax over each row's scope and the sum over a."""
        weights = plain_softmax(np.array(kernel)[None], np.array(scope)[..., None, None], axis=1)
        of_row = "axg" if self.options.premise == "published" else "xag"
        return cast(list[Any], np.einsum(f"xagn,{of_row}->xgn", weights, premise).tolist())

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """Weights from the properties of each token, values from the relations, and the sum."""
        size = self.options.batch_over == "size"
        groups, inner = (dims.head_size, dims.heads) if size else (dims.heads, dims.head_size)
        logits = plain_linear(given["unary"], parameters, "kernel", groups * inner, bias=False)
        seen = np.asarray(scope)[..., None]
        weights = plain_softmax(logits[None], seen, axis=1).reshape(len(scope), len(scope), groups, inner)
        values = plain_linear(given["binary"], parameters, "premise", groups)
        if self.options.premise == "published":
            values = values.transpose(1, 0, 2)
        sums = np.einsum("xagn,xag->xgn", weights, values)
        return {"unary": plain_linear(sums.reshape(len(scope), -1), parameters, "output", dims.unary)}
