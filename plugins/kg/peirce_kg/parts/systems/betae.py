"""betae: sets of entities as Beta distributions, a product of one for each dimension."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from attrs import field, frozen, validators
from torch import Tensor

from peirce.parts import Plan, plain_softmax
from peirce_kg.parts.systems.set_system import Mlp, SetSystem, plain_mlp, softmax_over_chosen
from peirce_kg.parts.systems.system import Numbers

LEAST = 0.05
"""The least parameter of a distribution that is projected or embedded, as published."""
MOST = 1e3
"""The greatest; published is 1e9, which half precision does not hold and training does not reach."""

MARGIN = 0.15
"""The margin of each dimension, where a spec gives none for all: 60 of 400."""


@frozen(kw_only=True)
class BetaOptions:
    """How a new model begins, and how deep its projection is.

    Args:
        margin: gamma; with the width it gives the range of new vectors, (gamma + 2) / dimensions. 0.15 a dimension if
            None, which are the 60 of the paper's 400.
        projection_layers: hidden layers of the projection.
    """

    margin: float | None = field(default=None, validator=validators.optional(validators.gt(0.0)))
    projection_layers: int = field(default=2, validator=validators.ge(1))


class BetaE(SetSystem):
    """The first half of `unary` numbers are the alphas, the second the betas.

    Projection: MLP([S; r]), made positive. Intersection: alpha = sum of w_i alpha_i, beta = sum of w_i beta_i, with
    w = softmax over the sets of MLP(S_i). Negation: (1 / alpha, 1 / beta). Union: by the disjunctive normal form.
    What a network gives is made positive as in the published code, min(max(x + 1, 0.05), `MOST`).
    """

    name = "betae"
    source = "BetaE (Ren & Leskovec, 2020), Section 4"
    Options = BetaOptions

    def __init__(self, options: BetaOptions, plan: Plan) -> None:
        dimensions = max(1, plan.dims.unary // 2)
        margin = MARGIN * dimensions if options.margin is None else options.margin
        self.range = (margin + 2) / dimensions
        super().__init__(options, plan)
        width, hidden, half = plan.dims.unary, plan.dims.feedforward_unary, self.dimensions
        self.projection = Mlp(width + half, *[hidden] * options.projection_layers, width)
        self.attention = Mlp(width, width, half)

    def initial_vectors(self, count: int, width: int) -> Tensor:
        """Uniform."""
        return (torch.rand(count, width) * 2 - 1) * self.range

    def points(self, words: Tensor) -> Tensor:
        """The distributions of entities."""
        return positive(words)

    def entities(self, vectors: Tensor) -> Tensor:
        """A narrow distribution."""
        return positive(vectors)

    def project(self, sets: Tensor, relations: Tensor) -> Tensor:
        """MLP([S; r]); of a relation's vector the first half is used."""
        return positive(self.projection(torch.cat([sets, relations[..., : self.dimensions]], -1)))

    def intersect(self, sets: Tensor, chosen: Tensor) -> Tensor:
        """A weighted product of densities."""
        weights = softmax_over_chosen(self.attention(sets), chosen)
        return (torch.cat([weights, weights], 3) * sets.unsqueeze(1)).sum(2)

    def complement(self, sets: Tensor) -> Tensor:
        """The reciprocal of both parameters, which turns high density into low."""
        return 1 / sets.clamp_min(1 / MOST)

    def plain_entity(self, vector: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `entities`."""
        return np.clip(vector + 1, LEAST, MOST)

    def plain_project(self, begun: Numbers, relation: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `project`."""
        both = np.append(begun, relation[: self.dimensions])
        return self.plain_entity(plain_mlp("projection", both, parameters), parameters)

    def plain_intersect(self, sets: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `intersect`."""
        weights = plain_softmax(plain_mlp("attention", sets, parameters), axis=0)
        return np.asarray((np.tile(weights, 2) * sets).sum(0))

    def plain_complement(self, begun: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `complement`."""
        return 1 / begun


def positive(values: Tensor) -> Tensor:
    """Parameters of distributions from any numbers."""
    return (values + 1).clamp(LEAST, MOST)
