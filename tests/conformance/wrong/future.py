"""Leaks the future through a denominator."""

from __future__ import annotations

import math
from typing import Any

import torch
from peirce.algebra import Scope
from peirce.kernels import weigh
from peirce.parts import Operator, Reader, Writer
from torch import Tensor

from wrong import Pair


class Weighing(Operator):
    """u[h,s](x) = sum_a K[h,s](x,a) v[h](x,a), K a softmax over what x may attend to: Table 2's cjoin."""

    name = "weighing"
    typing = "U <- U x B"
    scope_rule = "reduce"

    def kernel(self) -> Reader:
        return Reader(branch="U", shape=self.output().shape, activation="softmax", cached=True)

    def premise(self) -> Reader:
        return Reader(branch="B", shape={"h": self.dims.heads})

    def output(self) -> Writer:
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return weigh(kernel, premise, scope)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        tokens, heads, sizes = range(len(kernel)), range(self.dims.heads), range(self.dims.head_size)
        result = []
        for x in tokens:
            normal = self.denominators(x, scope)
            row = []
            for h in heads:
                sums = []
                for s in sizes:
                    top = max((kernel[a][h][s] for a in normal), default=0.0)
                    total = sum(math.exp(kernel[a][h][s] - top) for a in normal)
                    seen = [a for a in tokens if scope[x][a]]
                    sums.append(sum(math.exp(kernel[a][h][s] - top) / total * premise[x][a][h] for a in seen))
                row.append(sums)
            result.append(row)
        return result

    def denominators(self, x: int, scope: list[list[bool]]) -> list[int]:
        """The tokens over which row x is normalised."""
        return [a for a in range(len(scope)) if scope[x][a]]


class LeaksTheFuture(Weighing):
    """One denominator for all rows, over every token that any row may attend to."""

    name = "leaks_the_future"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        logits = kernel if kernel.dtype == torch.float64 else kernel.float()
        if scope.pairs is not None:
            anyone = scope.pairs.any(1)[:, :, None, None]
            logits = logits.masked_fill(~anyone, torch.finfo(logits.dtype).min)
        weights = logits.softmax(1).to(kernel.dtype)
        return torch.einsum("bahs,bxah->bxhs", weights, premise)

    def denominators(self, x: int, scope: list[list[bool]]) -> list[int]:
        return [a for a in range(len(scope)) if any(row[a] for row in scope)]


PAIRS = [Pair(Weighing, LeaksTheFuture, "no_look_ahead")]
