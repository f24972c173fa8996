"""A model that contains another: where the weights of that one go, and whether both give the same."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import torch
from attrs import evolve

from peirce.errors import PlanError
from peirce.model import Model, shorten_list
from peirce.parts import BinaryPosition, Plan

_Place = tuple[str, str, int, str]
_OPERATOR = re.compile(r"(.*\boperators)\.(\d+)\.([^.]+)(\..*)")
_WRITER = re.compile(r".*\b(operators\.\d+\.[^.]+\.output|scores)\.(weight|bias)")
_NEAR = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""How far outputs may be apart, of the largest of them: sums of more terms are in another order."""


def take_all(new: Model, old: Model) -> None:
    """Give a freshly built model all weights of one that it contains.

    Raises:
        PlanError: it does not contain it, or outputs would change.
    """
    take_weights(new, old, _contained_names(new, old))
    refuse_changed_outputs(old, new)


def take_weights(new: Model, old: Model, names: Mapping[str, str]) -> None:
    """Give a freshly built model the weights of one that it contains; what it has beyond them begins at zero.

    Args:
        new: the model, whose `base` and `gained` say what it has taken and what not.
        old: the model that it contains.
        names: what the tensors of `old` that are taken are called in `new`.
    """
    state, taken = new.state_dict(), {*names.values()}
    state |= {name: value for each, value in old.state_dict().items() if (name := names.get(each))}
    if type(new.network) is type(old.network):
        fresh = [name for name in state if name not in taken and _WRITER.fullmatch(name)]
        state |= {name: torch.zeros_like(state[name]) for name in fresh}
    new.load_state_dict(state)
    new.gained = frozenset({*state} - taken) | {names[name] for name in old.gained if name in names}
    if old.base is not None:
        at = {name: names[each] for name, each in old.base.names.items() if each in names}
        new.base = evolve(old.base, names=at)


def _contained_names(new: Model, old: Model) -> dict[str, str]:
    """What the tensors of a model are called in one that contains it.

    Raises:
        PlanError: some have no place there, or one of another shape.
    """
    old_state, state = old.state_dict(), new.state_dict()
    names = place_tensors(old_state, state)
    if lost := [name for name in old_state if name not in names]:
        raise PlanError(
            f"spec {new.spec.name!r} has no place for {shorten_list(lost)} of {old.spec.name!r}; it must contain all "
            "that the model has, and more"
        )
    changed = [
        f"{name} is {[*value.shape]} and would be {[*state[names[name]].shape]}"
        for name, value in old_state.items()
        if value.shape != state[names[name]].shape
    ]
    if changed:
        raise PlanError(
            f"spec {new.spec.name!r} changes shapes: {shorten_list(changed)}; keep the model's sizes"
        )
    return names


def place_tensors(old: Iterable[str], new: Iterable[str]) -> dict[str, str]:
    """Where tensors stand in a model that contains theirs: under their names, or in a network within the network.

    Operators are found by their names, and equal ones by their order. What has no place is left out.
    """
    same, within = dict[_Place, str](), defaultdict[_Place, list[str]](list)
    for name, place in _places(new).items():
        same[place] = name
        head, _, inner = place[0].partition(".")
        within[(f"{head}.{inner.partition('.')[2]}", *place[1:])].append(name)
    found = {name: [same[place]] if place in same else within[place] for name, place in _places(old).items()}
    return {name: known[0] for name, known in found.items() if len(known) == 1}


def _places(names: Iterable[str]) -> dict[str, _Place]:
    """For each parameter: its list of operators, the operator, which of equal ones it is, and its own name."""
    matches = {name: _OPERATOR.fullmatch(name) for name in names}
    numbers: dict[tuple[str, str], set[int]] = defaultdict(set)
    for match in filter(None, matches.values()):
        numbers[match[1], match[3]].add(int(match[2]))
    return {
        name: (match[1], match[3], sorted(numbers[match[1], match[3]]).index(int(match[2])), match[4])
        if match
        else (name, "", 0, "")
        for name, match in matches.items()
    }


@torch.no_grad()
def refuse_changed_outputs(old: Model, new: Model, *, heads: bool = True) -> None:
    """Compare what a model and one that contains it give for random inputs.

    Args:
        old, new: the models.
        heads: whether heads are compared, too.

    Raises:
        PlanError: it differs.
    """
    inputs = new.example_inputs(seed=1, padding="padded")
    known = {spec.name for spec in old.signature.inputs}
    modes = [(each, each.training) for each in (old, new)]
    try:
        old_outputs = old.eval()(**{name: each for name, each in inputs.items() if name in known})
        new_outputs = new.eval()(**inputs)
    finally:
        for each, training in modes:
            each.train(training)
    read = any("binary" in planned.part.needs for planned in new.plan.heads)
    own = {spec.name for spec in old.network.outputs()}
    for name, value in old_outputs.items():
        if name not in new_outputs or not value.is_floating_point() or (name == "binary" and not read):
            continue
        if not heads and name not in own:
            continue
        scale = float(value.abs().max()) or 1.0
        apart = float((new_outputs[name] - value).abs().max()) / scale
        if not apart <= _NEAR.get(value.dtype, 1e-5):
            raise PlanError(
                f"with spec {new.spec.name!r} the output {name!r} of {old.spec.name!r} would change by {apart:.2g} "
                f"of its largest value: {_suspects(new.plan, old.plan)} at once. Operators begin at zero, augmenters "
                "with `gate = true`, and positions of relations where nothing reads relations yet; leave out what does "
                "not"
            )


def _suspects(new: Plan, old: Plan) -> str:
    """What is new in a plan and may act at once, with its verb."""
    augmenters = [f"{each} without a gate" for each in new.augmenters[len(old.augmenters) :] if not each.gate]
    options = [
        f"option {key!r}" for key, value in new.spec.options.items() if old.spec.options.get(key) != value
    ]
    positions = [
        str(each)
        for each in new.positions[len(old.positions) :]
        if old.dims.binary or not issubclass(each.part, BinaryPosition)
    ]
    found = [*positions, *augmenters, *options]
    return f"{' or '.join(found)} acts" if found else "something new acts"
