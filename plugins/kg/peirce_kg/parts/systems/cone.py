"""cone: sets of entities as sectors of a circle, a cone for each dimension."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.parts import Plan, plain_softmax
from peirce_kg.parts.systems.set_system import (
    Mlp,
    SetSystem,
    plain_mlp,
    plain_narrowing,
    softmax_over_chosen,
)
from peirce_kg.parts.systems.system import Numbers, ranked_tokens

NEAR = 1e-3
"""Coordinates below this have no angle to speak of; the published code has the same bound."""


@frozen(kw_only=True)
class ConeOptions:
    """How a new model begins, how deep its projection is, and whose equations it has.

    Args:
        margin: gamma; with the width it gives the range of new vectors, (gamma + 2) / dimensions. Published are 30 on
            FB15k and FB15k-237, and 20 on NELL.
        projection_layers: hidden layers of the projection.
        form: `paper`, or `code` for what the published code has instead, see the class; the ready spec has `code`.
    """

    margin: float = field(default=20.0, validator=validators.gt(0.0))
    projection_layers: int = field(default=2, validator=validators.ge(1))
    form: Literal["paper", "code"] = "paper"


class ConE(SetSystem):
    """The first half of `unary` numbers are the axes, in [-pi, pi], the second the apertures, in [0, 2 pi].

    Entity: a cone without aperture. Projection: MLP([axis + axis_r; aperture + aperture_r]), axes by pi tanh(x) and
    apertures by pi tanh(2 x) + pi. Intersection: the axis is the argument of the weighted sum of the axes' points on
    the circle, with softmax weights of MLP([lower; upper]); the aperture is the least one times sigma(DeepSets of
    [lower; upper]), where lower and upper are axis -+ aperture / 2. Complement: the axis turned by pi, the aperture
    2 pi less. Union: by the disjunctive normal form. The attention and the inner DeepSets network have one hidden
    layer, as in the published code.

    `form = "paper"` reads a vector v as pi tanh(pi v / range). `form = "code"` is the published code's: pi tanh(v /
    range); the projection sees half apertures, as that code keeps them; an entity has no numbers for an aperture; in
    training, apertures are dropped out before the least one is taken; and a mean direction's x of less than 0.001 is
    0.001.
    """

    name = "cone"
    source = "ConE (Zhang et al., 2021), Section 4"
    Options = ConeOptions

    def __init__(self, options: ConeOptions, plan: Plan) -> None:
        self.range = (options.margin + 2) / max(1, plan.dims.unary // 2)
        self.code = options.form == "code"
        self.turn = 1 / self.range if self.code else math.pi / self.range
        super().__init__(options, plan)
        width, hidden, half = plan.dims.unary, plan.dims.feedforward_unary, self.dimensions
        self.projection = Mlp(width, *[hidden] * options.projection_layers, width)
        self.attention, self.narrowing = Mlp(width, half, half), Mlp(width, half, half)
        dropout = plan.dims.dropout if self.code else 0.0
        self.dropout = nn.Dropout(dropout)
        self.largest = 2 * math.pi / (1 - dropout)
        if self.code:
            self._close_apertures(ranked_tokens(plan))

    def _close_apertures(self, entities: slice) -> None:
        """Axes for all tokens, and numbers for apertures of tokens that are not entities only."""
        axes, apertures = self.vectors.detach().tensor_split([self.dimensions], 1)
        has = torch.ones(len(axes), dtype=torch.bool)
        has[entities] = False
        self.vectors = nn.Parameter(axes.clone())
        self.apertures = nn.Parameter(torch.cat([apertures[: entities.start], apertures[entities.stop :]]))
        self.register_buffer("slots", torch.where(has, has.cumsum(0), 0), persistent=False)

    def names(self) -> Tensor:
        """See `QuerySystem.names`."""
        if not self.code:
            return self.vectors
        none = torch.zeros_like(self.vectors[:1])
        return torch.cat([self.vectors, torch.cat([none, self.apertures])[self.get_buffer("slots")]], 1)

    def initial_vectors(self, count: int, width: int) -> Tensor:
        """Uniform; as angles, in [-pi, pi] before tanh, or in [-1, 1] in the form `code`."""
        return (torch.rand(count, width) * 2 - 1) * self.range

    def points(self, words: Tensor) -> Tensor:
        """The axes of entities, and no apertures."""
        return self.entities(words)

    def entities(self, vectors: Tensor) -> Tensor:
        """The first half of a vector as axes."""
        axis = _axis(vectors[..., : self.dimensions] * self.turn)
        return torch.cat([axis, torch.zeros_like(axis)], -1)

    def project(self, sets: Tensor, relations: Tensor) -> Tensor:
        """Turned and widened by the relation, then mixed by an MLP."""
        turn, widened = (relations * self.turn).chunk(2, -1)
        if self.code:
            axis, aperture = sets.chunk(2, -1)
            sets = torch.cat([axis, aperture / 2], -1)
        mixed = sets + torch.cat([_axis(turn), _axis(widened)], -1)
        axis, aperture = self.projection(mixed).chunk(2, -1)
        return torch.cat([_axis(axis), math.pi * torch.tanh(2 * aperture) + math.pi], -1)

    def intersect(self, sets: Tensor, chosen: Tensor) -> Tensor:
        """A mean direction (SemanticAverage) and a narrowed least aperture (CardMin)."""
        axis, aperture = sets.chunk(2, -1)
        borders = torch.cat([axis - aperture / 2, axis + aperture / 2], -1)
        weights = softmax_over_chosen(self.attention(borders), chosen)
        x = (weights * axis.cos().unsqueeze(1)).sum(2)
        y = (weights * axis.sin().unsqueeze(1)).sum(2)
        inner, outer = self.narrowing
        share = chosen.to(sets.dtype)
        mean = share @ F.relu(inner(borders)) / share.sum(2, keepdim=True).clamp_min(1)
        aperture = self.dropout(aperture)
        least = torch.where(chosen.unsqueeze(3), aperture.unsqueeze(1), self.largest).amin(2)
        turn = torch.atan2(y, torch.where(x.abs() < NEAR, NEAR, x)) if self.code else _argument(x, y)
        return torch.cat([turn, least * outer(mean).sigmoid()], -1)

    def complement(self, sets: Tensor) -> Tensor:
        """The other side of the circle."""
        axis, aperture = sets.chunk(2, -1)
        turn = torch.where(axis < 0, axis + math.pi, axis - math.pi)
        return torch.cat([turn, 2 * math.pi - aperture], -1)

    def plain_entity(self, vector: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `entities`."""
        axes = math.pi * np.tanh(vector[: self.dimensions] * self.turn)
        return np.append(axes, np.zeros(self.dimensions))

    def plain_project(
        self, begun: Numbers, relation: Numbers, parameters: Mapping[str, Any]
    ) -> Numbers | None:
        """See `project`; of the paper's form."""
        if self.code:
            return None
        moved = begun + math.pi * np.tanh(relation * self.turn)
        axes, apertures = np.split(plain_mlp("projection", moved, parameters), 2)
        return np.append(math.pi * np.tanh(axes), math.pi * np.tanh(2 * apertures) + math.pi)

    def plain_intersect(self, sets: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `intersect`."""
        axes, apertures = np.split(sets, 2, 1)
        borders = np.append(axes - apertures / 2, axes + apertures / 2, 1)
        weights = plain_softmax(plain_mlp("attention", borders, parameters), axis=0)
        x, y = ((weights * each).sum(0) for each in (np.cos(axes), np.sin(axes)))
        turn = np.where((abs(x) < NEAR) & (abs(y) < NEAR), 0.0, np.arctan2(y, x))
        return np.append(turn, apertures.min(0) * plain_narrowing(borders, parameters))

    def plain_complement(self, begun: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `complement`."""
        axes, apertures = np.split(begun, 2)
        return np.append(axes + math.pi * np.where(axes < 0, 1, -1), 2 * math.pi - apertures)


def _axis(values: Tensor) -> Tensor:
    return math.pi * torch.tanh(values)


def _argument(x: Tensor, y: Tensor) -> Tensor:
    """The angle of a point; of one near the origin, where rounding decides it, 0."""
    near = (x.abs() < NEAR) & (y.abs() < NEAR)
    return torch.atan2(torch.where(near, 0, y), torch.where(near, 1, x))
