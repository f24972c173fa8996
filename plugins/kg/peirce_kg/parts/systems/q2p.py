"""q2p: a set of entities as several vectors, its particles, which gates project and attention joins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.parts import Linear, Plan, plain_gelu, plain_linear, plain_sigmoid, plain_softmax
from peirce_kg.parts.systems.set_system import SetSystem
from peirce_kg.parts.systems.system import Norm, Numbers, SystemDims, plain_norm


@frozen(kw_only=True)
class ParticleOptions:
    """How sets are made.

    Args:
        particles: K, the vectors of a set; 2 are published for FB15k-237.
    """

    particles: int = field(default=2, validator=validators.ge(1))


class Q2P(SetSystem):
    """The numbers of `unary` are K particles of d each; entities and relations are vectors of d.

    Entity: its vector plus an offset of each particle. Projection: a gated unit reads the relation, with particles as
    its state, then particles attend to each other; what earlier literals led to is attended to and refined before.
    Intersection: particles of all sets attend to each other, twice, and K of them go on. Negation: the same within one
    set. Union: by the disjunctive normal form. Attention has one matrix for queries, keys and values.
    """

    name = "q2p"
    source = "Query2Particles (Bai et al., 2022), and its code"
    Options = ParticleOptions
    widening = 1

    @classmethod
    def check(cls, options: ParticleOptions, dims: SystemDims) -> str | None:
        """Particles share the width."""
        if dims.unary % options.particles:
            return f"unary = {dims.unary} numbers are not the same for each of {options.particles} particles"
        return super().check(options, dims)

    def __init__(self, options: ParticleOptions, plan: Plan) -> None:
        self.particles = options.particles
        super().__init__(options, plan)
        width, hidden, dropout = self.vectors.shape[1], plan.dims.feedforward_unary, plan.dims.dropout
        self.offsets = nn.Parameter(torch.zeros(self.particles, width))
        self.read = Linear(width, 3 * width)
        self.gates, self.candidate = Linear(width, 2 * width), Linear(width, width)
        self.projected, self.attention, self.attended = Norm(width), _Attention(width), Norm(width)
        self.refining = _Mixing(1, width, hidden, dropout)
        self.meeting, self.turning = (_Mixing(2, width, hidden, dropout) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def initial_vectors(self, count: int, width: int) -> Tensor:
        """Normal."""
        return torch.randn(count, width // self.particles)

    def names(self) -> Tensor:
        """Vectors, filled up to the width of sets."""
        return F.pad(self.vectors, (0, self.plan.dims.unary - self.vectors.shape[1]))

    def entities(self, vectors: Tensor) -> Tensor:
        """An entity's particles."""
        centre = vectors[..., None, : self.vectors.shape[1]]
        return (centre + self.offsets.to(centre.dtype)).flatten(-2)

    def project(self, sets: Tensor, relations: Tensor) -> Tensor:
        """See the class."""
        state = self._particles(sets)
        received = self.read(self.dropout(relations[..., None, : state.shape[-1]]))
        of_gates, of_candidate = received.tensor_split([2 * state.shape[-1]], -1)
        change, reset = (of_gates + self.gates(self.dropout(state))).sigmoid().chunk(2, -1)
        candidate = (of_candidate + self.candidate(self.dropout(state * reset))).tanh()
        mixed = self.projected((1 - change) * state + change * candidate)
        return self.attended(self.attention(self.dropout(mixed))).flatten(-2)

    def refine(self, sets: Tensor) -> Tensor:
        """Refined by attention and a network."""
        return self.refining(self._particles(sets)).flatten(-2)

    def intersect(self, sets: Tensor, chosen: Tensor) -> Tensor:
        """Of n sets particles 0, n, 2 n, ... of all their particles go on."""
        count = self.particles
        real = chosen.repeat_interleave(count, 2)
        every = self._particles(sets).flatten(1, 2).unsqueeze(1).expand(-1, chosen.shape[1], -1, -1)
        # the number of each particle among those of the chosen sets, in the order of the literals
        numbers = real.long().cumsum(2) - 1
        places = chosen.sum(2, keepdim=True) * torch.arange(count, device=sets.device)
        kept = real.unsqueeze(2) & (numbers.unsqueeze(2) == places.unsqueeze(3))
        return (kept.to(sets.dtype) @ self.meeting(every, real)).flatten(2)

    def complement(self, sets: Tensor) -> Tensor:
        """See the class."""
        return self.turning(self._particles(sets)).flatten(-2)

    def plain_entity(self, vector: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `entities`."""
        return (vector + np.asarray(parameters["offsets"])).ravel()

    def plain_project(self, begun: Numbers, relation: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See the class."""
        state, width = begun.reshape(self.particles, -1), len(relation)
        received = plain_linear(relation, parameters, "read", 3 * width)
        gates = plain_sigmoid(received[: 2 * width] + plain_linear(state, parameters, "gates", 2 * width))
        change, reset = np.split(gates, 2, 1)
        candidate = np.tanh(
            received[2 * width :] + plain_linear(state * reset, parameters, "candidate", width)
        )
        mixed = plain_norm((1 - change) * state + change * candidate, parameters, "projected")
        return plain_norm(_plain_attention(mixed, parameters, "attention"), parameters, "attended").ravel()

    def plain_refine(self, begun: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `refine`."""
        return self._plain_mixing(begun, parameters, "refining", 1).ravel()

    def plain_intersect(self, sets: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See `intersect`."""
        return self._plain_mixing(sets, parameters, "meeting", 2)[:: len(sets)].ravel()

    def plain_complement(self, begun: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """See the class."""
        return self._plain_mixing(begun, parameters, "turning", 2).ravel()

    def _plain_mixing(self, sets: Numbers, parameters: Mapping[str, Any], name: str, rounds: int) -> Numbers:
        vectors = sets.reshape(-1, len(parameters["vectors"][0]))
        for i in range(rounds):
            read = _plain_attention(vectors, parameters, f"{name}.attention")
            vectors = plain_norm(read, parameters, f"{name}.norms.{2 * i}")
            wide = plain_linear(vectors, parameters, f"{name}.wide", len(parameters[f"{name}.wide.bias"]))
            narrow = plain_linear(plain_gelu(wide), parameters, f"{name}.narrow", vectors.shape[1])
            vectors = plain_norm(vectors + narrow, parameters, f"{name}.norms.{2 * i + 1}")
        return vectors

    def _particles(self, sets: Tensor) -> Tensor:
        """[..., d1] -> [..., K, d]."""
        return sets.unflatten(-1, (self.particles, -1))


def _plain_attention(vectors: Numbers, parameters: Mapping[str, Any], name: str) -> Numbers:
    mapped = plain_linear(vectors, parameters, f"{name}.map", vectors.shape[1])
    return plain_softmax(mapped @ mapped.T * mapped.shape[1] ** -0.5) @ mapped


class _Attention(nn.Module):
    """Each vector becomes a mean of all, without a residual: [..., n, d], bool [..., n] -> [..., n, d]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.map = Linear(width, width)

    def forward(self, vectors: Tensor, real: Tensor | None = None) -> Tensor:
        mapped = self.map(vectors)
        scores = mapped @ mapped.transpose(-1, -2) * (mapped.shape[-1] ** -0.5)
        if real is not None:
            scores = torch.where(real.unsqueeze(-2), scores, torch.finfo(scores.dtype).min)
        return scores.softmax(-1) @ mapped


class _Mixing(nn.Module):
    """Rounds of one attention and one network, with norms of their own: [..., n, d] -> [..., n, d]."""

    def __init__(self, rounds: int, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.dropout = _Attention(width), nn.Dropout(dropout)
        self.wide, self.narrow = Linear(width, hidden), Linear(hidden, width)
        self.norms = nn.ModuleList(Norm(width) for _ in range(2 * rounds))

    def forward(self, vectors: Tensor, real: Tensor | None = None) -> Tensor:
        for attended, widened in zip(self.norms[::2], self.norms[1::2], strict=True):
            vectors = attended(self.attention(self.dropout(vectors), real))
            hidden = F.gelu(self.wide(self.dropout(vectors)))
            vectors = widened(vectors + self.narrow(self.dropout(hidden)))
        return vectors
