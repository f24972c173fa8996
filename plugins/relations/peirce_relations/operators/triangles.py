"""Triangle updates: a pair reads the two other sides of every triangle that it is part of.

Both come after a norm of the layer, which is the norm of their input, and give increments.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Norm, Predicates, Scope
from peirce.parts import Dims, PlainMap, PlainScope, StateOperator, plain_linear, plain_sigmoid, plain_softmax


@frozen(kw_only=True)
class TriangleMultiplicationOptions:
    """Which sides of a triangle a pair (x, y) reads.

    Args:
        direction: `outgoing` for (x, a) and (y, a), `incoming` for (a, x) and (a, y).
        epsilon: added to the variance of the norm inside.
    """

    direction: Literal["outgoing", "incoming"] = field(
        default="outgoing", validator=validators.in_(("outgoing", "incoming"))
    )
    epsilon: float = field(default=1e-5, validator=validators.gt(0))


@frozen(kw_only=True)
class TriangleAttentionOptions:
    """Round which of its nodes a pair (x, y) attends.

    Args:
        direction: `starting` attends to the pairs (x, a), biased by (y, a); `ending` to (a, y), biased by (a, x).
    """

    direction: Literal["starting", "ending"] = field(
        default="starting", validator=validators.in_(("starting", "ending"))
    )


class _Triangle(StateOperator):
    """An operator in which each pair reads others, so it needs the rows of all nodes."""

    typing = "B <- B"
    scope_rule = "reduce"

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        """There are relations, and no scope hides rows."""
        if not dims.binary:
            return "it updates relations, and the model has none"
        if scope in ("causal", "prefix"):
            return f"it reads the rows of all nodes, and the scope {scope!r} hides those of later ones"
        return None


class TriangleMultiplication(_Triangle):
    """u(x,y) += g(x,y) * W norm(sum_a p(x,a) q(y,a)), with p, q = sigmoid(G u) * W u and a gate g = sigmoid(G u).

    `incoming` sums p(a,x) q(a,y).
    """

    name = "triangle_multiplication"
    source = "AlphaFold 2 (Jumper et al., 2021), supplement, Algorithms 11 and 12"
    Options = TriangleMultiplicationOptions
    example: ClassVar = {"direction": "incoming"}

    def __init__(self, options: TriangleMultiplicationOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        width = dims.binary
        self.left, self.right = (nn.Linear(width, width) for _ in range(2))
        self.left_gate, self.right_gate, self.gate = (nn.Linear(width, width) for _ in range(3))
        self.norm = Norm(width, affine=True, epsilon=options.epsilon)
        self.output = nn.Linear(width, width)

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of the relations, [b, x, y, d2]; the properties stay as they are."""
        atoms = state.binary
        assert atoms is not None
        left, right = (
            scope.zero_binary(gate(atoms).sigmoid() * side(atoms)).permute(0, 3, 1, 2)
            for gate, side in ((self.left_gate, self.left), (self.right_gate, self.right))
        )
        outgoing = self.options.direction == "outgoing"
        sums = left @ right.transpose(2, 3) if outgoing else left.transpose(2, 3) @ right
        return _increment(
            state, self.gate(atoms).sigmoid() * self.output(self.norm(sums.permute(0, 2, 3, 1)))
        )

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: the sum over the third node, its norm, and the gate."""
        relations, tokens, width = given["binary"], range(len(scope)), dims.binary

        def read(name: str) -> Any:
            return plain_linear(relations, parameters, name, width)

        one, other = (read(side) * plain_sigmoid(read(f"{side}_gate")) for side in ("left", "right"))

        def sums(x: int, y: int, c: int) -> float:
            if self.options.direction == "outgoing":
                return sum(one[x][a][c] * other[y][a][c] for a in tokens if scope[x][a] and scope[y][a])
            return sum(one[a][x][c] * other[a][y][c] for a in tokens if scope[a][x] and scope[a][y])

        def norm(values: list[float]) -> list[float]:
            mean = sum(values) / width
            deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / width + self.options.epsilon)
            scales = zip(values, parameters["norm.weight"], parameters["norm.bias"], strict=True)
            return [(v - mean) / deviation * weight + bias for v, weight, bias in scales]

        found = [[norm([sums(x, y, c) for c in range(width)]) for y in tokens] for x in tokens]
        return {"binary": plain_sigmoid(read("gate")) * plain_linear(found, parameters, "output", width)}


class TriangleAttention(_Triangle):
    """u(x,y) += W (g(x,y) * sum_a K[h](x,y,a) v(x,a)), K a softmax over a of q(x,y) k(x,a) / sqrt(s) + b[h](y,a).

    `ending` does the same with every pair turned round: k(a,y), v(a,y) and b(a,x). g = sigmoid(G u), one a channel.
    """

    name = "triangle_attention"
    source = "AlphaFold 2 (Jumper et al., 2021), supplement, Algorithms 13 and 14"
    Options = TriangleAttentionOptions
    example: ClassVar = {"direction": "ending"}

    def __init__(self, options: TriangleAttentionOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        width, self.channels = dims.binary, (dims.heads, dims.head_size)
        inner = dims.heads * dims.head_size
        self.query, self.key, self.value = (nn.Linear(width, inner, bias=False) for _ in range(3))
        self.bias = nn.Linear(width, dims.heads, bias=False)
        self.gate = nn.Linear(width, inner)
        self.output = nn.Linear(inner, width)

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of the relations, [b, x, y, d2]; the properties stay as they are."""
        atoms = state.binary
        assert atoms is not None
        ending = self.options.direction == "ending"
        if ending:
            atoms = atoms.transpose(1, 2)
            scope = scope if scope.pairs is None else Scope.relation(scope.pairs.transpose(1, 2))
        query, key, value = (
            each(atoms).unflatten(3, self.channels).transpose(2, 3)
            for each in (self.query, self.key, self.value)
        )  # [b, x, h, y, s]
        scores = query * self.channels[1] ** -0.5 @ key.transpose(3, 4)  # [b, x, h, y, a]
        scores = scores + self.bias(atoms).permute(0, 3, 1, 2).unsqueeze(1)
        weights = scope.softmax(scores.permute(0, 1, 4, 2, 3)).permute(0, 1, 3, 4, 2)
        sums = (weights @ value).transpose(2, 3).flatten(3)
        result = self.output(self.gate(atoms).sigmoid() * sums)
        return _increment(state, result.transpose(1, 2) if ending else result)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair and head by head: the softmax over the third node, and the gated sum."""
        tokens, size, ending = range(len(scope)), dims.head_size, self.options.direction == "ending"
        relations = [
            [given["binary"][y][x] if ending else given["binary"][x][y] for y in tokens] for x in tokens
        ]
        inner, count = dims.heads * size, len(tokens)

        def read(name: str) -> Any:
            found = plain_linear(relations, parameters, name, inner, bias=False)
            return found.reshape(count, count, dims.heads, size)

        query, key, value = (read(name) for name in ("query", "key", "value"))
        bias = plain_linear(relations, parameters, "bias", dims.heads, bias=False)

        def head(x: int, y: int, h: int) -> list[float]:
            seen = [scope[a][x] if ending else scope[x][a] for a in tokens]
            products = [sum(query[x][y][h] * key[x][a][h]) / math.sqrt(size) + bias[y][a][h] for a in tokens]
            weights = plain_softmax(products, seen)
            return [sum(weights[a] * value[x][a][h][s] for a in tokens) for s in range(size)]

        sums = [[[s for h in range(dims.heads) for s in head(x, y, h)] for y in tokens] for x in tokens]
        gated = plain_sigmoid(plain_linear(relations, parameters, "gate", inner)) * sums
        result = plain_linear(gated, parameters, "output", dims.binary)
        return {"binary": result.transpose(1, 0, 2) if ending else result}


def _increment(state: Predicates, binary: Tensor) -> Predicates:
    return Predicates(state.unary.new_zeros(()).expand_as(state.unary), binary)
