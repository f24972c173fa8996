"""Parts that read tokens: positions, augmenters and heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from attrs import define, field
from torch import Tensor

from peirce.parts import Tokens
from peirce.testing.subjects.base import slots
from peirce.testing.subjects.sized import SizedSubject
from peirce.testing.views import Slot, View


@define
class TokenSubject(SizedSubject):
    """A part that reads tokens; their tensors are the first of `reads`.

    Attributes:
        absent: the inputs that it is not given.
    """

    absent: frozenset[str] = field(default=frozenset(), kw_only=True)

    @final
    def token_slots(self) -> tuple[Slot, ...]:
        """The standard inputs, and those that the part declares."""
        own = slots(self.make().inputs())
        axes = ("batch", "length")
        standard = (
            Slot("input_ids", axes, "int64", self.dims.vocabulary),
            Slot("token_type_ids", axes, "int64", self.dims.token_types),
        )
        return (*(slot for slot in standard if slot.name not in {s.name for s in own}), *own)

    @final
    def tokens(self, tensors: Sequence[Tensor], view: View) -> Tokens:
        """The tokens, from the tensors of `reads`."""
        given = zip(self.token_slots(), tensors, strict=False)
        inputs = {slot.name: tensor for slot, tensor in given if slot.name not in self.absent}
        if view.real is not None:
            inputs["attention_mask"] = view.real
        return Tokens(inputs, view.real, view.index, view.length)
