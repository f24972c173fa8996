"""A part's parameters: the same for the same seed, all of them in the state dict, and back from a file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import chdir
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import torch

from peirce.compose import build, load
from peirce.model import Model
from peirce.parts import ModulePart, PureOperator
from peirce.registry import Registry
from peirce_testing.check import NETWORK, Case, check
from peirce_testing.compare import BrokenError, assert_all_equal, assert_equal, torch_unchanged
from peirce_testing.examples import BASE, Tensors, View, plain_view
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import Harness, modules, name_outputs, slots, state_of, values
from peirce_testing.options import options_in
from peirce_testing.tiny_models import spec_around


@check(*NETWORK, but=PureOperator)
def seed(harness: Harness) -> None:
    """The same seed gives the same parameters, and making a part changes nothing that everybody shares. As the part
    initialises them itself.
    """
    first = harness.make(seed=3, random=False)
    _check_same_state(attrs.evolve(harness).make(seed=3, random=False), first)
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
    if issubclass(harness.part, ModulePart):
        _check_begin(harness)


def _check_begin(harness: Harness) -> None:
    """Compare what two instances of one seed begin with."""
    with TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        options, begun = options_in(harness.part, Path(folder), harness.dims), []
        for _ in range(2):
            torch.manual_seed(3)
            begun.append(harness.part(options, harness.dims))
            begun[-1].begin()
    _check_same_state(begun[1], begun[0], "after `begin`, a second time from one seed")


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
    first, second = (harness.run(instance, tensors, view) for instance in (one, two))
    assert_all_equal(second, first, "after loading the state dict", tolerance=1e-12)
    harness.forget()  # the models of seed 2 now hold other parameters


@check(*NETWORK, but=PureOperator, slow=True)
def save_load(case: Case) -> None:
    """A model that is saved and loaded is the same model, with what `begin` brought. Spec, parameters and values, in
    another working directory: of an architecture in every kind of scope, of another part in a tiny model.
    """

    def models(harness: ArchitectureHarness) -> None:
        for kind, model in harness.make(dtype=torch.float32).items():
            view = plain_view(kind, 2, 4)
            run = partial(_run, harness, harness.draw(view), view)
            _check_loaded(model, harness.registry, run)

    if case.entry.kind == "architectures":
        case.each(models)
    with TemporaryDirectory() as folder:  # what `begin` reads is gone when the model is loaded
        options = options_in(case.part, Path(folder), BASE)
        model = build(spec_around(case.entry, options, case.registry), registry=case.registry)
    _check_loaded(model.eval(), case.registry, _example_outputs)


def _run(harness: Harness, tensors: Tensors, view: View, model: Model) -> Tensors:
    return harness.run({view.kind: model}, tensors, view)


def _example_outputs(model: Model) -> Tensors:
    """The outputs of a model for inputs that its signature allows, where no token is padding."""
    generator, sizes = torch.Generator().manual_seed(0), {"batch": 12, "length": 4}
    reads = slots(model.signature.inputs)
    inputs = {slot.name: values(slot, sizes, generator, torch.float32) for slot in reads}
    inputs |= {name: torch.ones_like(value) for name, value in inputs.items() if value.dtype == torch.bool}
    return name_outputs(model(**inputs), slots(model.signature.outputs))


def _check_loaded(model: Model, registry: Registry, run: Callable[[Model], Tensors]) -> None:
    """Compare a model with the one loaded from its files."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "model"
        model.save(path)
        with chdir(directory):
            loaded = load(path, registry=registry).eval()
    if loaded.spec != model.spec:
        raise BrokenError(f"the spec comes back as\n{loaded.spec.to_toml()}")
    _check_same_state(loaded, model)
    assert_all_equal(run(loaded), run(model), "after loading", tolerance=1e-6)


def _check_same_state(given: object, expected: object, when: str = "") -> None:
    one, two = state_of(given), state_of(expected)
    if list(one) != list(two):
        raise BrokenError(f"the state dict has the keys {list(two)}, and then {list(one)}")
    for name, value in two.items():
        assert_equal(one[name], value, f"{name} {when}".rstrip(), tolerance=0.0)
