"""chain: composition of relations, weighed by gates of both sides at the cost of two matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import field, frozen, validators
from torch import Tensor

from peirce.kernels import product_by_channel
from peirce.parts import Dims, PlainMap, PlainScope, PureOperator, Reader, Writer, plain_linear, plain_sigmoid


@frozen(kw_only=True)
class ChainOptions:
    """What a mean over few nodes is held to.

    Args:
        floor: added to the sum of the weights, so that a pair without a node that fits is told by small values.
    """

    floor: float = field(default=0.01, validator=validators.gt(0))


class Chain(PureOperator):
    """u[d](x,y) = sum_a p[d](x,a) q[d](a,y) v[d](x,a) w[d](a,y) / (floor + sum_a p[d](x,a) q[d](a,y)).

    The weights p and q are sigmoids of what is read. `trans` weighs a third node by (x, a) alone, and `edge_attention`
    by a softmax of scores of both sides, which needs memory for each triangle. Here weights are products of a gate of
    each side, so both sums are matrix products, and a node counts only where both sides are what the channel composes.
    """

    name = "chain"
    typing = "B <- B x B x B x B"
    scope_rule = "reduce"
    source = "FOLNet (Chen, 2023), Table 2, row t, with gates of both sides; the mean is ours"
    Options = ChainOptions
    example: ClassVar = {"floor": 0.1}

    def readings(self) -> Mapping[str, Reader]:
        """Of the left side, p and v: [b, x, a, d]; of the right one, q and w: [b, a, y, d]."""
        shape = {"d": self.dims.binary}
        left = Reader(branch="B", shape=shape, bias=False)
        right = Reader(branch="B", shape=shape, bias=False, cached=True)
        return {"gate": left, "value": left, "right_gate": right, "right_value": right}

    def output(self) -> Writer:
        """u: [b, x, y, d], to the relations."""
        return Writer(branch="B", shape={"d": self.dims.binary}, bias=False)

    def infer(self, *channels: Any) -> Tensor:
        """Twice [b, x, a, d] and twice [b, a, y, d] -> [b, x, y, d]."""
        gate, value, right_gate, right_value, scope = channels
        left, right = scope.zero_binary(gate.sigmoid()), right_gate.sigmoid()
        total = product_by_channel(left, right)
        return product_by_channel(left * value, right * right_value) / (total + self.options.floor)

    def reference(self, *channels: Any) -> list[Any]:
        """Pair by pair and channel by channel: the weights, and the mean by them."""
        gate, value, right_gate, right_value, scope = channels
        tokens = range(len(scope))

        def pair(x: int, y: int, d: int) -> float:
            seen = [a for a in tokens if scope[x][a]]
            weights = [plain_sigmoid(gate[x][a][d]) * plain_sigmoid(right_gate[a][y][d]) for a in seen]
            terms = (w * value[x][a][d] * right_value[a][y][d] for w, a in zip(weights, seen, strict=True))
            return sum(terms) / (sum(weights) + self.options.floor)

        return [[[pair(x, y, d) for d in range(self.dims.binary)] for y in tokens] for x in tokens]

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """Gates and values of both sides, and their mean."""
        names = ("gate", "value", "right_gate", "right_value")
        channels = (
            plain_linear(given["binary"], parameters, name, dims.binary, bias=False).tolist()
            for name in names
        )
        means = self.reference(*channels, scope)
        return {"binary": plain_linear(means, parameters, "output", dims.binary, bias=False)}
