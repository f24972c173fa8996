"""What a harness offers to checks, whatever the kind of its part: tensors in, tensors out, a way to make it afresh."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, final

import torch
from attrs import define, field
from torch import Tensor, nn

from peirce.algebra import Scope
from peirce.parts import Dims, TensorSpec, dim_terms
from peirce.registry import Registered, Registry
from peirce_testing.compare import BrokenError
from peirce_testing.examples import BASE, OTHER_AXES, Slot, Tensors, View, normal
from peirce_testing.options import example_options, record_reads

EXAMPLE = "its example options"
"""The label of a part with the options of its `example`."""


@define
class Harness(ABC):
    """A part with its options and sizes.

    Attributes:
        examples: how many examples a property is tried on.
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

    def forget(self) -> None:
        """Drop what `make` has cached, after a check has changed it."""
        return

    @abstractmethod
    def resize(self, dims: Dims) -> Harness:
        """The part at other sizes, if it accepts them; a part that refuses them stays as it is."""

    @abstractmethod
    def with_dropout(self, rate: float) -> Harness:
        """The part where `dims.dropout` is a rate."""

    @abstractmethod
    def reads(self) -> tuple[Slot, ...]:
        """The tensors that the part is run on."""

    @abstractmethod
    def writes(self, instance: Any) -> tuple[Slot, ...]:
        """The tensors that the part declares to give; a batch axis may have size 1 in positions."""

    @abstractmethod
    def compute(self, instance: Any, tensors: Tensors, view: View, scope: Scope) -> Tensors:
        """The outputs of the part for `tensors`, unmasked."""

    def complete(self, outputs: Tensors, view: View, scope: Scope) -> Tensors:
        """The outputs as the composer completes them: masked, and expanded to the batch."""
        return outputs

    @final
    def raw(self, instance: Any, tensors: Tensors, view: View) -> Tensors:
        """Run the part without `complete`."""
        return self.compute(instance, tensors, view, view.scope())

    @final
    def run(self, instance: Any, tensors: Tensors, view: View, scope: Scope | None = None) -> Tensors:
        """Run the part as the composer does.

        Args:
            instance: what `make` gave.
            tensors: as `reads` says.
            view: who sees whom.
            scope: the scope in another form.
        """
        scope = scope or view.scope()
        return self.complete(self.compute(instance, tensors, view, scope), view, scope)

    @final
    def once(self, tensors: Tensors, view: View, scope: Scope | None = None) -> Tensors:
        """Run a newly made part."""
        return self.run(self.make(), tensors, view, scope)

    @final
    def draw(
        self,
        view: View,
        seed: int | torch.Generator = 0,
        dtype: torch.dtype = torch.float64,
        scale: float = 1.0,
    ) -> Tensors:
        """Values for `reads`: floats of order `scale`, integers below the slot's bound."""
        generator = torch.Generator().manual_seed(seed) if isinstance(seed, int) else seed
        sizes = {"batch": view.batch, "length": view.length}
        drawn = Tensors((slot, values(slot, sizes, generator, dtype, scale)) for slot in self.reads())
        return self.fit(drawn, generator)

    def fit(self, drawn: Tensors, generator: torch.Generator) -> Tensors:
        """What is drawn, with inputs of the part's own where random ones do not fit together."""
        return drawn

    @property
    @final
    def sizes(self) -> str:
        """The sizes that operators and heads depend on, for failures."""
        dims = self.dims
        return f"unary {dims.unary}, binary {dims.binary}, heads {dims.heads}, head_size {dims.head_size}"


def modules(instance: Any) -> list[nn.Module]:
    """The modules of what `Harness.make` gave; none for an operator without parameters."""
    several = instance.values() if isinstance(instance, dict) else [instance]
    return [each for each in several if isinstance(each, nn.Module)]


def state_of(instance: Any) -> dict[str, Tensor]:
    """Copies of the parameters and buffers of what `Harness.make` gave, by name and number of the module."""
    found = enumerate(modules(instance))
    return {
        f"{n} {i}": t.clone() for i, m in found for n, t in (m.state_dict() | dict(m.named_buffers())).items()
    }


def values(
    slot: Slot,
    sizes: Mapping[Any, int],
    generator: torch.Generator,
    dtype: torch.dtype = torch.float64,
    scale: float = 1.0,
) -> Tensor:
    """Values for one tensor whose symbolic axes have these sizes."""
    shape = [size_of(axis, sizes) for axis in slot.axes]
    if slot.dtype == "int64":
        return torch.randint(0, slot.high or 2, shape, generator=generator)
    if slot.dtype == "bool":
        return torch.rand(shape, generator=generator) < 0.5
    return normal(shape, generator, dtype) * scale


def slots(specs: Iterable[TensorSpec]) -> tuple[Slot, ...]:
    """The slots of declared tensors."""
    return tuple(Slot(spec.name, spec.dims, spec.dtype, spec.high) for spec in specs)


def name_outputs(outputs: Mapping[str, Tensor], declared: Iterable[Slot]) -> Tensors:
    """Named outputs beside their slots, which must be the same names in the same order.

    Raises:
        BrokenError: they are not.
    """
    expected = [slot.name for slot in declared]
    if list(outputs) != expected:
        raise BrokenError(f"it declares the outputs {expected}, and gives {list(outputs)}")
    return Tensors((slot, outputs[slot.name]) for slot in declared)


def size_of(axis: str | int, sizes: Mapping[Any, int]) -> int:
    """How long an axis is: a number, a symbolic one, or a sum of several."""
    if isinstance(axis, int):
        return axis
    return sum(int(term) if term.isdigit() else sizes.get(term, OTHER_AXES) for term in dim_terms(axis))


@define(slots=False)
class UsedHarness:
    """A part that is built as `cls(options)`, from options that record what is read of them.

    Attributes:
        folder: where its files are.
        read: the options that anything has read so far.
    """

    entry: Registered
    registry: Registry
    folder: Path
    read: set[str] = field(factory=set, init=False)

    @cached_property
    def options(self) -> Any:
        """The example options."""
        return record_reads(example_options(self.entry.part), self.read)

    def fresh(self, options: Any = None) -> Any:
        """The part, newly made."""
        return self.entry.part(self.options if options is None else options)
