"""Ignores padding."""

from __future__ import annotations

from typing import Any

import torch
from peirce.algebra import Scope
from peirce.parts import Dims, Operator, Reader, Writer
from torch import Tensor

from wrong import Pair


class Sharing(Operator):
    """u[h,s](x) = K[h,s](x) * the mean of v[h,s](a) over what x may attend to."""

    name = "sharing"
    typing = "U <- U x U"
    scope_rule = "reduce"

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        return None if scope == "bidirectional" else "it was made for encoders"

    def kernel(self) -> Reader:
        return Reader(branch="U", shape=self.output().shape)

    def premise(self) -> Reader:
        return Reader(branch="U", shape=self.output().shape)

    def output(self) -> Writer:
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        length = kernel.shape[1]
        pairs = kernel.new_ones(1, length, length)
        if scope.pairs is not None:
            pairs = scope.pairs.to(kernel.dtype)
        sums = (pairs @ premise.flatten(2)).unflatten(2, premise.shape[2:])
        return kernel * sums / self.count(pairs)

    def count(self, pairs: Tensor) -> Tensor:
        """How many tokens each row attends to."""
        return pairs.sum(2).clamp_min(1)[:, :, None, None]

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        tokens, heads, sizes = range(len(kernel)), range(self.dims.heads), range(self.dims.head_size)
        return [
            [
                [
                    kernel[x][h][s]
                    * sum(premise[a][h][s] for a in tokens if scope[x][a])
                    / self.number(scope[x])
                    for s in sizes
                ]
                for h in heads
            ]
            for x in tokens
        ]

    def number(self, row: list[bool]) -> int:
        """How many tokens one row attends to."""
        return max(sum(row), 1)


class IgnoresPadding(Sharing):
    """Divides by the length, padding included."""

    name = "ignores_padding"

    def count(self, pairs: Tensor) -> Tensor:
        return torch.tensor(pairs.shape[2])

    def number(self, row: list[bool]) -> int:
        return len(row)


class CountsInBytes(Sharing):
    """Counts in bytes, which end at 255."""

    name = "counts_in_bytes"

    def count(self, pairs: Tensor) -> Tensor:
        return pairs.sum(2, dtype=torch.uint8).clamp_min(1)[:, :, None, None]


class Detaching(Sharing):
    """Keeps the kernel out of the gradient."""

    name = "detaching"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return super().infer(kernel.detach(), premise, scope)


class RoundsPremises(Sharing):
    """Rounds the premise, so that nothing flows back to it."""

    name = "rounds_premises"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return super().infer(kernel, premise.round(), scope)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        rounded = [[[float(round(v)) for v in row] for row in token] for token in premise]
        return super().reference(kernel, rounded, scope)


class TakesAThread(Sharing):
    """Sets how many threads torch has, where it is made."""

    name = "takes_a_thread"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        torch.set_num_threads(3)
        super().__init__(*args, **kwargs)


class DeclaresAnotherTyping(Sharing):
    """Says that its kernel is binary."""

    name = "declares_another_typing"
    typing = "U <- B x U"


PAIRS = [
    Pair(Sharing, IgnoresPadding, "padding"),
    Pair(Sharing, CountsInBytes, "limits"),
    Pair(Sharing, Detaching, "gradients"),
    Pair(Sharing, RoundsPremises, "gradients"),
    Pair(Sharing, TakesAThread, "kept"),
    Pair(Sharing, DeclaresAnotherTyping, "declaration"),
]
