"""Architectures as checks see them: tiny models."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

import torch
from attrs import define, evolve, field
from torch import Tensor

from peirce.algebra import Scope
from peirce.compose import build
from peirce.errors import PeirceError
from peirce.model import Model
from peirce.parts import Architecture, Dims
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_testing.examples import Slot, Tensors, View
from peirce_testing.harness.base import Harness, name_outputs, slots
from peirce_testing.tiny_models import build_random, fit_scope, sizes_of


@define
class ArchitectureHarness(Harness):
    """A tiny model of an architecture, one for each kind of scope, run on the inputs of its signature."""

    specs: Mapping[str, Spec] = field(kw_only=True)
    registry: Registry = field(kw_only=True)
    _models: dict[Any, Model] = field(factory=dict, init=False)
    examples: ClassVar[int] = 8

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those that a tiny model can be composed for."""
        return tuple(self.specs)

    def make(self, *, seed: int = 0, random: bool = True, dtype: torch.dtype = torch.float64) -> Any:
        """A model for each kind of scope; kept, since composing one takes a thousand times as long as running it."""
        models = {}
        for kind, spec in self.specs.items():
            key = kind, seed, random, dtype
            if key not in self._models:
                self._models[key] = (
                    build_random(spec, self.registry, dtype=dtype, seed=seed)
                    if random
                    else build(spec, seed=seed, registry=self.registry, dtype=dtype).eval()
                )
            models[kind] = self._models[key]
        return models

    def forget(self) -> None:
        """Drop the cached models; the next ones are composed anew."""
        self._models.clear()

    def resize(self, dims: Dims) -> Harness:
        """For longer texts, where they are longer than the specs say; the other sizes are those of the specs."""
        if dims.max_length <= self.dims.max_length:
            return self
        longer = {"model.input.max_length": dims.max_length}
        specs = self.few(2).specs.items()
        return evolve(self, specs={k: fit_scope(spec.replace(longer), self.registry) for k, spec in specs})

    def with_dropout(self, rate: float) -> Harness:
        """See `Harness.with_dropout`."""
        change = {"model.regularisation.dropout": rate}
        specs = {k: fit_scope(spec.replace(change), self.registry) for k, spec in self.few(1).specs.items()}
        return evolve(self, specs=specs)

    def few(self, count: int) -> ArchitectureHarness:
        """The architecture in the first of its kinds of scope alone."""
        return evolve(self, specs=dict(list(self.specs.items())[:count]))

    def widen(self) -> ArchitectureHarness:
        """Of twice the width, if that can be varied alone: a norm of two numbers leaves little but their order."""
        with suppress(PeirceError):
            wide = {
                f"model.dims.{name}": 2 * size
                for name, size in sizes_of(self.part).items()
                if name == "unary"
            }
            specs = {kind: fit_scope(spec.replace(wide), self.registry) for kind, spec in self.specs.items()}
            return evolve(self, specs=specs)
        return self

    def reads(self) -> tuple[Slot, ...]:
        """The inputs, but those that a view gives."""
        model = next(iter(self.make().values()))
        shown = (*_masks(model), "prefix_length", "relation")
        return tuple(slot for slot in slots(model.signature.inputs) if slot.name not in shown)

    def writes(self, instance: Any) -> tuple[Slot, ...]:
        """The outputs."""
        return slots(next(iter(instance.values())).signature.outputs)

    def fit(self, drawn: Tensors, generator: torch.Generator) -> Tensors:
        """See `Harness.fit`."""
        if self.part.example_inputs is Architecture.example_inputs:
            return drawn
        network = next(iter(self.make().values())).network
        own = network.example_inputs({slot.name: tensor for slot, tensor in drawn}, generator)
        return drawn.map(lambda slot, tensor: own.get(slot.name, tensor))

    def inputs(self, model: Model, tensors: Tensors, view: View) -> dict[str, Tensor]:
        """What a model is given."""
        masks = {} if view.real is None else dict.fromkeys(_masks(model), view.real)
        return {slot.name: tensor for slot, tensor in tensors} | masks | view.given

    def compute(self, instance: Any, tensors: Tensors, view: View, scope: Scope) -> Tensors:
        """The outputs; a model makes its scope itself, from what the view gives."""
        model = instance[view.kind]
        return name_outputs(model(**self.inputs(model, tensors, view)), self.writes(instance))


def _masks(model: Model) -> tuple[str, ...]:
    """The inputs that mark padding among the tokens of a view."""
    return tuple(spec.name for spec in model.signature.inputs if spec.masks == "length")
