"""What a part computes is what it states: the equations written out over nested lists, as `reference`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from attrs import evolve
from torch import Tensor, nn

from peirce.compose import resolve
from peirce.errors import PeirceError
from peirce.networks import Projections, recur
from peirce.parts import (
    Dims,
    ModulePart,
    PairPosition,
    PlainScope,
    PureOperator,
    RecurrentOperator,
    RotaryPosition,
    StateOperator,
)
from peirce_testing.check import NETWORK, check, on_examples
from peirce_testing.compare import BrokenError, NotApplicableError, assert_equal
from peirce_testing.examples import Example, Slot, Tensors, View, normal, plain_view
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import Harness
from peirce_testing.harness.labels import WHOLE_GROUPS, fitting_losses
from peirce_testing.harness.sized import HeadHarness, PositionHarness, TokenHarness, prepare
from peirce_testing.options import with_value
from peirce_testing.tiny_models import randomise

COMPUTED = {
    "reference": ("forward", "unary", "binary", "pairs", "rotations", "scope", "index"),
    "reference_loss": ("loss",),
    "reference_of_atoms": ("readings", "output"),
}
"""The methods that each reference speaks of."""
STATED = "its reference states something"
"""What is noted beside parameters."""


@check(*NETWORK)
def reference(harness: Harness) -> None:
    """A part computes what its `reference` does, term by term, in every scope that it takes; a loss `reference_loss`.
    In float64, where a row sees something; a recurrent operator step by step, and fused where it has such a way.
    Operators without parameters and recurrent ones must state one, other parts may.
    """
    recurrent, pure = (issubclass(harness.part, each) for each in (RecurrentOperator, PureOperator))

    def body(harness: Harness, example: Example) -> None:
        scale = (1.0, 1.0, 1e-6, 40.0)[example.seed % 4] if pure else 1.0
        tensors = harness.draw(example.view, example.generator(), scale=scale)
        check_reference(harness, example.view, tensors, unread)

    unread: dict[str, bool] = {}
    of_loss = (
        isinstance(harness, HeadHarness)
        and states(harness.part, "reference_loss")
        and _check_stated_loss(harness)
    )
    if pure or recurrent or states(harness.part):
        harness = harness.widen() if isinstance(harness, ArchitectureHarness) else harness
        on_examples(harness, body, count=25 if pure or recurrent else 12, padded=False if recurrent else None)
        if never := [name for name, still in unread.items() if still]:
            raise BrokenError(
                f"`reference` never reads the parameters {', '.join(never)}; should the part have them?"
            )
        if not (pure or recurrent or of_loss or STATED in unread):
            raise NotApplicableError("its `reference` states nothing with these options")
    elif not of_loss:
        raise NotApplicableError("it states no `reference`")


def states(part: type[Any], stated: str = "reference") -> bool:
    """Whether a part states a reference of what it computes itself: not of a method that a subclass has replaced."""
    owners = [each for each in part.__mro__ if not each.__module__.startswith("peirce.parts")]

    def place(name: str) -> int:
        return next((i for i, owner in enumerate(owners) if name in vars(owner)), len(owners))

    return place(stated) < len(owners) and place(stated) <= min(map(place, COMPUTED[stated]))


def check_reference(
    harness: Harness, view: View, tensors: Tensors, unread: dict[str, bool] | None = None, maps: bool = True
) -> None:
    """Compare a part with its `reference`; an operator relative to the largest value.

    Args:
        harness: the part.
        view: who sees whom.
        tensors: what it reads.
        unread: told of each parameter whether no reference has read it yet.
        maps: whether an operator is compared behind its maps, too; they know each token alone, and no length.
    """
    instance = _begun(harness)
    unread = {} if unread is None else unread
    if isinstance(instance, RecurrentOperator):
        _check_recurrent(instance, tensors, unread)
    elif isinstance(instance, PureOperator):
        _check_pure(harness, instance, view, tensors)
        if maps and states(harness.part, "reference_of_atoms"):
            _check_maps(instance, harness.dims, view, unread)
    else:
        with torch.no_grad():
            _check_stated(harness, instance, view, tensors, unread)


def _begun(harness: Harness) -> Any:
    """The part as a new model has it: with what `begin` takes from the files of its `example_in`."""
    if not issubclass(harness.part, ModulePart) or harness.part.begin is ModulePart.begin:
        return harness.make()
    with TemporaryDirectory() as folder:
        options = harness.options
        for name, value in harness.part.example_in(Path(folder), harness.dims).items():
            options = with_value(options, name, value)
        begun = evolve(harness, options=options).make()
        try:
            begun.begin()
        except PeirceError:  # the files do not fit another choice of an option
            return harness.make()
    return begun


def _check_recurrent(instance: RecurrentOperator, tensors: Tensors, unread: dict[str, bool]) -> None:
    ((_, given),) = tensors
    parameters = _noting(instance, unread)
    expected = torch.tensor([instance.reference(x.tolist(), parameters) for x in given], dtype=torch.float64)
    with torch.no_grad():
        for what, result in (
            ("step by step", recur(instance, given)[0]),
            ("fused", instance.fused(given)),
        ):
            if result is not None:
                assert_equal(result, expected, f"the outputs {what}")
    unread.update(dict.fromkeys(parameters.read & unread.keys(), False))
    _fused_gradients(instance, given)


def _check_pure(harness: Harness, instance: PureOperator, view: View, tensors: Tensors) -> None:
    scope, allowed = view.scope(), view.allowed()
    channels = prepare(instance, tensors, scope)
    result = instance.infer(*channels, scope)
    places = view.index.expand(view.batch, -1)
    pairs = len(harness.writes(instance)[0].tokens) == 2
    for i in range(view.batch):
        at = places[i].tolist()
        plain = PlainScope(allowed[i].tolist(), rows=at, columns=at)
        read = len(instance.readings())
        given = instance.reference(
            *(each[i].tolist() for each in channels[:read]),
            *(each.tolist() for each in channels[read:]),
            plain,
        )
        expected = torch.tensor(given, dtype=torch.float64)
        if expected.shape != result[i].shape:
            message = f"reference gives the shape {list(expected.shape)}, infer {list(result[i].shape)}"
            raise BrokenError(message)
        seen = allowed[i] if pairs else allowed[i].any(1)
        wanted = expected[seen]
        size = float(wanted.abs().max()) if wanted.numel() else 1.0
        size = size if 0 < size < 1e-3 else 1.0
        what = f"infer in example {i}, over what is in scope" + ("" if size == 1 else f", in {size:.1e}")
        assert_equal(result[i][seen] / size, wanted / size, what)


@torch.no_grad()
def _check_maps(instance: PureOperator, dims: Dims, view: View, unread: dict[str, bool]) -> None:
    """Compare an operator behind its maps, as the composer reads and writes, with `reference_of_atoms`."""
    maps = Projections(dims, instance.readings(), instance.output(), weights=instance.weights()).double()
    randomise(maps)
    parameters, scope, generator = _noting(maps, unread), view.scope(), torch.Generator().manual_seed(0)
    shapes = {"unary": (view.length, dims.unary), "binary": (view.length, view.length, dims.binary)}
    drawn = {name: normal((view.batch, *shape), generator) for name, shape in shapes.items()}
    atoms = {"U": scope.zero_unary(drawn["unary"]), "B": scope.zero_binary(drawn["binary"])}
    read = Tensors(
        (
            Slot(name, ()),
            (maps.get_submodule(name)(atoms[r.branch]) * r.scale).unflatten(-1, [*r.shape.values()]),
        )
        for name, r in instance.readings().items()
    )
    read += ((Slot(name, ()), maps.get_parameter(name)) for name in instance.weights())
    output = instance.output()
    inferred = instance.infer(*prepare(instance, read, scope), scope).flatten(-len(output.shape))
    of_pairs, name = output.branch == "B", {"U": "unary", "B": "binary"}[output.branch]
    for i in range(view.batch):
        where = view.real_places(i)
        seen, places = view.example(i, where), list(range(len(where)))
        pairs = seen.allowed()[0]
        given = {"unary": atoms["U"][i, where].tolist(), "binary": atoms["B"][i, where][:, where].tolist()}
        plain = PlainScope(pairs.tolist(), places, places)
        expected = instance.reference_of_atoms(given, plain, parameters, dims) or {}
        rows = pairs if of_pairs else pairs.any(1)
        result = maps.output(inferred[i, where][:, where] if of_pairs else inferred[i, where])
        found = {name: (True, result)}
        _compare(
            found,
            _summed(expected, given, seen),
            rows,
            f"in example {i}, maps included",
            "reference_of_atoms",
        )
    unread.update(dict.fromkeys(parameters.read & unread.keys(), False))


def _noting(module: nn.Module, unread: dict[str, bool]) -> _Parameters:
    """The parameters and buffers of a module as nested lists, which note what is read of them."""
    unread.update({name: unread.get(name, True) for name, _ in module.named_parameters()})
    named = (*module.named_parameters(), *module.named_buffers())
    return _Parameters((name, value.tolist()) for name, value in named)


class _Parameters(dict[str, Any]):
    """Parameters by name, which note what is read of them."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def __missing__(self, name: str) -> Any:
        raise BrokenError(f"`reference` reads the parameter {name!r}, and the part has {', '.join(self)}")

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict."""
        self.read.add(name)
        return super().get(name, default)


def _check_stated(
    harness: Harness, instance: Any, view: View, tensors: Tensors, unread: dict[str, bool]
) -> None:
    """Compare a part that has parameters with its `reference`, example by example without padding."""
    part, dims = instance, harness.dims
    if isinstance(harness, ArchitectureHarness):
        part, dims = instance[view.kind].network, resolve(harness.specs[view.kind], harness.registry).dims
    parameters = _noting(part, unread)
    inside, stated = isinstance(instance, PairPosition | RotaryPosition), False
    if isinstance(harness, TokenHarness):
        defaults = {"token_type_ids": 0, **{spec.name: spec.default for spec in instance.inputs()}}
        for name in harness.absent:
            if (default := defaults.get(name)) is not None:
                tensors = tensors.fill(name, default)
    for layer in range(harness.dims.layers if inside else 1):
        outputs = (
            harness.in_layer(layer, instance, tensors, view)
            if isinstance(harness, PositionHarness)
            else harness.run(instance, tensors, view)
        )
        for i in range(view.batch):
            where = view.real_places(i)
            alone, seen = tensors.example(i, where), view.example(i, where)
            given, pairs = _as_lists(alone, seen) | {"layer": layer}, seen.allowed()[0]
            if isinstance(harness, PositionHarness):
                given["read"] = lambda atoms: harness.read_atoms(
                    torch.tensor(atoms, dtype=torch.float64)
                ).tolist()
            places = list(range(len(where)))
            plain = PlainScope(pairs.tolist(), places, places)
            expected = part.reference(given, plain, parameters, dims)
            if expected is None:  # not with these options, or of this example
                continue
            stated = True
            found = {slot.name: (len(slot.tokens) > 1, t[0]) for slot, t in outputs.example(i, where)}
            if isinstance(instance, StateOperator):
                instance.train()  # its terms are those of the last pass in training
                harness.run(instance, alone, seen)
                found |= {name: (False, term) for name, term in instance.terms().items()}
                instance.eval()
            _compare(
                found, _summed(expected, given, seen), pairs, f"in example {i}" + f", layer {layer}" * inside
            )
    unread.update(dict.fromkeys([*(parameters.read & unread.keys()), STATED] if stated else unread, False))


def _as_lists(tensors: Tensors, view: View) -> dict[str, Any]:
    """The tensors of one example as nested lists; relations are zero outside the scope."""
    scope = view.scope()
    ready = tensors.map(lambda s, t: scope.zero_binary(t) if s.name == "binary" else t)
    return {slot.name: (t[0] if "batch" in slot.axes else t).tolist() for slot, t in ready}


def _summed(expected: Mapping[str, Any], given: Mapping[str, Any], view: View) -> dict[str, Tensor]:
    """What a reference gives as tensors; what it adds to each pair's value as a sum by the attention's weights."""
    stated = {name: torch.from_numpy(np.asarray(each, dtype=float)) for name, each in expected.items()}
    if "value" in stated:
        query, key = (torch.tensor(given[name], dtype=torch.float64) for name in ("query", "key"))
        weights = view.scope().softmax(torch.einsum("xhs,ahs->xah", query, key).unsqueeze(0))[0]
        stated["value"] = torch.einsum("xah,xahs->xhs", weights, stated["value"].expand(*weights.shape, -1))
    return stated


def _compare(
    found: dict[str, tuple[bool, Tensor]],
    stated: dict[str, Tensor],
    pairs: Tensor,
    when: str,
    method: str = "reference",
) -> None:
    """Compare outputs with what a method states of them; those of pairs where they are in scope."""
    if unknown := sorted(stated.keys() - found.keys()):
        raise BrokenError(f"`{method}` states {', '.join(unknown)}, and the part gives {', '.join(found)}")
    for name, (of_pairs, result) in found.items():
        if name in stated:
            given = (
                each[pairs] if of_pairs else each
                for each in (result.detach(), stated[name].expand_as(result))
            )
            one, wanted = (each.double() for each in given)
            assert_equal(one, wanted, f"{name} {when}, against `{method}`")
        elif name != "index" and bool(result.any()):
            raise BrokenError(f"`{method}` does not state {name}, which the part gives")


def _check_stated_loss(harness: HeadHarness) -> bool:
    """Compare the loss of labels of the declared forms with `reference_loss`; whether that is stated."""
    view, instance = plain_view(harness.kinds[0], WHOLE_GROUPS, 3), harness.make()
    outputs = harness.predict(instance, harness.draw(view), view)
    plain = {name: value.tolist() for name, value in outputs.items()}
    for form, labels, loss in fitting_losses(instance, outputs, torch.Generator().manual_seed(1)):
        stated = instance.reference_loss(plain, labels.tolist())
        if stated is None:
            return False
        wanted = torch.tensor(stated, dtype=torch.float64)
        assert_equal(loss.detach().double(), wanted, f"the loss with {form}, against `reference_loss`", 1e-6)
    return True


def _fused_gradients(instance: Any, given: Tensor) -> None:
    """Compare the gradients of the fused function, which may have its own derivative, with those of the steps.

    Of all that is trained, and of each alone, as where the rest is frozen.
    """
    atoms = given.detach().clone()
    leaves = {"the atoms": atoms, **{name: p for name, p in instance.named_parameters() if p.requires_grad}}
    shape = recur(instance, given)[0].shape
    wave = torch.arange(1.0, shape.numel() + 1, dtype=given.dtype).cos().view(shape)
    try:
        for trained in (leaves, *({name: leaf} for name, leaf in leaves.items())):
            for leaf in leaves.values():
                leaf.requires_grad_(any(leaf is each for each in trained.values()))
            fused, (steps, _) = instance.fused(atoms), recur(instance, atoms)
            if fused is None:
                return
            if not steps.requires_grad:
                continue  # nothing depends on it
            one, two = (
                torch.autograd.grad(
                    each, [*trained.values()], wave, allow_unused=True, materialize_grads=True
                )
                for each in (fused, steps)
            )
            for name, result, wanted in zip(trained, one, two, strict=True):
                assert_equal(
                    result, wanted, f"the gradient of {name}, fused, against step by step", tolerance=1e-7
                )
    finally:
        for leaf in leaves.values():
            leaf.requires_grad_()
