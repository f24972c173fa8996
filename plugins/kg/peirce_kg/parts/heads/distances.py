"""Ranking entities by how far they are from answer sets: as Beta distributions, as cones, by their angles.

A query has an answer set for each conjunction of its disjunctive normal form. An entity's score is its best one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from peirce.algebra import at_least_float32
from peirce.kernels import on_cpu
from peirce.parts import (
    Dims,
    Encoded,
    PlainMap,
    PlainScope,
    TensorSpec,
    Tokens,
    check_labels,
    has_static_shapes,
    without_autocast,
)
from peirce_kg.parts.heads.entities import Entities, check_distribution, plain_ranking_loss, ranking_loss
from peirce_kg.parts.systems.betae import LEAST, MARGIN, MOST
from peirce_kg.parts.systems.system import RankingOptions

NUMBERS = 2**24
"""Numbers that one portion of a comparison of sets with entities may have."""
PORTION = 2048
"""Entities of a portion in a traced graph, where the number of sets is not known."""

SHIFT = 6
"""How far arguments of the gamma function, which ONNX has not, are moved up before the series, then good to 1e-9."""


@frozen(kw_only=True)
class BetaOptions(RankingOptions):
    """How distances become scores.

    Args:
        margin: gamma, the score at distance zero; 0.15 a dimension if None, which are the 60 of the paper's 400.
    """

    margin: float | None = field(default=None, validator=validators.optional(validators.gt(0.0)))


class SetRanking(Entities):
    """The best score of an entity over the answer sets of a query."""

    options: Any

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        """A set has two numbers for each dimension."""
        if dims.unary % 2:
            return f"unary = {dims.unary} numbers are not two for each dimension"
        return super().check(options, dims, scope)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Which variable each literal leads to: those that lead to one have one answer set."""
        meaning = "The number of the variable at each atom's tail; 0 for an entity."
        return (TensorSpec(name="atom_targets", dtype="int64", dims=("batch", "length"), meaning=meaning),)

    @abstractmethod
    def scores(self, sets: Tensor, entities: Tensor) -> Tensor:
        """[n, d1], [e, d1] -> [n, e]."""

    @abstractmethod
    def plain_score(
        self, answer: list[float], entity: list[float], number: int, parameters: Mapping[str, Any]
    ) -> float:
        """The score of one entity, by its vector and its number, with one set, for `reference`."""

    def reference(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap | None:
        """The best score of an entity with the sets that the free variable has, one for each conjunction."""
        first, sets = self.options.first, dict[int, list[float]]()
        for atoms, token, target in zip(
            given["unary"], given["input_ids"], given["atom_targets"], strict=True
        ):
            if token == self.options.free:
                sets.setdefault(target, atoms)
        entities = given["embeddings"][first : first + (self.options.count or dims.vocabulary)]
        scores = (
            [self.plain_score(each, entity, e, parameters) for each in sets.values()]
            for e, entity in enumerate(entities)
        )
        return {"logits": [max(each, default=0.0) for each in scores]}

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, d1] -> logits [b, entities]; zero where a query has no free variable."""
        chosen = self._answers(tokens).expand(encoded.unary.shape[:2])
        unary, points = encoded.precise or (encoded.unary, encoded.embeddings)
        entities = points[self.options.first : self.options.first + self.count]
        kind = encoded.unary.dtype
        if has_static_shapes(chosen):
            every = self._exact_scores(unary.flatten(0, 1), entities).reshape(*chosen.shape, self.count)
            low = torch.finfo(every.dtype).min
            best = torch.where(chosen.unsqueeze(2), every, low).amax(1)
        else:
            rows, places = chosen.nonzero(as_tuple=True)
            best = self._exact_scores(unary[rows, places], entities)
            if not on_cpu(chosen) or len(rows) != len(chosen) or not chosen.any(1).all():
                empty = best.new_full((len(chosen), self.count), torch.finfo(best.dtype).min)
                best = empty.scatter_reduce(0, rows.unsqueeze(1).expand_as(best), best, "amax")
        best = torch.where(chosen.any(1, keepdim=True), best, 0)
        limit = torch.finfo(kind).max
        return {"logits": best.clamp(-limit, limit).to(kind)}

    def _answers(self, tokens: Tokens) -> Tensor:
        """The first literal that leads to each occurrence of the free variable: bool [b, x]."""
        chosen = tokens.inputs["input_ids"] == self.options.free
        if tokens.real is not None:
            chosen = chosen & tokens.real
        targets = tokens.inputs["atom_targets"]
        again = (targets.unsqueeze(2) == targets.unsqueeze(1)) & chosen.unsqueeze(1)
        return chosen & ~again.tril(-1).any(2)

    def _exact_scores(self, sets: Tensor, entities: Tensor) -> Tensor:
        """Distances are sums of many small numbers, which half precision does not hold."""
        with without_autocast(sets):
            return self.scores(at_least_float32(sets), at_least_float32(entities))


class DistanceRanking(SetRanking):
    """Scores that are a margin less a distance, learnt as BetaE and ConE do.

    The loss of a query is -log sigma(score) of an answer, less the mean of log sigma(-score) over the other entities,
    which the papers estimate from 128 random ones. Answers that the label does not reward are not negatives either.
    """

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """See the class; a distribution over answers has -1 at those that count neither as right nor as wrong."""
        scores = at_least_float32(outputs["logits"])
        if labels.is_floating_point():
            check_distribution(labels, scores.shape)
        else:
            check_labels(labels, scores.shape[:1], scores.shape[1])
            labels = F.one_hot(labels, scores.shape[1])
        labels = labels.to(scores.dtype)
        others = (labels == 0).to(scores.dtype)
        wanted = -(labels.clamp_min(0) * F.logsigmoid(scores)).sum(1)
        unwanted = -(others * F.logsigmoid(-scores)).sum(1) / others.sum(1).clamp_min(1)
        return (wanted + unwanted).mean()

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """See the class, query by query."""
        total = 0.0
        for scores, label in zip(outputs["logits"], labels, strict=True):
            weights = label if isinstance(label, list) else [float(e == label) for e in range(len(scores))]
            pairs = list(zip(weights, scores, strict=True))
            others = [math.log1p(math.exp(score)) for weight, score in pairs if weight == 0]
            total += sum(weight * math.log1p(math.exp(-score)) for weight, score in pairs if weight > 0)
            total += sum(others) / max(1, len(others))
        return total / len(labels)


class BetaRanking(DistanceRanking):
    """gamma - sum over the dimensions of KL(entity; set), of Beta distributions."""

    name = "beta"
    source = "BetaE (Ren & Leskovec, 2020), Section 4"
    Options = BetaOptions

    def __init__(self, options: BetaOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.margin = MARGIN * (dims.unary // 2) if options.margin is None else options.margin

    def scores(self, sets: Tensor, entities: Tensor) -> Tensor:
        """A product of matrices: KL is linear in what the set's parameters are multiplied by."""
        entity, answer = entities.clamp(LEAST, MOST), sets.clamp(1 / MOST, MOST)
        alpha, beta = entity.chunk(2, 1)
        total = digamma(alpha + beta)
        slopes = torch.cat([total - digamma(alpha), total - digamma(beta)], 1)
        entropy = (entity * slopes).sum(1) + _log_beta(entity)
        return self.margin - (F.linear(answer, slopes) + _log_beta(answer).unsqueeze(1) - entropy)

    def plain_score(
        self, answer: list[float], entity: list[float], number: int, parameters: Mapping[str, Any]
    ) -> float:
        """KL of Beta(a, b) and Beta(c, d), dimension by dimension: ln B(c, d) - ln B(a, b) + (a - c) psi(a) + ..."""

        def log_beta(a: float, b: float) -> float:
            return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

        def psi(x: float) -> float:
            return float(torch.digamma(torch.tensor(x, dtype=torch.float64)))

        size, total = len(answer) // 2, 0.0
        for i in range(size):
            a, b = (min(max(x, LEAST), MOST) for x in (entity[i], entity[size + i]))
            c, d = (min(max(x, 1 / MOST), MOST) for x in (answer[i], answer[size + i]))
            total += log_beta(c, d) - log_beta(a, b)
            total += (a - c) * psi(a) + (b - d) * psi(b) + (c - a + d - b) * psi(a + b)
        margin = self.options.margin
        return (0.15 * size if margin is None else margin) - total


def _log_beta(parameters: Tensor) -> Tensor:
    """log B(alpha, beta), summed over the dimensions: [n, 2 d] -> [n]."""
    alpha, beta = parameters.chunk(2, 1)
    return (log_gamma(alpha) + log_gamma(beta) - log_gamma(alpha + beta)).sum(1)


class PortionRanking(DistanceRanking):
    """Distances of entities that no product of matrices gives: compared in portions, so memory is bounded."""

    @abstractmethod
    def distance_to(self, sets: Tensor, entities: Tensor) -> Tensor:
        """How far some entities are from sets: [n, d1], [e, d] -> [n, e]."""

    def distances(self, sets: Tensor, entities: Tensor) -> Tensor:
        """Those of all entities; a portion is computed anew for its gradient."""
        size = PORTION if has_static_shapes(sets) else max(1, NUMBERS // max(1, sets.numel()))
        distance_to = self.distance_to
        if entities.shape[0] > size and torch.is_grad_enabled() and not has_static_shapes(sets):
            distance_to = partial(checkpoint, distance_to, use_reentrant=False)
        return torch.cat([distance_to(sets, portion) for portion in torch.split(entities, size)], 1)


@frozen(kw_only=True)
class ConeOptions(RankingOptions):
    """How distances become scores.

    Args:
        margin: gamma, the score at distance zero.
        inside: lambda, what a distance within the cone weighs.
    """

    margin: float = field(default=20.0, validator=validators.gt(0.0))
    inside: float = field(default=0.02, validator=validators.ge(0.0))


class ConeRanking(PortionRanking):
    """gamma - m (outside distance + lambda inside distance), with a learnt scale m, as in the published code.

    Outside, in each dimension, is min(|sin((e - lower) / 2)|, |sin((e - upper) / 2)|) and zero within the cone, and
    inside is min(|sin((e - axis) / 2)|, |sin(aperture / 4)|).
    """

    name = "cone"
    source = "ConE (Zhang et al., 2021), Section 4"
    Options = ConeOptions

    def __init__(self, options: ConeOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.scale = nn.Parameter(torch.tensor((options.margin + 2) / dims.unary))

    def scores(self, sets: Tensor, entities: Tensor) -> Tensor:
        """[n, 2 d], [e, 2 d] -> [n, e]; an entity has no aperture."""
        return self.options.margin - self.scale.to(sets.dtype) * self.distances(sets, entities.chunk(2, 1)[0])

    def distance_to(self, sets: Tensor, entities: Tensor) -> Tensor:
        """See `PortionRanking.distance_to`."""
        axis, aperture = sets.unsqueeze(1).chunk(2, 2)
        sine, cosine = (entities / 2).sin(), (entities / 2).cos()

        def turn(angle: Tensor) -> Tensor:
            """|sin((entity - angle) / 2)|."""
            return (sine * (angle / 2).cos() - cosine * (angle / 2).sin()).abs()

        middle, edge = turn(axis), (aperture / 4).sin().abs()
        border = torch.minimum(turn(axis - aperture / 2), turn(axis + aperture / 2))
        outside = torch.where(middle < edge, 0, border)
        return (outside + self.options.inside * torch.minimum(middle, edge)).sum(2)

    def plain_score(
        self, answer: list[float], entity: list[float], number: int, parameters: Mapping[str, Any]
    ) -> float:
        """See the class, dimension by dimension."""
        size, total = len(answer) // 2, 0.0
        for axis, aperture, angle in zip(answer[:size], answer[size:], entity, strict=False):
            middle, edge = abs(math.sin((angle - axis) / 2)), abs(math.sin(aperture / 4))
            borders = (axis - aperture / 2, axis + aperture / 2)
            outside = min(abs(math.sin((angle - border) / 2)) for border in borders)
            total += (outside if middle >= edge else 0.0) + self.options.inside * min(middle, edge)
        return float(self.options.margin - parameters["scale"] * total)


@frozen(kw_only=True)
class PointOptions(RankingOptions):
    """How distances become scores.

    Args:
        margin: gamma, the score at distance zero; 24 is published.
    """

    margin: float = field(default=24.0, validator=validators.gt(0.0))


class PointRanking(PortionRanking):
    """gamma - the sum over the dimensions of |e - q|."""

    name = "point"
    source = "GQE (Hamilton et al., 2018), as in the code of BetaE (Ren & Leskovec, 2020)"
    Options = PointOptions

    def scores(self, sets: Tensor, entities: Tensor) -> Tensor:
        """[n, d1], [e, d1] -> [n, e]."""
        return self.options.margin - self.distances(sets, entities)

    def distance_to(self, sets: Tensor, entities: Tensor) -> Tensor:
        """See `PortionRanking.distance_to`."""
        return (entities - sets.unsqueeze(1)).abs().sum(2)

    def plain_score(
        self, answer: list[float], entity: list[float], number: int, parameters: Mapping[str, Any]
    ) -> float:
        """See the class."""
        return float(self.options.margin - sum(abs(e - q) for e, q in zip(entity, answer, strict=True)))


@frozen(kw_only=True)
class BoxOptions(PointOptions):
    """How distances become scores.

    Args:
        inside: alpha, what a distance within the box weighs.
    """

    inside: float = field(default=0.02, validator=validators.ge(0.0))


class BoxRanking(PortionRanking):
    """gamma - outside distance - alpha inside distance, sums over the dimensions.

    Of a box with centre c and reach o, outside is max(|e - c| - o, 0) and inside min(|e - c|, o), as in the published
    code.
    """

    name = "box"
    source = "Query2box (Ren et al., 2020), Section 3, as in the code of BetaE"
    Options = BoxOptions

    def scores(self, sets: Tensor, entities: Tensor) -> Tensor:
        """[n, 2 d], [e, 2 d] -> [n, e]; an entity is its centre."""
        return self.options.margin - self.distances(sets, entities.chunk(2, 1)[0])

    def distance_to(self, sets: Tensor, entities: Tensor) -> Tensor:
        """See `PortionRanking.distance_to`."""
        centre, reach = sets.unsqueeze(1).chunk(2, 2)
        far = (entities - centre).abs()
        return (F.relu(far - reach) + self.options.inside * torch.minimum(far, reach)).sum(2)

    def plain_score(
        self, answer: list[float], entity: list[float], number: int, parameters: Mapping[str, Any]
    ) -> float:
        """See the class, dimension by dimension."""
        size, total = len(answer) // 2, 0.0
        for centre, reach, point in zip(answer[:size], answer[size:], entity, strict=False):
            far = abs(point - centre)
            total += max(far - reach, 0.0) + self.options.inside * min(far, reach)
        return float(self.options.margin - total)


@frozen(kw_only=True)
class CosineOptions(RankingOptions):
    """How sharp the distribution over them is.

    Args:
        temperature: what cosines are divided by.
    """

    temperature: float = field(default=0.05, validator=validators.gt(0.0))


class CosineRanking(SetRanking):
    """The cosine of the answer's vector and an entity's, divided by a temperature.

    The loss is the cross-entropy over all entities, which the paper estimates from random ones.
    """

    name = "cosine"
    source = "LMPNN (Wang et al., 2023)"
    Options = CosineOptions

    def scores(self, sets: Tensor, entities: Tensor) -> Tensor:
        """[n, d1], [e, d1] -> [n, e]; a vector that is zero is at right angles to all."""
        return F.linear(_unit(sets), _unit(entities)) / self.options.temperature

    def plain_score(
        self, answer: list[float], entity: list[float], number: int, parameters: Mapping[str, Any]
    ) -> float:
        """See the class."""
        product = sum(a * b for a, b in zip(answer, entity, strict=True))
        return product / math.hypot(*answer) / math.hypot(*entity) / float(self.options.temperature)

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Cross-entropy; labels are int64 [b], or float [b, entities], a distribution over the answers."""
        return ranking_loss(outputs["logits"], labels)

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """See `loss`."""
        return plain_ranking_loss(outputs["logits"], labels)


@frozen(kw_only=True)
class ParticlesOptions(RankingOptions):
    """What a set is, and how sharp the loss is.

    Args:
        particles: the vectors of a set, as the architecture's.
        smoothing: label smoothing of the loss; 0.5 is published for FB15k-237.
    """

    particles: int = field(default=2, validator=validators.ge(1))
    smoothing: float = field(default=0.1, validator=[validators.ge(0.0), validators.lt(1.0)])


class ParticleRanking(SetRanking):
    """The greatest inner product of an entity and a particle, plus a bias of the entity.

    The loss is the cross-entropy over all entities, with label smoothing.
    """

    name = "particles"
    source = "Query2Particles (Bai et al., 2022), and its code"
    Options = ParticlesOptions

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        """Particles share the width."""
        if dims.unary % options.particles:
            return f"unary = {dims.unary} numbers are not the same for each of {options.particles} particles"
        return super().check(options, dims, scope)

    def __init__(self, options: ParticlesOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.bias = nn.Parameter(torch.zeros(self.count))

    def scores(self, sets: Tensor, entities: Tensor) -> Tensor:
        """[n, d1], [e, d1] -> [n, e]; an entity has the numbers of one particle."""
        particles = sets.unflatten(1, (self.options.particles, -1))
        every = F.linear(particles, entities[:, : particles.shape[2]], self.bias.to(sets.dtype))
        # of particles that are the same, as new ones are, the first alone learns, so they become different
        return every.max(1).values

    def plain_score(
        self, answer: list[float], entity: list[float], number: int, parameters: Mapping[str, Any]
    ) -> float:
        """The products of the particles with the first numbers of the entity."""
        width = len(answer) // self.options.particles
        starts = range(0, len(answer), width)
        products = (sum(answer[start + i] * entity[i] for i in range(width)) for start in starts)
        return float(max(products) + parameters["bias"][number])


def _unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.square().sum(-1, keepdim=True).clamp_min(1e-24).sqrt()


def log_gamma(x: Tensor) -> Tensor:
    """log Gamma(x) for x > 0: Stirling's series at x + `SHIFT`, less the logarithms of what lies between."""
    product = x
    for step in range(1, SHIFT):
        product = product * (x + step)
    z = x + SHIFT
    inverse = 1 / z
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    return (z - 0.5) * z.log() - z + 0.5 * math.log(2 * math.pi) + series - product.log()


def digamma(x: Tensor) -> Tensor:
    """The derivative of `log_gamma`, for x > 0."""
    z = x + SHIFT
    square = 1 / (z * z)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    total = z.log() - 0.5 / z - series
    for step in range(SHIFT):
        total = total - 1 / (x + step)
    return total
