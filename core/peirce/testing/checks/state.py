"""A part's parameters: the same for the same seed, all of them in the state dict, and back from a file."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from peirce.compose import load
from peirce.parts import Operator
from peirce.testing.check import Case, check
from peirce.testing.checks.declared import NETWORK
from peirce.testing.compare import same
from peirce.testing.failures import BrokenError
from peirce.testing.subjects import ArchitectureSubject, Outputs, Subject
from peirce.testing.views import plain_view


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

    case.each(body)


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


@check("architectures", contract="a model that is saved and loaded is the same model")
def save_load(case: Case) -> None:
    """Spec, parameters and values, in every kind of scope."""

    def body(subject: Subject) -> None:
        assert isinstance(subject, ArchitectureSubject)
        for kind, spec in subject.specs.items():
            model = subject.make(dtype=torch.float32)[kind]
            with TemporaryDirectory() as directory:
                path = Path(directory) / "model"
                model.save(path)
                again = load(path, registry=subject.registry).eval()
            if again.spec != spec:
                raise BrokenError(f"the spec comes back as\n{again.spec.to_toml()}")
            _same_state({"": model}, {"": again})
            view = plain_view(kind, 2, 4)
            tensors = subject.draw(view, torch.Generator().manual_seed(0))
            for (slot, first), (_, second) in zip(
                subject.run({kind: model}, tensors, view),
                subject.run({kind: again}, tensors, view),
                strict=True,
            ):
                same(second, first, f"{slot.name} after loading", tolerance=1e-6)

    case.each(body)


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
