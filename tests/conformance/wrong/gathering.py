"""Sums over the wrong axis; knows float64 only; keeps or fixes a length."""

from __future__ import annotations

from typing import Any

import torch
from peirce.algebra import Scope
from peirce.parts import Dims, Operator, Reader, Writer
from torch import Tensor

from wrong import Pair


class Gathering(Operator):
    """u[h,s](x) = sum_a K[h](x,a) v[h,s](a) (h + 1), K a softmax over a: join with heads of growing weight."""

    name = "gathering"
    typing = "U <- B x U"
    scope_rule = "reduce"

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        return None if scope == "bidirectional" else "it was made for encoders"

    def kernel(self) -> Reader:
        return Reader(branch="B", shape={"h": self.dims.heads}, bias=False, activation="softmax")

    def premise(self) -> Reader:
        return Reader(branch="U", shape=self.output().shape)

    def output(self) -> Writer:
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        sums = (kernel.permute(0, 3, 1, 2) @ premise.transpose(1, 2)).transpose(1, 2)
        return sums * self.growing(premise)

    def growing(self, like: Tensor) -> Tensor:
        """The weight of each head."""
        return torch.arange(1, self.dims.heads + 1, dtype=like.dtype, device=like.device)[:, None]

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        tokens, heads, sizes = range(len(premise)), range(self.dims.heads), range(self.dims.head_size)
        return [
            [
                [sum(kernel[x][a][h] * premise[a][h][s] for a in tokens) * (h + 1) for s in sizes]
                for h in heads
            ]
            for x in tokens
        ]


class WrongAxis(Gathering):
    """Sums over the rows, not over the tokens that they attend to."""

    name = "wrong_axis"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return super().infer(kernel.transpose(1, 2), premise, scope)


class OnlyFloat64(Gathering):
    """Takes its constants in float64, and so gives float64 whatever it is given."""

    name = "only_float64"

    def growing(self, like: Tensor) -> Tensor:
        return super().growing(like.double())


class RemembersLength(Gathering):
    """Keeps what it made at the first length."""

    name = "remembers_length"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.ones: Tensor | None = None

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        if self.ones is None:
            self.ones = kernel.new_ones(kernel.shape[1])
        return super().infer(kernel * self.ones[:, None], premise, scope)


class FixesLength(Gathering):
    """Loops over tokens, so that a traced graph has the length of its example."""

    name = "fixes_length"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        total = torch.zeros_like(premise)
        for a in range(kernel.shape[2]):
            total = total + kernel[:, :, a, :, None] * premise[:, a : a + 1]
        return total * self.growing(premise)


class Scatters(Gathering):
    """Adds up by a scatter, which TensorRT does not take; the values are right."""

    name = "scatters"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        products = kernel[..., None] * premise[:, None]
        first = torch.zeros_like(products, dtype=torch.int64)
        sums = torch.zeros_like(products).scatter_add(2, first, products)[:, :, 0]
        return sums * self.growing(premise)


PAIRS = [
    Pair(Gathering, WrongAxis, "reference"),
    Pair(Gathering, OnlyFloat64, "dtypes"),
    Pair(Gathering, RemembersLength, "sizes"),
]
FIXES_LENGTH = Pair(Gathering, FixesLength, "onnx")
SCATTERS = Pair(Gathering, Scatters, "tensorrt")
