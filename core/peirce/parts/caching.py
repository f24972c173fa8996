"""What architectures keep for the tokens that follow: a pass through layers, and flat names for what each keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from torch import Tensor, nn

from peirce.algebra import Scope
from peirce.kernels import PairBias
from peirce.parts.mixing import Memory
from peirce.parts.signature import TensorSpec


class Remembering(Protocol):
    """A layer that keeps channels."""

    def kept(self) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        """By name, the branch that they are read from and their sizes."""
        ...


def layer_memories(layers: Iterable[nn.Module]) -> tuple[TensorSpec, ...]:
    """What the layers keep, in order: [batch, past, ...] of unary atoms, [batch, past, past, ...] of binary ones."""
    return tuple(
        TensorSpec(
            name=_flat(i, name),
            dtype="float",
            dims=("batch", "past", *(("past",) if branch == "B" else ()), *shape),
            meaning=f"What layer {i} looks at of the tokens before.",
        )
        for i, layer in enumerate(cast(Iterable[Remembering], layers))
        for name, (branch, shape) in layer.kept().items()
    )


def through(
    layers: Iterable[nn.Module],
    state: Any,
    scope: Scope,
    biases: Iterable[Sequence[PairBias]],
    memory: Memory | None = None,
) -> tuple[Any, dict[str, Tensor]]:
    """The state of the rows after all layers, and what the layers keep of it for later tokens.

    Args:
        layers: called with a state, a scope, their pair biases and their own part of the memory.
        state: what the first layer is given.
        scope: who may look at whom.
        biases: of each layer.
        memory: what the layers kept of the tokens before; None when nothing is to be kept.
    """
    kept: dict[str, Tensor] = {}
    for i, (layer, each) in enumerate(zip(layers, biases, strict=True)):
        state, own = layer(state, scope, each, None if memory is None else of_layer(i, memory))
        if memory is not None:
            kept |= named_of_layer(i, own)
    return state, kept


def named_of_layer(layer: int, own: Memory) -> dict[str, Tensor]:
    """What one layer keeps, by the names that it has in a memory."""
    return {_flat(layer, name): value for name, value in own.items()}


def of_layer(layer: int, memory: Memory) -> dict[str, Tensor]:
    """The inverse of `named_of_layer`, for one layer of a whole memory."""
    start = _flat(layer, "")
    return {name.removeprefix(start): value for name, value in memory.items() if name.startswith(start)}


def _flat(layer: int, name: str) -> str:
    return f"memory_{layer}_{name}"
