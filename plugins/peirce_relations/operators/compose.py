"""compose: relations as distributions over a few symbols, composed by learned tables."""

from __future__ import annotations

from typing import ClassVar

import torch
from attrs import field, frozen, validators
from peirce.algebra import Predicates, Scope, at_least_float32
from peirce.parts import Dims, StateOperator
from torch import Tensor, nn

EPSILON, FLOOR = 1e-6, 0.01


@frozen(kw_only=True)
class ComposeOptions:
    """How a relation is divided.

    Args:
        facets: into how many groups of channels, each with a table of its own.
        loops: whether the edges (x,x) and (y,y), which say what is known of one node, also compose, by tables of their
            own; so a pair that no path connects gets a relation.
    """

    facets: int = field(default=8, validator=validators.ge(1))
    loops: bool = False


class Compose(StateOperator):
    """u[f,k](x,y) += sum_a w(x,a) w(a,y) log sum_ij p[f,i](x,a) p[f,j](a,y) T[f,i,j,k] / (0.01 + sum_a w(x,a) w(a,y)).

    p is the softmax of a facet's channels: which of its symbols a relation may be. T[f,i,j] is a distribution too: what
    symbols i and j compose to. w = 1 - exp(mean u - max u) is 0 where all symbols are alike, so that a pair of which
    nothing is known has no say; a is neither x nor y. Dropout hides third nodes, each from each pair anew, so that a
    relation is learnt by every way that leads to it and not by all together.

    With `loops`, both sums have one term more: w(x,x) w(y,y), times log sum_ij p[f,i](x,x) p[f,j](y,y) L[f,i,j,k].
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
        self.loops = nn.Parameter(torch.empty_like(self.tables)) if options.loops else None
        for tables in (self.tables, self.loops):
            if tables is not None:
                nn.init.normal_(tables)

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of the relations, [b, x, y, d2], at most 0; the properties stay as they are."""
        assert state.binary is not None
        logits = at_least_float32(state.binary).unflatten(-1, (self.options.facets, -1))  # [b, x, y, f, i]
        told = scope.zero_binary(1 - (logits.mean(-1) - logits.amax(-1)).exp())  # [b, x, y, f]
        p = logits.softmax(-1)
        first = told.permute(0, 2, 3, 1)  # w(x, a): [b, a, f, x]
        second = told.permute(0, 1, 3, 2)  # w(a, y): [b, a, f, y]
        weights = first.unsqueeze(4) * second.unsqueeze(3)  # [b, a, f, x, y]
        weights = weights * self._third(weights)
        symbols = p.shape[-1]
        tables = at_least_float32(self.tables).softmax(-1).transpose(2, 3).flatten(2)  # [f, i, (k, j)]
        left = p.permute(0, 2, 3, 1, 4) @ tables  # [b, a, f, x, (k, j)]
        left = left.unflatten(4, (symbols, symbols)).flatten(3, 4)  # [b, a, f, (x, k), j]
        found = (left @ p.permute(0, 1, 3, 4, 2)).unflatten(3, (-1, symbols))  # [b, a, f, x, k, y]
        sums, total = (weights.unsqueeze(4) * (found + EPSILON).log()).sum(1), weights.sum(1).unsqueeze(3)
        if self.loops is not None:
            found, weights = self._looped(p, told)
            sums, total = sums + weights * (found + EPSILON).log(), total + weights
        sums = sums / (FLOOR + total)
        sums = (sums - sums.amax(3, keepdim=True)).permute(0, 2, 4, 1, 3)  # [b, x, y, f, k]
        increments = scope.zero_binary(sums.flatten(3).to(state.binary.dtype))
        return Predicates(state.unary.new_zeros(()).expand_as(state.unary), increments)

    def _looped(self, p: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
        """What the edges of each node to itself compose to, [b, f, x, k, y], and the weights, [b, f, x, 1, y]."""
        assert self.loops is not None
        tables = at_least_float32(self.loops).softmax(-1)
        own, known = (each.diagonal(dim1=1, dim2=2) for each in (p, told))  # [b, f, i, x], [b, f, x]
        found = torch.einsum("bfix,bfjy,fijk->bfxky", own, own, tables)
        weights = known.unsqueeze(3) * known.unsqueeze(2)
        other = 1 - torch.eye(weights.shape[3], dtype=weights.dtype, device=weights.device)
        return found, (weights * other).unsqueeze(3)

    def _third(self, weights: Tensor) -> Tensor:
        """Which nodes are third ones, and not hidden: [b or 1, a, 1, x, y]."""
        count = weights.shape[3]
        other = 1 - torch.eye(count, dtype=weights.dtype, device=weights.device)
        third = other.unsqueeze(2) * other.unsqueeze(1) * other
        if self.training and self.rate:
            third = third * (torch.rand_like(weights[:, :, 0]) >= self.rate)
        return third.unsqueeze(-3)
