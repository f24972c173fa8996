"""fuzzqe: sets of entities as fuzzy sets of properties, which logical operators of their own join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.kernels import on_cpu
from peirce.parts import Plan, plain_sigmoid
from peirce_kg.parts.systems.literals import DEPTH, VARIABLES
from peirce_kg.parts.systems.set_system import SetSystem, count_levels
from peirce_kg.parts.systems.system import (
    Literals,
    Numbers,
    PlainLiteral,
    embed_tokens,
    plain_standard,
    ranked_tokens,
)
from peirce_kg.parts.systems.unions import Unions, compose

EPSILON = 1e-7
"""What a truth value is at least before its logarithm is taken."""
_MAPS = ("entity", "projection", "intersection", "union")
"""What has a scale and a shift of its own."""


@frozen(kw_only=True)
class FuzzyOptions:
    """How relations are made.

    Args:
        bases: matrices of which each relation has a mean, weighed by the first numbers of its vector; 30 are published.
    """

    bases: int = field(default=30, validator=validators.ge(1))


class FuzzQE(SetSystem):
    """All numbers of `unary` are memberships in [0, 1], by s(x) = sigma(a x + b), with learnt a and b.

    There are four such maps: of entities; of projections s(LN(sum_j w_j (M_j q + b_j))), with the weights w of the
    relation and matrices of all; of intersections s(LN(prod q)); and of unions s(sum q - prod q) where their branches
    meet, as in the published code. LN has no parameters. Negation is 1 - q.
    """

    name = "fuzzqe"
    source = "FuzzQE (Chen et al., 2022), Section 4, product logic"
    Options = FuzzyOptions
    expected_failures: ClassVar = {
        "dims": "it has the sizes of all systems, and no network that `feedforward` would be the width of"
    }

    def __init__(self, options: FuzzyOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.bases, width = min(options.bases, plan.dims.unary), plan.dims.unary
        self.matrices = nn.Parameter(torch.empty(self.bases, width, width))
        self.biases = nn.Parameter(torch.empty(self.bases, width))
        nn.init.orthogonal_(self.matrices)
        nn.init.xavier_normal_(self.biases)
        # so that vectors in [0, 1) are memberships over most of it
        self.maps = nn.Parameter(torch.tensor([[8.0, -4.0]] * len(_MAPS)))
        self.vectors.data[ranked_tokens(plan)].uniform_()

    def initial_vectors(self, count: int, width: int) -> Tensor:
        """Normal; those of entities are uniform."""
        return torch.randn(count, width)

    def points(self, words: Tensor) -> Tensor:
        """The memberships of entities."""
        return self._memberships(words, "entity")

    def entities(self, vectors: Tensor) -> Tensor:
        """An entity's memberships."""
        return self._memberships(vectors, "entity")

    def _memberships(self, values: Tensor, operation: str) -> Tensor:
        """The numbers of a result, mapped to [0, 1]."""
        scale, shift = self.maps[_MAPS.index(operation)].to(values.dtype)
        return (scale * values + shift).sigmoid()

    def project(self, sets: Tensor, relations: Tensor) -> Tensor:
        """See the class."""
        weights = relations[..., : self.bases]
        each = torch.einsum("...i,rio->...ro", sets, self.matrices.to(sets.dtype)) + self.biases.to(
            sets.dtype
        )
        mixed = (weights.unsqueeze(-1) * each).sum(-2)
        return self._memberships(F.layer_norm(mixed, mixed.shape[-1:]), "projection")

    def intersect(self, sets: Tensor, chosen: Tensor) -> Tensor:
        """See the class."""
        product = self._product(sets, chosen)
        return self._memberships(F.layer_norm(product, product.shape[-1:]), "intersection")

    def _product(self, sets: Tensor, chosen: Tensor) -> Tensor:
        """The product of chosen sets, in logarithms."""
        return (chosen.to(sets.dtype) @ sets.clamp_min(EPSILON).log()).exp()

    def complement(self, sets: Tensor) -> Tensor:
        """1 - q."""
        return 1 - sets

    def _plain_memberships(self, values: Numbers, parameters: Mapping[str, Any], operation: str) -> Numbers:
        scale, shift = parameters["maps"][_MAPS.index(operation)]
        return plain_sigmoid(scale * values + shift)

    def plain_entity(self, vector: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `entities`."""
        return self._plain_memberships(vector, parameters, "entity")

    def plain_project(self, begun: Numbers, relation: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See the class."""
        each = np.einsum("i,rio->ro", begun, parameters["matrices"]) + np.asarray(parameters["biases"])
        mixed = plain_standard(relation[: self.bases] @ each, 1e-5)
        return self._plain_memberships(mixed, parameters, "projection")

    def plain_intersect(self, sets: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See the class."""
        product = plain_standard(np.clip(sets, EPSILON, None).prod(0), 1e-5)
        return self._plain_memberships(product, parameters, "intersection")

    def plain_complement(self, begun: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `complement`."""
        return 1 - begun

    def plain_execute(
        self, literals: Sequence[PlainLiteral], vectors: Numbers, parameters: Mapping[str, Any]
    ) -> list[Numbers] | None:
        """Of a single conjunction; where several meet is not stated."""
        several = any(max(each.source, each.target) > VARIABLES for each in literals)
        return None if several else super().plain_execute(literals, vectors, parameters)

    def execute(self, literals: Literals, words: Tensor) -> Tensor:
        """See `QuerySystem.execute`; conjunctions of a union meet at the variable below which they differ."""
        meets, feeds = Unions(literals), literals.same_variable(literals.sources, literals.targets)
        levels, led = count_levels(compose(feeds, meets.united)), feeds.any(2, keepdim=True)
        # any literal that leads to the variable at the head has the variable's set at its tail
        first = feeds & (feeds.long().cumsum(2) == 1)
        begun = self.entities(embed_tokens(words, literals.heads))
        relations, sets = embed_tokens(words, literals.relations), torch.zeros_like(begun)
        for level in range(DEPTH):
            here = literals.real & (levels == level)
            if on_cpu(here) and not here.any():
                continue
            starts = begun
            if level:
                starts = torch.where(led, first.to(sets.dtype) @ self._unite(sets, meets), begun)
            sets = torch.where(here.unsqueeze(2), self._literal(starts, relations, literals.negated), sets)
        return self._unite(sets, meets)

    def _unite(self, sets: Tensor, meets: Unions) -> Tensor:
        """The union of what stands at each literal's tail in all conjunctions that meet there."""
        met, branches = self._intersection(sets, meets.together), meets.branches
        total = branches.to(met.dtype) @ met
        united = self._memberships(total - self._product(met, branches), "union")
        return torch.where(branches.sum(2, keepdim=True) > 1, united, total)
