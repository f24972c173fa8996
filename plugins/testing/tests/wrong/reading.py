"""Operators of three and four readings of which one goes wrong: exchanged, cut off, unmasked, rounded, not declared."""

from __future__ import annotations

import math
from typing import Any

import torch
from many_readings import Difference, Edges
from torch import Tensor

from peirce.algebra import Scope
from peirce_basics.operators.attention import Attention
from wrong import flaw, wrong

flaw(
    Edges, "reference", "exchanges_values", "Multiplies the values of the wrong edges: r(x,a) l(a,y).",
    infer=lambda self, query, key, left, right, scope: Edges.infer(self, query, key, right, left, scope),
)  # fmt: skip
flaw(
    Edges, "gradients", "keeps_the_fourth", "Keeps its last reading out of the gradient.",
    infer=lambda self, *given: Edges.infer(self, *given[:3], given[3].detach(), given[4]),
)  # fmt: skip
flaw(
    Difference, "declaration", "forgets_a_reading", "Its typing leaves out one of two kernels.",
    typing="U <- B x U",
)  # fmt: skip
flaw(
    Difference, "precision", "rounds_the_second", "Takes its second kernel in float32.",
    infer=lambda self, signal, noise, values, scope: Difference.infer(
        self, signal, noise.float().to(signal.dtype), values, scope
    ),
)  # fmt: skip


@wrong("padding")
class WeighsPaths(Edges):
    """Normalises the weights over every token, in scope or not."""

    def infer(self, query: Tensor, key: Tensor, left: Tensor, right: Tensor, scope: Scope) -> Tensor:
        scores = (query.unsqueeze(3) * key.unsqueeze(1)).sum(-1)
        exact = scores.to(torch.promote_types(scores.dtype, torch.float32))
        weights = scope.zero_binary(exact.softmax(2)).to(scores.dtype)
        return (weights.unsqueeze(-1) * left.unsqueeze(3) * right.unsqueeze(1)).sum(2)

    def reference(self, *given: Any) -> Any:
        *channels, scope = given
        one = [torch.tensor(each, dtype=torch.float64).unsqueeze(0) for each in channels]
        return self.infer(*one, Scope.relation(torch.tensor(scope).unsqueeze(0)))[0].tolist()


@wrong("padding")
class SharpensWithLength(Attention):
    """Multiplies scores by the logarithm of the number of keys, padding included, for the sake of long texts."""

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return super().scores(query * math.log(1 + key.shape[1]), key)

    def reference(self, query: list[Any], key: list[Any], value: list[Any], scope: Any) -> list[Any]:
        factor = math.log(1 + len(key))
        sharp = [[[factor * each for each in head] for head in row] for row in query]
        return super().reference(sharp, key, value, scope)


flaw(
    Attention, "gradients", "fixes_its_keys", "Keeps the keys out of the gradient.",
    scores=lambda self, query, key: Attention.scores(self, query, key.detach()),
)  # fmt: skip
flaw(
    Attention, "precision", "sums_in_single", "Sums values in float32, whatever the model's dtype.",
    sums=lambda self, weights, value: Attention.sums(self, weights.float(), value.float()).to(value.dtype),
)  # fmt: skip
