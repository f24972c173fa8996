"""window: tokens attend to those near them alone, as with sliding windows."""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen, validators
from torch import Tensor

from peirce.parts import Dims, PlainMap, PlainScope, ScopePosition, Tokens, offsets
from peirce_basics.positions.layers import layers_option, why_not_layers


@frozen(kw_only=True)
class WindowOptions:
    """How far tokens see, and in which layers.

    Args:
        size: how many tokens on each side, the token itself among them: with 1 it sees itself alone. A causal scope
            leaves those before it.
        layers: the layers where the window holds, the first of which is 0; every one if there are none.
    """

    size: int = field(default=128, validator=validators.ge(1))
    layers: tuple[int, ...] = layers_option()


class Window(ScopePosition):
    """x may attend to y if fewer than `size` places lie between them; places are counted over real tokens."""

    name = "window"
    source = "Longformer (Beltagy et al., 2020), Section 3.1; Mistral 7B (Jiang et al., 2023), Section 2"
    Options = WindowOptions
    example: ClassVar = {"size": 2}

    @classmethod
    def check(cls, options: WindowOptions, dims: Dims, scope: str) -> str | None:
        """The layers must be there."""
        return why_not_layers(options.layers, dims)

    def scope(self, tokens: Tokens) -> Tensor:
        """bool [b or 1, x, y]."""
        return offsets(tokens).abs() < self.options.size

    def holds_in(self, layer: int) -> bool:
        """Whether the layer is among those of the options."""
        return not self.options.layers or layer in self.options.layers

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: whether the places differ by less than the size."""
        places, size = scope.rows, self.options.size
        return {"scope": [[abs(x - y) < size for y in places] for x in places], "index": places}
