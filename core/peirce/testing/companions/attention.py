"""The operators of attention, a state operator, and binary atoms to begin with."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.parts import (
    BinaryPosition,
    Dims,
    NoOptions,
    Operator,
    Reader,
    StateOperator,
    Tokens,
    Writer,
    new_table,
    offsets,
)


class Score(Operator):
    """u[h](x,y) = sum_s K[h,s](x) v[h,s](y)."""

    name = "assoc"
    letter = "a"
    typing = "B <- U x U"
    scope_rule = "pairwise"
    pair = "score"

    def kernel(self) -> Reader:
        """K: [b, x, h, s]."""
        return Reader(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def premise(self) -> Reader:
        """v: [b, y, h, s]."""
        shape = {"h": self.dims.heads, "s": self.dims.head_size}
        return Reader(branch="U", shape=shape, cached=True)

    def output(self) -> Writer:
        """u: [b, x, y, h]."""
        return Writer(branch="B", shape={"h": self.dims.heads})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, h, s], [b, y, h, s] -> [b, x, y, h]."""
        return (kernel.transpose(1, 2) @ premise.permute(0, 2, 3, 1)).permute(0, 2, 3, 1)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The sum over s, term by term."""
        return [
            [
                [sum(k * v for k, v in zip(*pair, strict=True)) for pair in zip(row, other, strict=True)]
                for other in premise
            ]
            for row in kernel
        ]


class Sum(Operator):
    """u[h,s](x) = sum_a K[h](x,a) v[h,s](a), with K a softmax over a."""

    name = "join"
    letter = "j"
    typing = "U <- B x U"
    scope_rule = "reduce"
    pair = "value"

    def kernel(self) -> Reader:
        """K: [b, x, a, h]."""
        return Reader(branch="B", shape={"h": self.dims.heads}, activation="softmax")

    def premise(self) -> Reader:
        """v: [b, a, h, s]."""
        shape = {"h": self.dims.heads, "s": self.dims.head_size}
        return Reader(branch="U", shape=shape, cached=True)

    def output(self) -> Writer:
        """u: [b, x, h, s]."""
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        """[b, x, a, h], [b, a, h, s] -> [b, x, h, s]."""
        return (kernel.permute(0, 3, 1, 2) @ premise.transpose(1, 2)).transpose(1, 2)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        """The sum over a, term by term."""
        heads, sizes = range(self.dims.heads), range(self.dims.head_size)
        return [
            [[sum(k[h] * v[h][s] for k, v in zip(row, premise, strict=True)) for s in sizes] for h in heads]
            for row in kernel
        ]


class Here(StateOperator):
    """u(x) += W' tanh(W u(x)) and u(x,y) += V' tanh(V u(x,y))."""

    name = "bool"
    typing = "UB <- UB"
    scope_rule = "pairwise"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.unary = _hidden(dims.unary, dims.feedforward_unary)
        self.binary = _hidden(dims.binary, dims.feedforward_binary) if dims.binary else None

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of the branches that there are."""
        pairs = None
        if state.binary is not None and self.binary is not None:
            pairs = self.binary(state.binary)
        return Predicates(self.unary(state.unary), pairs)


def _hidden(width: int, hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, width))


class Offset(BinaryPosition):
    """u(x,y) = table[max(-2, min(y - x, 2)) + 2], counted over real tokens."""

    name = "companion"

    @classmethod
    def check(cls, options: NoOptions, dims: Dims, scope: str) -> str | None:
        """Why there is nothing to put the offsets in."""
        return None if dims.binary else "it gives the initial binary atoms, and the model has none"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.table = new_table(5, dims.binary)

    def binary(self, tokens: Tokens) -> Tensor:
        """[b or 1, x, y, d2]."""
        return self.table(offsets(tokens).clamp(-2, 2) + 2)
