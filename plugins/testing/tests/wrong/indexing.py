"""Operators that ask the scope where tokens stand, and take something else for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from peirce.algebra import Scope
from peirce.parts import Operator, PlainScope, Reader, Writer
from wrong import exact, flaw

RATE = 0.8


class Fading(Operator):
    """u[h,s](x) = sum_a K[h](x,a) 0.8 ** |x - a| v[h,s](a), with K a softmax over a."""

    name = "fading"
    typing = "U <- B x U"
    scope_rule = "reduce"

    def kernel(self) -> Reader:
        return Reader(branch="B", shape={"h": self.dims.heads}, activation="softmax")

    def premise(self) -> Reader:
        return Reader(branch="U", shape=self.output().shape, cached=True)

    def output(self) -> Writer:
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        distance = (self.rows(kernel, scope).unsqueeze(2) - self.columns(kernel, scope).unsqueeze(1)).abs()
        faded = kernel * (RATE ** distance.to(kernel.dtype)).unsqueeze(3)
        return torch.einsum("bxah,bahs->bxhs", faded, premise)

    def rows(self, kernel: Tensor, scope: Scope) -> Tensor:
        """int64 [b or 1, x]."""
        return scope.rows

    def columns(self, kernel: Tensor, scope: Scope) -> Tensor:
        """int64 [b or 1, a]."""
        return scope.columns

    def reference(self, kernel: list[Any], premise: list[Any], scope: PlainScope) -> list[Any]:
        fading = exact([[RATE ** abs(x - a) for a in scope.columns] for x in scope.rows])
        return torch.einsum("xah,xa,ahs->xhs", exact(kernel), fading, exact(premise)).tolist()


flaw(
    Fading, "padding", "fades_by_places", "Counts places from the left, and with them padding.",
    rows=lambda self, kernel, scope: torch.arange(kernel.shape[1], device=kernel.device).unsqueeze(0),
    columns=lambda self, kernel, scope: torch.arange(kernel.shape[2], device=kernel.device).unsqueeze(0),
)  # fmt: skip
flaw(
    Fading, "memory", "fades_by_new_places", "Counts the rows from 0, whatever stands before them.",
    rows=lambda self, kernel, scope: scope.rows - scope.rows[:, :1],
)  # fmt: skip
flaw(
    Fading, "memory", "fades_by_columns", "Takes the first columns for the rows, which they are where all are rows.",
    rows=lambda self, kernel, scope: scope.columns[:, : kernel.shape[1]],
)  # fmt: skip
