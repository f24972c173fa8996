"""The cached state of architectures: a pass through layers, and flat names for what each layer caches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from torch import Tensor, nn

from peirce.algebra import Scope
from peirce.kernels import PairBias
from peirce.parts.mixing import CachedState
from peirce.parts.signature import TensorSpec


class CachingLayer(Protocol):
    """A layer that caches channels for later tokens."""

    def kept(self) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        """By name, the branch that the channels are read from and their sizes."""
        ...


def layer_cached_states(layers: Iterable[nn.Module]) -> tuple[TensorSpec, ...]:
    """What the layers cache, in order: [batch, past, ...] of unary atoms, [batch, past, past, ...] of binary ones."""
    return tuple(
        TensorSpec(
            name=_flat(i, name),
            dtype="float",
            dims=("batch", "past", *(("past",) if branch == "B" else ()), *shape),
            meaning=f"What layer {i} attends to of the tokens before.",
        )
        for i, layer in enumerate(cast(Iterable[CachingLayer], layers))
        for name, (branch, shape) in layer.kept().items()
    )


def through(
    layers: Iterable[nn.Module],
    state: Any,
    scope: Scope,
    biases: Iterable[Sequence[PairBias]],
    cache: CachedState | None = None,
) -> tuple[Any, dict[str, Tensor]]:
    """The state of the rows after all layers, and what the layers cache for later tokens.

    Args:
        layers: called with a state, a scope, their pair biases and their own part of the cache.
        state: what the first layer is given.
        scope: who may attend to whom.
        biases: of each layer.
        cache: the cached state of the tokens before; None where nothing is cached.
    """
    kept: dict[str, Tensor] = {}
    for i, (layer, each) in enumerate(zip(layers, biases, strict=True)):
        state, own = layer(state, scope, each, None if cache is None else of_layer(i, cache))
        if cache is not None:
            kept |= named_of_layer(i, own)
    return state, kept


def named_of_layer(layer: int, own: CachedState) -> dict[str, Tensor]:
    """What one layer caches, by its names in the cached state of all."""
    return {_flat(layer, name): value for name, value in own.items()}


def of_layer(layer: int, cache: CachedState) -> dict[str, Tensor]:
    """The inverse of `named_of_layer`, for one layer of the cached state of all."""
    start = _flat(layer, "")
    return {name.removeprefix(start): value for name, value in cache.items() if name.startswith(start)}


def _flat(layer: int, name: str) -> str:
    return f"memory_{layer}_{name}"
