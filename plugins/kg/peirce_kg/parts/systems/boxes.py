"""gqe, query2box: sets of entities as points and as boxes, which relations move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor

from peirce.parts import Plan, plain_softmax
from peirce_kg.parts.systems.literals import no_negation, no_shared_set, tree
from peirce_kg.parts.systems.set_system import (
    Mlp,
    SetSystem,
    plain_mlp,
    plain_narrowing,
    softmax_over_chosen,
)
from peirce_kg.parts.systems.system import Numbers

MARGIN = 24.0
"""The published margin of both."""


@frozen(kw_only=True)
class TranslationOptions:
    """How a new model begins.

    Args:
        margin: gamma; with the dimensions it gives the range of new vectors, (gamma + 2) / dimensions.
    """

    margin: float = field(default=MARGIN, validator=validators.gt(0.0))


class Gqe(SetSystem):
    """All numbers of `unary` are a point.

    Projection: q + r. Intersection: sum of w_i q_i, with w = softmax over the sets of MLP(q_i). Union: by the
    disjunctive normal form. There is no negation.

    These are the operators of the published code of BetaE, with which GQE is compared ever since.
    """

    name = "gqe"
    source = "GQE (Hamilton et al., 2018), as in the code of BetaE (Ren & Leskovec, 2020)"
    Options = TranslationOptions
    rules = (no_negation, tree, no_shared_set)

    def __init__(self, options: TranslationOptions, plan: Plan) -> None:
        self.range = (options.margin + 2) / self.set_dimensions(plan)
        super().__init__(options, plan)
        width = self.set_dimensions(plan)
        self.attention = Mlp(width, plan.dims.feedforward_unary, width)

    @classmethod
    def set_dimensions(cls, plan: Plan) -> int:
        """The dimensions of a point."""
        return max(1, plan.dims.unary)

    def initial_vectors(self, count: int, width: int) -> Tensor:
        """Uniform."""
        return (torch.rand(count, width) * 2 - 1) * self.range

    def entities(self, vectors: Tensor) -> Tensor:
        """A point."""
        return vectors

    def project(self, sets: Tensor, relations: Tensor) -> Tensor:
        """Moved by the relation."""
        return sets + relations

    def intersect(self, sets: Tensor, chosen: Tensor) -> Tensor:
        """A weighted mean."""
        return (softmax_over_chosen(self.attention(sets), chosen) * sets.unsqueeze(1)).sum(2)

    def complement(self, sets: Tensor) -> Tensor:
        """The set itself: no query with a negation comes here."""
        return sets

    def plain_project(self, begun: Numbers, relation: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `project`."""
        return begun + relation

    def plain_intersect(self, sets: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `intersect`."""
        weights = plain_softmax(plain_mlp("attention", sets, parameters), axis=0)
        return np.asarray((weights * sets).sum(0))


class Query2Box(Gqe):
    """The first half of `unary` numbers are a box's centre, the second how far it reaches from there.

    Entity: a centre that reaches nowhere; its second half is not used. Projection: both are added. Intersection:
    centres as in GQE; reaches as the least one times sigma(DeepSets of the reaches). Union: by the disjunctive normal
    form. There is no negation. Relations begin with reaches in [0, range].
    """

    name = "query2box"
    source = "Query2box (Ren et al., 2020), Section 3, as in the code of BetaE"

    def __init__(self, options: TranslationOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.narrowing = Mlp(self.dimensions, plan.dims.feedforward_unary, self.dimensions)

    @classmethod
    def set_dimensions(cls, plan: Plan) -> int:
        """The dimensions of a box."""
        return max(1, plan.dims.unary // 2)

    def initial_vectors(self, count: int, width: int) -> Tensor:
        """Uniform; how far relations reach is not below 0."""
        centres, reaches = super().initial_vectors(count, width).chunk(2, 1)
        return torch.cat([centres, reaches.abs()], 1)

    def entities(self, vectors: Tensor) -> Tensor:
        """A centre."""
        centre = vectors[..., : self.dimensions]
        return torch.cat([centre, torch.zeros_like(centre)], -1)

    def intersect(self, sets: Tensor, chosen: Tensor) -> Tensor:
        """A mean centre and a narrowed least reach."""
        centres, reaches = sets.chunk(2, -1)
        inner, outer = self.narrowing
        share = chosen.to(sets.dtype)
        mean = share @ F.relu(inner(reaches)) / share.sum(2, keepdim=True).clamp_min(1)
        far = torch.finfo(sets.dtype).max
        least = torch.where(chosen.unsqueeze(3), reaches.unsqueeze(1), far).amin(2)
        least = torch.where(chosen.any(2, keepdim=True), least, 0)
        return torch.cat([super().intersect(centres, chosen), least * outer(mean).sigmoid()], -1)

    def plain_entity(self, vector: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `entities`."""
        return np.append(vector[: self.dimensions], np.zeros(self.dimensions))

    def plain_intersect(self, sets: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `intersect`."""
        centres, reaches = np.split(sets, 2, 1)
        least = reaches.min(0) * plain_narrowing(reaches, parameters)
        return np.append(super().plain_intersect(centres, parameters), least)
