"""A part's parameters: the same for the same seed, all of them in the state dict, and back from a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from peirce.compose import build, load
from peirce.model import Model
from peirce.parts import Operator
from peirce.registry import Registry
from peirce.spec import Spec
from peirce.testing.check import Case, check
from peirce.testing.checks.declared import NETWORK
from peirce.testing.checks.shared import left_alone
from peirce.testing.compare import same
from peirce.testing.composed import around
from peirce.testing.failures import BrokenError
from peirce.testing.subjects import ArchitectureSubject, Outputs, Subject
from peirce.testing.subjects.base import named, size_of, slots
from peirce.testing.views import View, plain_view


def _has_state(part: type[Any]) -> bool:
    return not issubclass(part, Operator)


@check(*NETWORK, contract="the same seed gives the same parameters", covers=_has_state)
def seed(case: Case) -> None:
    """As the part initialises them itself."""

    def body(subject: Subject) -> None:
        if isinstance(subject, ArchitectureSubject):
            first = subject.make(seed=3, random=False)
            again = ArchitectureSubject(
                part=subject.part, options=subject.options, label=subject.label, specs=subject.specs,
                registry=subject.registry,
            ).make(seed=3, random=False)  # fmt: skip
            _same_state(_modules(first), _modules(again))
        else:
            _same_state(
                _modules(subject.make(seed=3, random=False)), _modules(subject.make(seed=3, random=False))
            )
            _seeds_nothing(subject)

    case.each(body)


def _seeds_nothing(subject: Subject) -> None:
    """Making a part goes on with the generator where it is, and changes nothing else that the process shares."""
    states, default = [], torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)  # an earlier making may have changed it
    try:
        for begun in (3, 4):
            with torch.random.fork_rng(devices=[]), left_alone("__init__", but="the random state of torch"):
                torch.manual_seed(begun)
                subject.part(subject.options, subject.dims)
                states.append(torch.get_rng_state())
    finally:
        torch.set_default_dtype(default)
    if torch.equal(*states):
        raise BrokenError("making it seeds torch's generator, which everybody draws from")


@check(*NETWORK, contract="the state dict holds everything that a part's values depend on", covers=_has_state)
def state_dict(case: Case) -> None:
    """Loaded into an instance from another seed, it gives the same values."""

    def body(subject: Subject) -> None:
        one, two = subject.make(seed=1), subject.make(seed=2)
        for name, module in _modules(one).items():
            state = module.state_dict()
            missing = [key for key, parameter in module.named_parameters() if key not in state]
            if missing:
                raise BrokenError(f"the state dict lacks the parameters {missing}")
            _modules(two)[name].load_state_dict(state)
        for (slot, first), (_, second) in zip(_run(subject, one), _run(subject, two), strict=True):
            same(second, first, f"{slot.name} after loading the state dict", tolerance=1e-12)
        if isinstance(subject, ArchitectureSubject):
            subject.forget()  # the models of seed 2 now hold other parameters

    case.each(body)


@check(
    *NETWORK,
    contract="a model that is saved and loaded is the same model, with what `begin` brought",
    covers=_has_state,
)
def save_load(case: Case) -> None:
    """Spec, parameters and values: of an architecture in every kind of scope, of another part in a tiny model."""

    def models(subject: Subject) -> None:
        assert isinstance(subject, ArchitectureSubject)
        for kind, spec in subject.specs.items():
            view = plain_view(kind, 2, 4)
            tensors = subject.draw(view, torch.Generator().manual_seed(0))

            def run(model: Model, view: View = view, tensors: list[Tensor] = tensors) -> Outputs:
                return subject.run({view.kind: model}, tensors, view)

            _same_after(subject.make(dtype=torch.float32)[kind], spec, subject.registry, run)

    if case.entry.kind == "architectures":
        case.each(models)
        return
    spec = around(case.entry, case.subject.options, case.registry)
    _same_after(build(spec, registry=case.registry).eval(), spec, case.registry, _drawn)


def _drawn(model: Model) -> Outputs:
    """What a model gives for inputs that its signature allows."""
    generator = torch.Generator().manual_seed(0)
    inputs, sizes = {}, {"batch": 12, "length": 4}
    for slot in slots(model.signature.inputs):
        shape = [size_of(axis, sizes) for axis in slot.axes]
        if slot.dtype == "bool":
            inputs[slot.name] = torch.ones(shape, dtype=torch.bool)
        else:
            inputs[slot.name] = torch.randint(0, slot.high or 2, shape, generator=generator)
    return named(model(**inputs), slots(model.signature.outputs))


def _same_after(model: Model, spec: Spec, registry: Registry, run: Callable[[Model], Outputs]) -> None:
    """Hold a model to what is loaded from its files."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "model"
        model.save(path)
        again = load(path, registry=registry).eval()
    if again.spec != spec:
        raise BrokenError(f"the spec comes back as\n{again.spec.to_toml()}")
    _same_state({"": model}, {"": again})
    for (slot, first), (_, second) in zip(run(model), run(again), strict=True):
        same(second, first, f"{slot.name} after loading", tolerance=1e-6)


def _modules(made: Any) -> dict[str, torch.nn.Module]:
    return made if isinstance(made, dict) else {"": made}


def _run(subject: Subject, made: Any) -> Outputs:
    view = plain_view(subject.kinds[0], 2, 4)
    return subject.run(made, subject.draw(view, torch.Generator().manual_seed(0)), view)


def _same_state(first: dict[str, torch.nn.Module], second: dict[str, torch.nn.Module]) -> None:
    for kind, module in first.items():
        one, two = module.state_dict(), second[kind].state_dict()
        if list(one) != list(two):
            raise BrokenError(f"the state dict has the keys {list(one)}, and then {list(two)}")
        for name, value in one.items():
            same(two[name], value, f"{name}", tolerance=0.0)
