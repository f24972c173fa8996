"""The layers where a position acts, as an option."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import field, validators

from peirce.parts import Dims


def layers_option() -> Any:
    """A field of an `Options` class: the numbers of layers."""
    return field(default=(), validator=validators.deep_iterable(validators.ge(0)))


def why_not_layers(layers: Sequence[int], dims: Dims) -> str | None:
    """Why a position cannot act in these layers; None if it can."""
    absent = [layer for layer in layers if layer >= dims.layers]
    if not absent:
        return None
    return (
        f"there is no layer {absent[0]} among {dims.layers}, the first of which is 0; take it out of `layers`"
    )
