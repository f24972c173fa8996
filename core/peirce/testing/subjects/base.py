"""What every subject offers to checks, whatever the kind of its part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, final

import torch
from attrs import define
from torch import Tensor

from peirce.algebra import Scope
from peirce.parts import Branch, Dims, TensorSpec, terms
from peirce.testing.failures import BrokenError
from peirce.testing.strategies import BASE, normal
from peirce.testing.views import OTHER_AXES, Slot, View

Outputs = list[tuple[Slot, Tensor]]
"""What a part gave, each tensor with what its axes count."""


@define
class Subject(ABC):
    """A part with its options and sizes.

    Attributes:
        examples: how many generated examples a property is tried on.
        module: whether the part has parameters.
        effort: how many of these examples are tried, as a factor.
    """

    part: type[Any]
    options: Any
    label: str
    dims: Dims = BASE
    effort: float = 1.0
    examples: ClassVar[int] = 12
    module: ClassVar[bool] = True

    @property
    @abstractmethod
    def kinds(self) -> tuple[str, ...]:
        """The kinds of scope that the part takes."""

    @abstractmethod
    def make(self, *, seed: int = 0, random: bool = True, dtype: torch.dtype = torch.float64) -> Any:
        """The part itself, newly made and in evaluation mode.

        Args:
            seed: what its parameters depend on.
            random: whether parameters get values of order one; otherwise they stay as the part initialises them.
            dtype: their dtype.
        """

    @abstractmethod
    def resized(self, dims: Dims) -> Subject:
        """The part at other sizes, if it accepts them; a part that refuses them stays as it is."""

    @abstractmethod
    def reads(self) -> tuple[Slot, ...]:
        """The tensors that the part is run on."""

    @abstractmethod
    def writes(self, made: Any) -> tuple[Slot, ...]:
        """The tensors that the part declares to give; a batch axis may have size 1 in positions."""

    @abstractmethod
    def gives(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope) -> Outputs:
        """What the part gives for `tensors`, with whatever it leaves outside the scope."""

    @abstractmethod
    def settled(self, outputs: Outputs, view: View, scope: Scope) -> Outputs:
        """What the composer makes of what the part gave: the zeros and the size that it sees to."""

    @final
    def raw(self, made: Any, tensors: Sequence[Tensor], view: View) -> Outputs:
        """As `run`, without what the composer sees to."""
        return self.gives(made, tensors, view, view.scope())

    @final
    def run(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope | None = None) -> Outputs:
        """Run the part as the composer does.

        Args:
            made: from `make`.
            tensors: as `reads` says.
            view: who sees whom.
            scope: the same in another form.
        """
        scope = scope or view.scope()
        return self.settled(self.gives(made, tensors, view, scope), view, scope)

    @final
    def once(self, tensors: Sequence[Tensor], view: View, scope: Scope | None = None) -> Outputs:
        """Run a newly made part."""
        return self.run(self.make(), tensors, view, scope)

    @final
    def draw(
        self, view: View, generator: torch.Generator, dtype: torch.dtype = torch.float64, scale: float = 1.0
    ) -> list[Tensor]:
        """Values for `reads`: floats of order `scale`, integers below the slot's bound."""
        return [_values(slot, view, generator, dtype, scale) for slot in self.reads()]

    @final
    def extreme(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors with softmax logits of +-1e4 in place of whatever logits they hold."""
        return [
            tensor.sign() * 1e4 if slot.logits else tensor
            for slot, tensor in zip(self.reads(), tensors, strict=True)
        ]

    @property
    @final
    def sizes(self) -> str:
        """The sizes that operators and heads depend on, for failures."""
        dims = self.dims
        return f"unary {dims.unary}, binary {dims.binary}, heads {dims.heads}, head_size {dims.head_size}"


def _values(slot: Slot, view: View, generator: torch.Generator, dtype: torch.dtype, scale: float) -> Tensor:
    sizes = {"batch": view.batch, "length": view.length}
    shape = [size_of(axis, sizes) for axis in slot.axes]
    if slot.dtype == "int64":
        return torch.randint(0, slot.high or 2, shape, generator=generator)
    if slot.dtype == "bool":
        return torch.rand(shape, generator=generator) < 0.5
    return normal(shape, generator, dtype) * scale


def atoms(name: str, branch: Branch, shape: Mapping[str, int], *, logits: bool = False) -> Slot:
    """The slot of a tensor with channels for each token of a branch, or for each pair."""
    tokens = ["length"] if branch == "U" else ["length", "length"]
    return Slot(name, ("batch", *tokens, *shape.values()), logits=logits)


def slots(specs: Iterable[TensorSpec]) -> tuple[Slot, ...]:
    """The slots of declared tensors."""
    return tuple(Slot(spec.name, spec.dims, spec.dtype, spec.high) for spec in specs)


def named(outputs: Mapping[str, Tensor], declared: Iterable[Slot]) -> Outputs:
    """Named outputs beside their slots, which must be the same names in the same order.

    Raises:
        BrokenError: they are not.
    """
    expected = [slot.name for slot in declared]
    if list(outputs) != expected:
        raise BrokenError(f"it declares the outputs {expected}, and gives {list(outputs)}")
    return [(slot, outputs[slot.name]) for slot in declared]


def size_of(axis: str | int, sizes: Mapping[Any, int]) -> int:
    """How long an axis is: a number, a symbolic one, or a sum of several."""
    if isinstance(axis, int):
        return axis
    return sum(int(term) if term.isdigit() else sizes.get(term, OTHER_AXES) for term in terms(axis))
