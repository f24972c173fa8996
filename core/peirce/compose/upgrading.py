"""A model of a spec that contains another model's, with that one's weights; it gives what that one gives."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable

import torch

from peirce.compose.building import build
from peirce.errors import PlanError
from peirce.model import Model, shorten_list
from peirce.registry import Registry
from peirce.spec import Spec

_Place = tuple[str, str, int, str]
_OPERATOR = re.compile(r"(.*\boperators)\.(\d+)\.([^.]+)(\..*)")
_WRITER = re.compile(r".*\boperators\.\d+\.[^.]+\.output\.(weight|bias)")
_NEAR = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""How far outputs may be apart, of the largest of them: sums of more terms are in another order."""


def upgraded(
    model: Model, spec: Spec | str | os.PathLike[str], *, seed: int = 0, registry: Registry | None = None
) -> Model:
    """A model of a spec that contains the spec of another, with the weights of that one.

    What that one has keeps its values. The operators that are new write zeros at first. So every output that both have
    is the same, but for relations that no head reads: to the bit where no sum has terms in another order, as in the
    architecture `two_branch`. What they read begins as in any new model; so they learn from the first step on.

    Args:
        model: the model that is upgraded; it stays as it is.
        spec: a spec with all that its spec has, or a path or a name of one. New parts stand behind those it has.
        seed: what the new parameters depend on.
        registry: where parts are looked up.

    Raises:
        PlanError: the spec lacks something of the model, a parameter has another shape, or outputs would change.
    """
    new = build(spec if isinstance(spec, Spec) else os.fspath(spec), seed=seed, registry=registry)
    old_state, state = model.state_dict(), new.state_dict()
    names = _new_names(old_state, state)
    if lost := [name for name in old_state if name not in names]:
        raise PlanError(
            f"spec {new.spec.name!r} has no place for {shorten_list(lost)} of {model.spec.name!r}; it must contain all "
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
    state |= {names[name]: value for name, value in old_state.items()}
    if type(new.network) is type(model.network):
        taken = {*names.values()}
        fresh = [name for name in state if name not in taken and _WRITER.fullmatch(name)]
        state |= {name: torch.zeros_like(state[name]) for name in fresh}
    like = next(iter(old_state.values()))
    new.to(device=like.device, dtype=like.dtype).load_state_dict(state)
    _refuse_changed_outputs(model, new)
    return new


def _new_names(old: Iterable[str], new: Iterable[str]) -> dict[str, str]:
    """Where parameters stand in a model that contains theirs: under their names, or in a network within the network.

    Operators are found by their names, and equal ones by their order.
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
def _refuse_changed_outputs(model: Model, new: Model) -> None:
    """Compare what both give for random inputs.

    Raises:
        PlanError: it differs.
    """
    inputs = new.example_inputs(seed=1, padding="padded")
    known = {spec.name for spec in model.signature.inputs}
    modes = [(each, each.training) for each in (model, new)]
    try:
        old_outputs = model.eval()(**{name: each for name, each in inputs.items() if name in known})
        new_outputs = new.eval()(**inputs)
    finally:
        for each, training in modes:
            each.train(training)
    read = any("binary" in planned.part.needs for planned in model.plan.heads)
    for name, value in old_outputs.items():
        if name not in new_outputs or not value.is_floating_point() or (name == "binary" and not read):
            continue
        scale = float(value.abs().max()) or 1.0
        apart = float((new_outputs[name] - value).abs().max()) / scale
        if not apart <= _NEAR.get(value.dtype, 1e-5):
            raise PlanError(
                f"with spec {new.spec.name!r} the output {name!r} of {model.spec.name!r} would change by {apart:.2g} "
                "of its largest value: something new acts at once. New operators begin at zero; new positions inside "
                "attention, new augmenters and other options do not"
            )
