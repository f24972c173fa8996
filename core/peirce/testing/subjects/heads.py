"""Heads as checks see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define
from torch import Tensor

from peirce.algebra import Scope
from peirce.parts import Encoded
from peirce.testing.subjects.base import Outputs, atoms, named, slots
from peirce.testing.subjects.tokens import TokenSubject
from peirce.testing.views import SCOPE_KINDS, Slot, View


@define
class HeadSubject(TokenSubject):
    """A head, run on atoms that are zero outside the scope, and on a pooled output."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """All."""
        return SCOPE_KINDS

    def reads(self) -> tuple[Slot, ...]:
        """The tokens, and what an architecture gives to heads."""
        dims = self.dims
        return (
            *self.token_slots(),
            atoms("unary", "U", {"d": dims.unary}),
            atoms("binary", "B", {"d": dims.binary}),
            Slot("pooled", ("batch", dims.pooled)),
            Slot("embeddings", (dims.vocabulary, dims.unary)),
        )

    def writes(self, made: Any) -> tuple[Slot, ...]:
        """The predictions."""
        return slots(made.outputs())

    def predict(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope) -> dict[str, Tensor]:
        """The head's outputs by name."""
        unary, binary, pooled, embeddings = tensors[-4:]
        encoded = Encoded(
            scope.zero_unary(unary),
            None if "binary" in self.absent else scope.zero_binary(binary),
            None if "pooled" in self.absent else pooled,
            scope,
            embeddings,
        )
        return made(encoded, self.tokens(tensors, view))

    def gives(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope) -> Outputs:
        """The predictions."""
        return named(self.predict(made, tensors, view, scope), self.writes(made))

    def settled(self, outputs: Outputs, view: View, scope: Scope) -> Outputs:
        """As they are."""
        return outputs
