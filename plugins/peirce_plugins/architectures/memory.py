"""What architectures keep for the tokens that follow: flat names for what each layer keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, cast

from peirce.compose import Memory
from peirce.signature import TensorSpec
from torch import Tensor, nn


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


def of_layer(layer: int, memory: Memory) -> dict[str, Tensor]:
    """One layer's part of a memory, by the layer's own names."""
    start = _flat(layer, "")
    return {name.removeprefix(start): value for name, value in memory.items() if name.startswith(start)}


def named_of_layer(layer: int, own: Memory) -> dict[str, Tensor]:
    """The inverse of `of_layer`."""
    return {_flat(layer, name): value for name, value in own.items()}


def _flat(layer: int, name: str) -> str:
    return f"memory_{layer}_{name}"
