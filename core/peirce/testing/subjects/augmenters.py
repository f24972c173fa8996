"""Augmenters as checks see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define
from torch import Tensor

from peirce.algebra import Scope
from peirce.testing.subjects.base import Outputs, atoms
from peirce.testing.subjects.tokens import TokenSubject
from peirce.testing.views import Slot, View


@define
class AugmenterSubject(TokenSubject):
    """An augmenter, run on embeddings of order one."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """One, since augmenters see no scope."""
        return ("bidirectional",)

    def reads(self) -> tuple[Slot, ...]:
        """The tokens and their embeddings."""
        return (*self.token_slots(), atoms("embeddings", "U", {"d": self.dims.unary}))

    def writes(self, made: Any) -> tuple[Slot, ...]:
        """The embeddings."""
        return (atoms("embeddings", "U", {"d": self.dims.unary}),)

    def gives(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope) -> Outputs:
        """The changed embeddings."""
        return [(self.writes(made)[0], made(tensors[-1], self.tokens(tensors, view)))]

    def settled(self, outputs: Outputs, view: View, scope: Scope) -> Outputs:
        """As they are."""
        return outputs
