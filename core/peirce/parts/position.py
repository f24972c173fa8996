"""The contract of positions, which tell a model where tokens stand, and what several of them share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn

from peirce.kernels import PairBias, PairTerm, Rotation
from peirce.parts.initialisation import set_small_normal
from peirce.parts.module import ModulePart
from peirce.parts.tokens import Tokens

Place = Literal["unary", "binary", "pair", "rotary", "scope"]
"""Where a position acts. `unary`: it adds to the unary atoms at the input. `binary`: it gives the initial binary atoms.
`pair`: it biases a pair's score and value inside attention. `rotary`: it turns queries and keys before their product.
`scope`: it restricts the scope."""


class Position(ModulePart):
    """Where tokens stand. Subclass the places that a position serves: `UnaryPosition`, `BinaryPosition`,
    `PairPosition`, `RotaryPosition`, `ScopePosition`, or several of them.

    Attributes:
        depends_on_length: whether what it gives for the first tokens changes when others follow, as with angles that
            shrink in long texts. What was cached of a shorter text is then not used for a longer one.
    """

    depends_on_length: ClassVar[bool] = False

    def reuses_cache(self, before: int, after: int) -> bool:
        """Whether what it gives for the tokens of a text is the same when there are `before` and `after` real ones.

        By default it is, unless the position depends on the length; one that changes at some lengths alone says where.
        """
        return not self.depends_on_length

    @final
    @classmethod
    def places(cls) -> tuple[Place, ...]:
        """The places that the position serves, by its base classes."""
        return tuple(place for place, base in PLACES.items() if issubclass(cls, base))


class UnaryPosition(Position):
    """A position that is added to the unary atoms at the input."""

    @abstractmethod
    def unary(self, tokens: Tokens) -> Tensor:
        """[b or 1, x, d1], for the rows x."""


class BinaryPosition(Position):
    """A position that gives the initial binary atoms."""

    @abstractmethod
    def binary(self, tokens: Tokens) -> Tensor:
        """[b or 1, x, y, d2], for the rows x and every token y."""


class PairPosition(Position):
    """A position that biases a pair's score and value inside attention."""

    @abstractmethod
    def pairs(self, tokens: Tokens) -> Sequence[PairTerm]:
        """One term a layer, of the rows towards every token; layers may share one."""


class RotaryPosition(Position):
    """A position that turns queries and keys, once each, as soon as they are read: cached keys are turned ones."""

    @abstractmethod
    def rotations(self, tokens: Tokens) -> Sequence[Rotation | None]:
        """One rotation a layer, of the rows; layers may share one. None where a layer turns nothing."""


class ScopePosition(Position):
    """A position that restricts who may attend to whom."""

    @abstractmethod
    def scope(self, tokens: Tokens) -> Tensor:
        """bool [b or 1, x, a], for the rows x and every token a."""

    def index(self, tokens: Tokens) -> Tensor:
        """Each token's position, int64 [b or 1, a], where texts that the scope keeps apart are counted apart."""
        return tokens.index

    def holds_in(self, layer: int) -> bool:
        """Whether it restricts the scope of a layer, the first of which is 0; all of them unless a position says so."""
        return True


PLACES: Mapping[Place, Any] = {
    "unary": UnaryPosition,
    "binary": BinaryPosition,
    "pair": PairPosition,
    "rotary": RotaryPosition,
    "scope": ScopePosition,
}


def new_table(entries: int, width: int) -> nn.Embedding:
    """A table of `entries` learned vectors."""
    table = nn.Embedding(entries, width)
    set_small_normal(table)
    return table


def offsets(tokens: Tokens) -> Tensor:
    """How far y lies after x, int64 [b or 1, x, y]."""
    return tokens.index.unsqueeze(1) - tokens.rows(tokens.index).unsqueeze(2)


def distance_limit(limit: int, length: int) -> int:
    """The largest distance to tell apart: no more than the sequence has, unless its length is symbolic."""
    return limit if torch.compiler.is_compiling() else max(1, min(limit, length - 1))


def layer_biases(
    layers: int, ids: Tensor, rows: Tensor | None, keys: Sequence[Tensor], values: Sequence[Tensor]
) -> list[PairBias]:
    """One pair bias for each layer.

    Args:
        layers: the number of layers.
        ids: int64 [b or 1, x, y], the bucket of each pair.
        rows: int64 [b or 1, x], the kind of each row; None where there is one kind.
        keys: tables [k, r, g, s], one for each layer or one for all.
        values: likewise; empty for keys alone.
    """
    banks = [
        PairBias(ids=ids, rows=rows, key=key, value=values[i] if values else None)
        for i, key in enumerate(keys)
    ]
    return banks * layers if len(banks) == 1 else banks
