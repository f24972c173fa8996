"""Parts by which the suite sees whether an architecture uses what a spec gives it: one for each place, and two more.

Each has an effect that no architecture can miss, whatever its parameters are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.kernels import PairBias, Rotation
from peirce.parts import (
    Augmenter,
    BinaryPosition,
    Dims,
    NoOptions,
    PairPosition,
    RotaryPosition,
    ScopePosition,
    StateOperator,
    Tokens,
    UnaryPosition,
    offsets,
)
from peirce.registry import hookimpl


def _wave(*sizes: int, scale: float = 1.0) -> nn.Parameter:
    """Values from `scale` to twice that."""
    return nn.Parameter(torch.linspace(scale, 2 * scale, int(torch.tensor(sizes).prod())).reshape(sizes))


class ProbeUnary(UnaryPosition):
    """u(x) += a wave of the token's place."""

    name = "probe_unary"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.wave = _wave(dims.unary)

    def unary(self, tokens: Tokens) -> Tensor:
        """[b or 1, x, d1]."""
        return (tokens.rows(tokens.index).unsqueeze(2) * self.wave).sin()


class ProbeBinary(BinaryPosition):
    """u(x,y) = a wave of the distance."""

    name = "probe_binary"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.wave = _wave(dims.binary)

    def binary(self, tokens: Tokens) -> Tensor:
        """[b or 1, x, y, d2]."""
        return (offsets(tokens).unsqueeze(3) * self.wave).sin()


class ProbePair(PairPosition):
    """Scores and values that differ for what lies before, here and after."""

    name = "probe_pair"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers = dims.layers
        self.score, self.value = _wave(1, 3, dims.heads, scale=2.0), _wave(1, 3, 1, dims.head_size)

    def pairs(self, tokens: Tokens) -> list[PairBias]:
        """One for all layers."""
        return [PairBias(ids=offsets(tokens).sign() + 1, score=self.score, value=self.value)] * self.layers


class ProbeRotary(RotaryPosition):
    """Turns half of a head's channels against the other half."""

    name = "probe_rotary"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers, self.wave = dims.layers, _wave(dims.head_size // 2)

    def rotations(self, tokens: Tokens) -> list[Rotation]:
        """One for all layers."""
        angles = tokens.rows(tokens.index).unsqueeze(2) * self.wave
        return [Rotation(angles.cos(), angles.sin())] * self.layers


class ProbeScope(ScopePosition):
    """Each token attends to itself alone."""

    name = "probe_scope"

    def scope(self, tokens: Tokens) -> Tensor:
        """bool [b or 1, x, a]."""
        return offsets(tokens) == 0


class ProbeAugmenter(Augmenter):
    """Adds a vector to every embedding."""

    name = "probe_augmenter"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.vector = _wave(dims.unary)

    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        """[b, x, d1] -> [b, x, d1]."""
        return embeddings + self.vector

    def words(self, embeddings: Tensor) -> Tensor:
        """[v, d1] -> [v, d1]."""
        return embeddings + self.vector


class ProbeState(StateOperator):
    """u(x) += tanh of a part of u(x)."""

    name = "probe_state"
    typing = "UB <- UB"
    scope_rule = "none"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.weight = _wave(dims.unary)

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments."""
        binary = None if state.binary is None else torch.zeros_like(state.binary)
        return Predicates((state.unary * self.weight).tanh() + 0.5, binary)


@hookimpl
def register_operators() -> list[type[Any]]:
    """One that follows others."""
    return [ProbeState]


@hookimpl
def register_positions() -> list[type[Any]]:
    """One for each place."""
    return [ProbeUnary, ProbeBinary, ProbePair, ProbeRotary, ProbeScope]


@hookimpl
def register_augmenters() -> list[type[Any]]:
    """An augmenter, whose word embeddings heads get."""
    return [ProbeAugmenter]
