"""What an architecture does with what a spec gives it: the kind of scope, positions at its places, and other parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import attrs
import torch
from torch import Tensor

from peirce.errors import PeirceError
from peirce.model import Model
from peirce.parts import PLACES
from peirce.registry import Registry
from peirce.spec import OperatorSpec, OperatorsSpec, PartSpec, Spec
from peirce.testing.check import Case, check
from peirce.testing.composed import SIZES, build_random, fitting, tiny_spec
from peirce.testing.failures import BrokenError, NotApplicableError
from peirce.testing.strategies import BASE
from peirce.testing.subjects import ArchitectureSubject, Subject
from peirce.testing.views import View, plain_view

LENGTH = 5
PROBES = "peirce.testing.probes"
ATOMS = ("unary", "binary", "pooled")
MOVED = 1e-9
"""What counts as a change of atoms of order one."""


@check(
    "architectures",
    contract="atoms depend on what the scope shows them, and on nothing else: each kind of scope is what it says",
)
def scopes(case: Case) -> None:
    """Another token in one place at a time; which atoms change, in every kind of scope."""

    def body(subject: Subject) -> None:
        assert isinstance(subject, ArchitectureSubject)
        told = False
        for kind, model in subject.make().items():
            if model.network.rows != "length":
                continue
            told = True
            view = _related(kind)
            seen, sees = _dependence(subject, model, view), view.allowed()[0]
            closure = sees | torch.eye(LENGTH, dtype=torch.bool)
            for _ in range(LENGTH):
                closure = closure | ((closure.double() @ closure.double()) > 0)
            leaks = (seen & ~closure).nonzero().tolist()
            if leaks:
                raise BrokenError(
                    f"in a {kind} scope token {leaks[0][0]} depends on token {leaks[0][1]}, which it may not see"
                )
            if not subject.part.layer:
                continue
            blind = (sees & ~seen).nonzero().tolist()
            if blind and kind in ("prefix", "relation", "causal"):
                raise BrokenError(
                    f"in a {kind} scope token {blind[0][0]} may attend to token {blind[0][1]}, of which nothing arrives"
                )
        if not told:
            raise NotApplicableError("its rows are other tokens than its inputs")

    case.each(body)


def _related(kind: str) -> View:
    view = plain_view(kind, 1, LENGTH)
    if kind == "relation":
        pairs = torch.eye(LENGTH, dtype=torch.bool)
        pairs[0, 2] = pairs[2, 4] = pairs[3, 1] = True
        return attrs.evolve(view, relation=pairs.unsqueeze(0))
    if kind == "prefix":
        return attrs.evolve(view, prefix=torch.tensor([3]))
    return view


def _dependence(subject: ArchitectureSubject, model: Model, view: View) -> Tensor:
    """bool [x, a]: whether the atoms of token x change with the id of token a."""
    drawn = subject.draw(view, torch.Generator().manual_seed(2))
    names = [slot.name for slot in subject.reads()]
    if "input_ids" not in names:
        raise NotApplicableError("it reads no token ids")
    ids = names.index("input_ids")
    seen = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    with torch.no_grad():
        before = _unary(subject, model, drawn, view)
        for a in range(LENGTH):
            for other in (1, 2):
                changed = [*drawn]
                changed[ids] = drawn[ids].clone()
                changed[ids][0, a] = (drawn[ids][0, a] + other) % BASE.vocabulary
                moved = (_unary(subject, model, changed, view) - before).abs().flatten(2).amax(2)[0]
                seen[:, a] |= moved > MOVED
    return seen


def _unary(subject: ArchitectureSubject, model: Model, tensors: list[Tensor], view: View) -> Tensor:
    return {slot.name: t for slot, t in subject.run({view.kind: model}, tensors, view)}["unary"]


@check(
    "architectures",
    contract="what a spec adds has an effect: positions at each place, augmenters, operators; `gives` is true",
)
def places(case: Case) -> None:
    """A plain part of the suite's own at each place; whether its parameters matter."""
    registry = case.registry.completed(PROBES)

    def body(subject: Subject) -> None:
        assert isinstance(subject, ArchitectureSubject)
        kind = subject.kinds[0]
        spec = subject.specs[kind]
        model = build_random(spec, registry)
        _gives(subject, model, kind)
        tensors = subject.draw(plain_view(kind, 2, LENGTH), torch.Generator().manual_seed(0))
        for what, trial in _with_probes(subject, spec, registry):
            try:
                probed = build_random(trial, registry)
            except PeirceError:
                continue  # such as a pair position where no operator attends
            if "'scope'" in what:
                _alone(subject, probed, kind)
                continue
            probes = [module for module in probed.modules() if type(module).__module__ == PROBES]
            with torch.no_grad():
                before = _encoded(subject, probed, tensors, kind)
                for parameter in (each for probe in probes for each in probe.parameters()):
                    parameter.add_(0.7)
                after = _encoded(subject, probed, tensors, kind)
            if all(_equal(getattr(before, name), getattr(after, name)) for name in ATOMS):
                raise BrokenError(f"{what} has no effect")
            if "augmenter" in what and _equal(before.embeddings, after.embeddings):
                raise BrokenError(
                    "heads tie to other word embeddings than those that augmenters make; give `TokenInput.words()`"
                )

    case.each(body, where=lambda subject: subject is case.subject)


def _with_probes(subject: ArchitectureSubject, spec: Spec, registry: Registry) -> Iterator[tuple[str, Spec]]:
    for place in sorted(set(subject.part.places) & set(PLACES)):
        positions: Any = (*spec.positions, PartSpec(use=f"probe_{place}", options={}))
        yield (
            f"a position at the place {place!r}, which it declares,",
            attrs.evolve(spec, positions=positions),
        )
    augmenters: Any = (*spec.augmenters, PartSpec(use="probe_augmenter", options={}))
    yield "an augmenter", attrs.evolve(spec, augmenters=augmenters)
    if subject.part.layer and not subject.part.fixed_layer and not subject.part.recurrent:
        with suppress(PeirceError):
            from peirce.compose import resolve

            plan = resolve(spec, registry)
            names = [planned.name for planned in (*plan.mixing, *plan.state)]
            given = spec.operators.options
            layer = tuple(OperatorSpec(use=name) for name in (*names, "probe_state"))
            yield (
                "a further state operator of the layer",
                attrs.evolve(spec, operators=OperatorsSpec(layer=layer, options=given)),
            )


def _encoded(subject: ArchitectureSubject, model: Model, tensors: list[Tensor], kind: str) -> Any:
    view = plain_view(kind, 2, LENGTH)
    given = {slot.name: tensor for slot, tensor in zip(subject.reads(), tensors, strict=True)}
    if view.prefix is not None:
        given["prefix_length"] = view.prefix
    if view.relation is not None:
        given["relation"] = view.relation
    return model.network(given)[0]


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    return other is None if one is None else other is not None and torch.equal(one, other)


def _gives(subject: ArchitectureSubject, model: Model, kind: str) -> None:
    """Hold what it says that heads may rely on against what it gives them."""
    said = subject.part.gives(subject.options)
    tensors = subject.draw(plain_view(kind, 2, LENGTH), torch.Generator().manual_seed(0))
    encoded = _encoded(subject, model, tensors, kind)
    for name in ("pooled", "binary"):
        there = getattr(encoded, name) is not None
        if name in said and not there:
            raise BrokenError(f"gives lists {name!r}, and heads get None")
        if there and name not in said:
            raise BrokenError(
                f"it gives heads a {name} output that `gives` does not list, so no head may ask for it"
            )


def _alone(subject: ArchitectureSubject, model: Model, kind: str) -> None:
    """A scope that shows each token itself alone."""
    if model.network.rows != "length" or not subject.part.layer:
        return
    seen = _dependence(subject, model, _related(kind)) & ~torch.eye(LENGTH, dtype=torch.bool)
    if bool(seen.any()):
        x, a = seen.nonzero()[0].tolist()
        raise BrokenError(
            f"a scope position shows each token itself alone, and token {x} depends on token {a}"
        )


@check(
    "architectures",
    contract="each size of `[model.dims]` changes the network, and a size that it takes can be built",
)
def dims(case: Case) -> None:
    """One size at a time, one more and twice as much."""
    subject = case.subject
    assert isinstance(subject, ArchitectureSubject)
    spec = fitting(tiny_spec(subject.part, subject.options), case.registry)
    before = _shapes(build_random(spec, case.registry))
    tried = False
    for field in attrs.fields(subject.part.Dims):
        now = spec.dims.get(field.name, SIZES.get(field.name, field.default))
        if not isinstance(now, int) or isinstance(now, bool):
            continue
        others = []
        for value in (now + 1, now * 2, now * 3, now - 1):
            if value < 1 or value == now:
                continue
            with suppress(PeirceError):
                others.append(
                    _shapes(build_random(spec.replace({f"model.dims.{field.name}": value}), case.registry))
                )
                break
        tried |= bool(others)
        if others and others[0] == before:
            raise BrokenError(f"the size {field.name!r} of model.dims changes nothing in the network")
    if not tried:
        raise NotApplicableError("it has no sizes that can be varied")


def _shapes(model: Model) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, tuple(value.shape)) for name, value in model.state_dict().items()]
