"""Operators as checks see them: kernels and premises are prepared as the composer does, without an architecture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from attrs import define
from torch import Tensor

from peirce.algebra import Predicates, Scope
from peirce.networks import recur
from peirce.parts import Dims, Operator, StateOperator
from peirce.testing.subjects.base import Outputs, atoms
from peirce.testing.subjects.sized import SizedSubject
from peirce.testing.views import SCOPE_KINDS, Slot, View


@define
class OperatorSubject(SizedSubject):
    """An operator, run on raw kernels and premises: what its projections give before the composer uses them."""

    module: ClassVar[bool] = False
    examples: ClassVar[int] = 16

    @property
    def kinds(self) -> tuple[str, ...]:
        """See `Subject.kinds`."""
        return _taken(self.part, self.options, self.dims)

    def reads(self) -> tuple[Slot, ...]:
        """The kernel and the premise."""
        made = self.make()
        ends = {"kernel": made.kernel(), "premise": made.premise()}
        return tuple(
            atoms(name, end.branch, end.shape, logits=end.activation == "softmax")
            for name, end in ends.items()
        )

    def writes(self, made: Any) -> tuple[Slot, ...]:
        """The output."""
        output = made.output()
        return (atoms("output", output.branch, output.shape),)

    def gives(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope) -> Outputs:
        """The operator's inference."""
        result = made.infer(*prepare(made, tensors[0], tensors[1], scope), scope)
        return [(self.writes(made)[0], result)]

    def settled(self, outputs: Outputs, view: View, scope: Scope) -> Outputs:
        """Zero outside the scope."""
        return _zeroed(outputs, scope)


@define
class StateOperatorSubject(SizedSubject):
    """An operator with parameters of its own, run on atoms that are zero outside the scope."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """See `Subject.kinds`."""
        return _taken(self.part, self.options, self.dims)

    def reads(self) -> tuple[Slot, ...]:
        """Both atoms."""
        return atoms("unary", "U", {"d": self.dims.unary}), atoms("binary", "B", {"d": self.dims.binary})

    def writes(self, made: Any) -> tuple[Slot, ...]:
        """The increments of both."""
        return self.reads()

    def gives(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope) -> Outputs:
        """The increments."""
        unary, binary = tensors
        result = made(Predicates(scope.zero_unary(unary), scope.zero_binary(binary)), scope)
        increments = zip(self.writes(made), (result.unary, result.binary), strict=True)
        return [(slot, increment) for slot, increment in increments if increment is not None]

    def settled(self, outputs: Outputs, view: View, scope: Scope) -> Outputs:
        """Zero outside the scope."""
        return _zeroed(outputs, scope)


@define
class RecurrentOperatorSubject(SizedSubject):
    """A recurrent operator, run step by step over the real tokens of a text."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """A recurrence sees what lies before each token, whatever architecture it stands in."""
        return ("causal",)

    def reads(self) -> tuple[Slot, ...]:
        """The unary atoms."""
        return (atoms("unary", "U", {"d": self.dims.unary}),)

    def writes(self, made: Any) -> tuple[Slot, ...]:
        """The outputs."""
        return (atoms("output", "U", {"r": self.dims.recurrent}),)

    def gives(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope) -> Outputs:
        """What the loop gives."""
        return [(self.writes(made)[0], recur(made, tensors[0], None, view.real)[0])]

    def settled(self, outputs: Outputs, view: View, scope: Scope) -> Outputs:
        """Zero at padding."""
        return _zeroed(outputs, scope)


def prepare(operator: Operator, kernel: Tensor, premise: Tensor, scope: Scope) -> tuple[Tensor, Tensor]:
    """A kernel and a premise as `infer` gets them, from what their projections give.

    A binary softmax kernel is normalised over the scope. Other binary channels of an operator that sums over tokens
    are zero outside the scope. Everything else stays: unary logits, and whatever stands at padding.
    """
    ready = []
    for reader, values in ((operator.kernel(), kernel), (operator.premise(), premise)):
        if reader.branch == "B" and reader.activation == "softmax":
            values = scope.softmax(values)
        elif reader.branch == "B" and operator.scope_rule == "reduce":
            values = scope.zero_binary(values)
        ready.append(values)
    return ready[0], ready[1]


def _taken(part: type[Operator | StateOperator], options: Any, dims: Dims) -> tuple[str, ...]:
    return tuple(kind for kind in SCOPE_KINDS if part.check(options, dims, kind) is None)


def _zeroed(outputs: Outputs, scope: Scope) -> Outputs:
    return [
        (slot, scope.zero_unary(tensor) if len(slot.tokens) == 1 else scope.zero_binary(tensor))
        for slot, tensor in outputs
    ]
