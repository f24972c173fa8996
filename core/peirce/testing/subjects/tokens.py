"""Parts that read tokens: positions, augmenters and heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from attrs import define
from torch import Tensor

from peirce.parts import Tokens
from peirce.testing.strategies import BASE
from peirce.testing.subjects.base import slots
from peirce.testing.subjects.sized import SizedSubject
from peirce.testing.views import Slot, View

STANDARD = (
    Slot("input_ids", ("batch", "length"), "int64", BASE.vocabulary),
    Slot("token_type_ids", ("batch", "length"), "int64", BASE.token_types),
)
"""The inputs that these parts may always read."""


@define
class TokenSubject(SizedSubject):
    """A part that reads tokens; their tensors are the first of `reads`."""

    @final
    def token_slots(self) -> tuple[Slot, ...]:
        """The standard inputs, and those that the part declares."""
        own = slots(self.make().inputs())
        return (*(slot for slot in STANDARD if slot.name not in {s.name for s in own}), *own)

    @final
    def tokens(self, tensors: Sequence[Tensor], view: View) -> Tokens:
        """The tokens, from the tensors of `reads`."""
        inputs = {slot.name: tensor for slot, tensor in zip(self.token_slots(), tensors, strict=False)}
        if view.real is not None:
            inputs["attention_mask"] = view.real
        return Tokens(inputs, view.real, view.index, view.length)
