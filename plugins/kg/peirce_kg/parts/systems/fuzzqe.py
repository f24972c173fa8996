"""fuzzqe: sets of entities as fuzzy sets of properties, which logical operators of their own join."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.parts import Plan, has_static_shapes
from peirce_kg.parts.systems.literals import DEPTH
from peirce_kg.parts.systems.set_system import SetSystem, count_levels
from peirce_kg.parts.systems.system import Literals, embed_tokens

EPSILON = 1e-7
"""What a truth value is at least before its logarithm is taken."""


@frozen(kw_only=True)
class FuzzyOptions:
    """How relations are made.

    Args:
        bases: matrices of which each relation has a mean, weighed by the first numbers of its vector; 30 are published.
    """

    bases: int = field(default=30, validator=validators.ge(1))


class FuzzQE(SetSystem):
    """All numbers of `unary` are memberships in [0, 1], by the logistic function of a vector.

    Projection: sigma(LN(sum_j a_j (M_j q + b_j))), with the weights a of the relation and matrices of all; LN has no
    parameters. Intersection is the product, negation 1 - q, union 1 - prod (1 - q) where its branches meet.
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

    def initial_vectors(self, count: int, width: int) -> Tensor:
        """Normal."""
        return torch.randn(count, width)

    def points(self, words: Tensor) -> Tensor:
        """The memberships of entities."""
        return words.sigmoid()

    def entities(self, vectors: Tensor) -> Tensor:
        """An entity's memberships."""
        return vectors.sigmoid()

    def project(self, sets: Tensor, relations: Tensor) -> Tensor:
        """See the class."""
        weights = relations[..., : self.bases]
        each = torch.einsum("...i,rio->...ro", sets, self.matrices.to(sets.dtype)) + self.biases.to(
            sets.dtype
        )
        mixed = (weights.unsqueeze(-1) * each).sum(-2)
        return F.layer_norm(mixed, mixed.shape[-1:]).sigmoid()

    def intersect(self, sets: Tensor, chosen: Tensor) -> Tensor:
        """The product, in logarithms."""
        return (chosen.to(sets.dtype) @ sets.clamp_min(EPSILON).log()).exp()

    def complement(self, sets: Tensor) -> Tensor:
        """1 - q."""
        return 1 - sets

    def execute(self, literals: Literals, words: Tensor) -> Tensor:
        """See `QuerySystem.execute`; conjunctions of a union meet at the variable below which they differ."""
        meets, feeds = _Unions(literals), literals.same_variable(literals.sources, literals.targets)
        levels, led = count_levels(_compose(feeds, meets.united)), feeds.any(2, keepdim=True)
        # any literal that leads to the variable at the head has the variable's set at its tail
        first = feeds & (feeds.long().cumsum(2) == 1)
        begun = self.entities(embed_tokens(words, literals.heads))
        relations, sets = embed_tokens(words, literals.relations), torch.zeros_like(begun)
        for level in range(DEPTH):
            here = literals.real & (levels == level)
            if not has_static_shapes(here) and not here.any():
                continue
            starts = begun
            if level:
                starts = torch.where(led, first.to(sets.dtype) @ self._unite(sets, meets), begun)
            sets = torch.where(here.unsqueeze(2), self._literal(starts, relations, literals.negated), sets)
        return self._unite(sets, meets)

    def _unite(self, sets: Tensor, meets: _Unions) -> Tensor:
        """The union of what stands at each literal's tail in all conjunctions that meet there."""
        met = self._intersection(sets, meets.together)
        return 1 - self.intersect(1 - met, meets.branches)


class _Unions:
    """Where the conjunctions of a query are united: at the variable below which alone they differ.

    together: literals that lead to one variable in one conjunction; united: those that lead to it in conjunctions which
    agree on everything else; branches: of these one for each set that is another: bool [b, x, y] each. So (A and C) or
    (B and C) is (A or B) and C.
    """

    def __init__(self, literals: Literals) -> None:
        together, equal = literals.same_conjunction(), literals.equal()
        self.together = literals.same_variable(literals.targets, literals.targets)
        below = together & literals.same_variable(literals.sources, literals.targets)
        for _ in range(DEPTH - 1):
            below = below | _compose(below, below)
        inside = self.together | _compose(self.together, below)
        outside = together & ~inside
        # y is outside of x and x' has nothing outside that equals it
        lacks = _compose(outside, ~_compose(equal, outside.transpose(1, 2)))
        names = literals.same_target()
        self.united = names & ~lacks & ~lacks.transpose(1, 2)
        under = _compose(self.together, below)
        alike = _compose(_compose(under, self.united), under.transpose(1, 2)) & self.united
        conjunction = literals.conjunctions()
        earlier = conjunction.unsqueeze(1) < conjunction.unsqueeze(2)
        # one literal for each conjunction, and no set twice that was united below
        first = ~self.together.tril(-1).any(2)
        again = (alike & earlier.transpose(1, 2)).any(2)
        self.branches = self.united & (first & ~again).unsqueeze(1)


def _compose(left: Tensor, right: Tensor) -> Tensor:
    """Whether some y stands between: bool [b, x, y], [b, y, z] -> [b, x, z]."""
    return (left.float() @ right.float()) > 0
