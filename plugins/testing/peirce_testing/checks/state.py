"""A part's parameters: the same for the same seed, all of them in the state dict, and back from a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import torch

from peirce.compose import build, load
from peirce.model import Model
from peirce.parts import PureOperator
from peirce.registry import Registry
from peirce_testing.check import NETWORK, Case, check
from peirce_testing.compare import BrokenError, alike, same, torch_unchanged
from peirce_testing.examples import Tensors, View, plain_view
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import Harness, modules, state_of
from peirce_testing.subprocess import example_outputs, outputs_in_subprocess
from peirce_testing.tiny_models import around


@check(*NETWORK, but=PureOperator)
def seed(harness: Harness) -> None:
    """The same seed gives the same parameters, and making a part changes nothing that everybody shares. As the part
    initialises them itself.
    """
    first = harness.make(seed=3, random=False)
    _same_state(attrs.evolve(harness).make(seed=3, random=False), first)
    if isinstance(harness, ArchitectureHarness):
        return
    states, default = [], torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)  # an earlier making may have changed it
    try:
        for begun in (3, 4):
            with torch.random.fork_rng(devices=[]), torch_unchanged("`__init__`", draws=True):
                torch.manual_seed(begun)
                harness.part(harness.options, harness.dims)
                states.append(torch.get_rng_state())
    finally:
        torch.set_default_dtype(default)
    if torch.equal(*states):
        raise BrokenError("making it seeds torch's generator, which everybody draws from")


@check(*NETWORK, but=PureOperator)
def state_dict(harness: Harness) -> None:
    """The state dict holds everything that a part's values depend on. Loaded into an instance from another seed that
    was used before, it gives the same values.
    """
    one, two = harness.make(seed=1), harness.make(seed=2)
    view = plain_view(harness.kinds[0], 2, 4)
    tensors = harness.draw(view)
    harness.run(two, tensors, view)
    for module, other in zip(modules(one), modules(two), strict=True):
        state = module.state_dict()
        if missing := [key for key, _ in module.named_parameters() if key not in state]:
            raise BrokenError(f"the state dict lacks the parameters {missing}")
        other.load_state_dict(state)
    first, second = (harness.run(made, tensors, view) for made in (one, two))
    alike(second, first, "after loading the state dict", tolerance=1e-12)
    harness.forget()  # the models of seed 2 now hold other parameters


@check(*NETWORK, but=PureOperator, slow=True)
def save_load(case: Case) -> None:
    """A model that is saved and loaded is the same model, with what `begin` brought. Spec, parameters and values: of an
    architecture in every kind of scope, of another part in a tiny model; in another process too, which hashes texts
    otherwise and works in another folder.
    """

    def models(harness: ArchitectureHarness) -> None:
        for kind, model in harness.make(dtype=torch.float32).items():
            view = plain_view(kind, 2, 4)
            tensors = harness.draw(view)
            _same_after(model, harness.registry, partial(_run, harness, tensors, view))

    if case.entry.kind == "architectures":
        case.each(models)
    spec = around(case.entry, case.harness.options, case.registry)
    _same_after(build(spec, registry=case.registry).eval(), case.registry, example_outputs, subprocess=True)


def _run(harness: Harness, tensors: Tensors, view: View, model: Model) -> Tensors:
    return harness.run({view.kind: model}, tensors, view)


def _same_after(
    model: Model, registry: Registry, run: Callable[[Model], Tensors], *, subprocess: bool = False
) -> None:
    """Hold a model to what is loaded from its files."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "model"
        model.save(path)
        again = load(path, registry=registry).eval()
        there = outputs_in_subprocess(path, registry) if subprocess else None
    if there is not None:
        for slot, value in run(model):
            same(there[slot.name], value.detach(), f"{slot.name} after loading in another process", 1e-6)
    if again.spec != model.spec:
        raise BrokenError(f"the spec comes back as\n{again.spec.to_toml()}")
    _same_state(again, model)
    alike(run(again), run(model), "after loading", tolerance=1e-6)


def _same_state(given: object, expected: object) -> None:
    one, two = state_of(given), state_of(expected)
    if list(one) != list(two):
        raise BrokenError(f"the state dict has the keys {list(two)}, and then {list(one)}")
    for name, value in two.items():
        same(one[name], value, name, tolerance=0.0)
