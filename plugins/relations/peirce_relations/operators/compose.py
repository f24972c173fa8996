"""compose: relations as distributions over a few symbols, composed by learned tables."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope, at_least_float32
from peirce.parts import Dims, PlainMap, PlainScope, StateOperator, plain_softmax

EPSILON, FLOOR = 1e-6, 0.01


@frozen(kw_only=True)
class ComposeOptions:
    """How a relation is divided.

    Args:
        facets: into how many groups of channels, each with a table of its own.
        spread: the standard deviation of the tables' logits at the start. Tables that begin almost even compose to
            almost nothing, so that long compositions may not be learnt.
    """

    facets: int = field(default=8, validator=validators.ge(1))
    spread: float = field(default=1.0, validator=validators.gt(0))


class Compose(StateOperator):
    """u[f,k](x,y) += sum_a w(x,a) w(a,y) log sum_ij p[f,i](x,a) p[f,j](a,y) T[f,i,j,k] / (0.01 + sum_a w(x,a) w(a,y)).

    p is the softmax of a facet's channels: which of its symbols a relation may be. T[f,i,j] is a distribution too: what
    symbols i and j compose to. w = 1 - exp(mean u - max u) is 0 where all symbols are alike, so that a pair of which
    nothing is known has no effect; a is neither x nor y. Dropout hides third nodes, each from each pair anew, so that a
    relation is learnt by every way that leads to it and not by all together.
    """

    name = "compose"
    typing = "B <- B"
    scope_rule = "reduce"
    source = "Khalid & Schockaert (2025), EpiGNN, for facets and their composition; all pairs and the mean are ours"
    Options = ComposeOptions
    example: ClassVar = {"facets": 1}

    @classmethod
    def check(cls, options: ComposeOptions, dims: Dims, scope: str) -> str | None:
        """Every facet has two symbols or more, and no scope hides rows."""
        if dims.binary % options.facets or dims.binary < 2 * options.facets:
            return (
                f"{dims.binary} binary channels do not give {options.facets} facets an equal number of symbols each, "
                "two or more; set model.dims.binary"
            )
        if scope in ("causal", "prefix"):
            return f"it reads the rows of all nodes, and the scope {scope!r} hides those of later ones"
        return None

    def __init__(self, options: ComposeOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.rate, symbols = dims.dropout, dims.binary // options.facets
        self.tables = nn.Parameter(torch.empty(options.facets, symbols, symbols, symbols))
        nn.init.normal_(self.tables, std=options.spread)

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of the relations, [b, x, y, d2], at most 0; the properties stay as they are."""
        assert state.binary is not None
        # Facets and symbols lead: reductions over a few symbols are slow where they are innermost.
        logits = (
            at_least_float32(state.binary).unflatten(-1, (self.options.facets, -1)).permute(3, 4, 0, 1, 2)
        )
        certainty = 1 - (logits.mean(1) - logits.amax(1)).exp()  # [f, b, x, y]
        certainty = scope.zero_binary(certainty.permute(1, 2, 3, 0)).permute(3, 0, 1, 2)
        p = logits.contiguous().softmax(1)  # [f, i, b, x, y]
        symbols = p.shape[1]
        weights = certainty.transpose(2, 3).unsqueeze(4) * certainty.unsqueeze(
            3
        )  # w(x, a) w(a, y): [f, b, a, x, y]
        weights = weights * self._third(weights)
        tables = (at_least_float32(self.tables).softmax(-1) + EPSILON).flatten(2)  # [f, i, (j, k)]
        left = (tables.transpose(1, 2) @ p.flatten(2)).unflatten(2, p.shape[2:])  # [f, (j, k), b, x, a]
        left = left.unflatten(1, (symbols, symbols)).permute(0, 3, 5, 2, 4, 1)  # [f, b, a, k, x, j]
        found = left.flatten(3, 4) @ p.permute(0, 2, 3, 1, 4)  # [f, b, a, (k, x), y]
        found = found.unflatten(3, (symbols, -1))
        sums = (weights.unsqueeze(3) * found.log()).sum(2) / (FLOOR + weights.sum(2)).unsqueeze(2)
        sums = (sums - sums.amax(2, keepdim=True)).permute(1, 3, 4, 0, 2)  # [b, x, y, f, k]
        increments = scope.zero_binary(sums.flatten(3).to(state.binary.dtype))
        return Predicates(state.unary.new_zeros(()).expand_as(state.unary), increments)

    def _third(self, weights: Tensor) -> Tensor:
        """Which nodes are third ones, and not hidden: [b or 1, a, x, y]."""
        count = weights.shape[3]
        other = 1 - torch.eye(count, dtype=weights.dtype, device=weights.device)
        third = other.unsqueeze(2) * other.unsqueeze(1) * other
        if self.training and self.rate:
            third = third * (torch.rand_like(weights[0]) >= self.rate)
        return third

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair and facet by facet: what the symbols on both sides of each third node compose to."""
        facets, tokens = self.options.facets, range(len(scope))
        count = dims.binary // facets

        def symbols(x: int, y: int, f: int) -> list[float]:
            return list(given["binary"][x][y][f * count : (f + 1) * count])

        def certainty(x: int, y: int, f: int) -> float:
            found = symbols(x, y, f)
            return (1 - math.exp(sum(found) / count - max(found))) if scope[x][y] else 0.0

        def pair(x: int, y: int, f: int) -> list[float]:
            total, sums = FLOOR, [0.0] * count
            for a in (a for a in tokens if a not in (x, y) and x != y):
                weight = certainty(x, a, f) * certainty(a, y, f)
                left, right = plain_softmax(symbols(x, a, f)), plain_softmax(symbols(a, y, f))
                total += weight
                for k in range(count):
                    composed = sum(
                        left[i] * right[j] * (plain_softmax(parameters["tables"][f][i][j])[k] + EPSILON)
                        for i in range(count)
                        for j in range(count)
                    )
                    sums[k] += weight * math.log(composed)
            return [(each - max(sums)) / total for each in sums]

        return {
            "binary": [[[k for f in range(facets) for k in pair(x, y, f)] for y in tokens] for x in tokens]
        }
