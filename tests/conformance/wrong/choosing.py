"""NaN where a row sees nothing."""

from __future__ import annotations

import math
from typing import Any

import torch
from peirce.algebra import Scope
from peirce.parts import Operator, Reader, Writer
from torch import Tensor

from wrong import Pair


class Choosing(Operator):
    """u[h](x) = sum_a K[h](a) v[h](a), K a softmax over what x may attend to, written out."""

    name = "choosing"
    typing = "U <- U x U"
    scope_rule = "reduce"

    def kernel(self) -> Reader:
        return Reader(branch="U", shape={"h": self.dims.heads}, activation="softmax", cached=True)

    def premise(self) -> Reader:
        return Reader(branch="U", shape={"h": self.dims.heads}, cached=True)

    def output(self) -> Writer:
        return Writer(branch="U", shape={"h": self.dims.heads})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        count = kernel.shape[1] if scope.pairs is None else scope.pairs.shape[1]
        rows = kernel.unsqueeze(1).expand(-1, count, -1, -1)
        return (self.weights(rows, scope) * premise.unsqueeze(1)).sum(2)

    def weights(self, rows: Tensor, scope: Scope) -> Tensor:
        """[b, x, a, h], normalised over a."""
        return scope.softmax(rows)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        tokens, heads = range(len(kernel)), range(self.dims.heads)
        result = []
        for x in tokens:
            seen = [a for a in tokens if scope[x][a]]
            row = []
            for h in heads:
                top = max((kernel[a][h] for a in seen), default=0.0)
                weights = [math.exp(kernel[a][h] - top) for a in seen]
                row.append(
                    sum(w * premise[a][h] for w, a in zip(weights, seen, strict=True)) / (sum(weights) or 1.0)
                )
            result.append(row)
        return result


class NanOnEmptyRows(Choosing):
    """Masks with minus infinity, as attention is often written."""

    name = "nan_on_empty_rows"

    def weights(self, rows: Tensor, scope: Scope) -> Tensor:
        if scope.pairs is not None:
            rows = rows.masked_fill(~scope.pairs.unsqueeze(3), -torch.inf)
        return rows.softmax(2)


class Overflows(Choosing):
    """Takes the exponential of the logits as they are."""

    name = "overflows"

    def weights(self, rows: Tensor, scope: Scope) -> Tensor:
        weights = scope.zero_binary(rows.exp())
        return weights / weights.sum(2, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)


class FearsZero(Choosing):
    """Takes the largest logit of all tokens, and adds a small number to the denominator of those in scope."""

    name = "fears_zero"

    def weights(self, rows: Tensor, scope: Scope) -> Tensor:
        exact = rows.to(torch.promote_types(rows.dtype, torch.float32))
        weights = scope.zero_binary((exact - exact.amax(2, keepdim=True)).exp())
        return (weights / (weights.sum(2, keepdim=True) + 1e-12)).to(rows.dtype)


class CausalSeesPadding(Choosing):
    """Masks the future in causal scopes by a triangle, which knows no padding."""

    name = "causal_sees_padding"

    def weights(self, rows: Tensor, scope: Scope) -> Tensor:
        if not scope.causal:
            return scope.softmax(rows)
        length = rows.shape[1]
        past = torch.ones(length, length, dtype=torch.bool, device=rows.device).tril()
        return Scope.relation(past.unsqueeze(0)).softmax(rows)


PAIRS = [
    Pair(Choosing, NanOnEmptyRows, "empty_rows"),
    Pair(Choosing, Overflows, "finite"),
    Pair(Choosing, FearsZero, "no_look_ahead"),
    Pair(Choosing, CausalSeesPadding, "scope_forms"),
]
