"""Whole models: the kind of scope, what a spec adds, fused as unfused, from a cached state, exported as in torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, cast

import attrs
import torch
from torch import Tensor

from peirce.compose import build, resolve
from peirce.errors import ExportError, PeirceError
from peirce.model import Model
from peirce.parts import PLACES, GenerativeArchitecture
from peirce.registry import Registry
from peirce.spec import OperatorSpec, OperatorsSpec, PartSpec, Spec
from peirce_export import export
from peirce_testing.check import NETWORK, Case, check
from peirce_testing.checks.inputs import any_differ
from peirce_testing.compare import (
    BrokenError,
    NotApplicableError,
    NotRunError,
    assert_all_equal,
    assert_equal,
)
from peirce_testing.examples import BASE, UNEVEN, Tensors, View, plain_view
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import Harness, slots, values
from peirce_testing.stub_parts import with_stub_parts
from peirce_testing.tiny_models import build_random, fit_scope, sizes_of, spec_around, tiny_spec

LENGTH = 5
FOLLOWING = 11
"""How many tokens are inferred one by one: more than any power of two that a cache may begin with, up to eight."""
PROBES = "peirce_testing.probes"
ATOMS = ("unary", "binary", "pooled")
MOVED = 1e-9
"""What counts as a change of atoms of order one."""
FEW = 32
"""Numbers whose mean square says how large a parameter begins."""
ITSELF = torch.eye(LENGTH, dtype=torch.bool)


@check("architectures")
def scopes(harness: ArchitectureHarness) -> None:
    """Atoms depend on what the scope shows them, and on nothing else: each kind of scope is what it says. Another token
    in one place at a time; which atoms change, in every kind of scope.
    """
    models = harness.make()
    if all(model.network.rows != "length" for model in models.values()):
        raise NotApplicableError("its outputs do not belong to its input tokens")
    for kind, model in models.items():
        view = _related(kind)
        seen, sees = _dependence(harness, model, view), view.allowed()[0]
        for each in (view, plain_view(kind, len(UNEVEN), 4, UNEVEN)):
            _check_given_scope(harness, model, each)
        closure = sees | ITSELF
        for _ in range(LENGTH):
            closure = closure | ((closure.double() @ closure.double()) > 0)
        for x, a in (seen & ~closure).nonzero().tolist():
            raise BrokenError(f"in a {kind} scope token {x} depends on token {a}, which it may not see")
        if harness.part.layer and kind != "bidirectional":
            for x, a in (sees & ~seen).nonzero().tolist():
                raise BrokenError(
                    f"in a {kind} scope token {x} does not depend on token {a}, which it may see"
                )


def _check_given_scope(harness: ArchitectureHarness, model: Model, view: View) -> None:
    """Check that heads get the scope that the spec gives, and where each token stands among the real ones."""
    with torch.no_grad():
        encoded, tokens = model.network(harness.inputs(model, harness.draw(view), view))
    scope = encoded.scope
    given = torch.ones_like(view.allowed()) if scope.pairs is None else scope.pairs
    if model.network.rows == "length" and not torch.equal(given.expand_as(view.allowed()), view.allowed()):
        raise BrokenError(f"in a {view.kind} scope, heads do not get the scope that the spec gives")
    if model.network.rows == "length" and view.real is not None:
        stands, given = view.real.long().cumsum(1) - 1, tokens.index.expand(view.batch, -1)
        what = "the places of tokens that heads get, padding not counted,"
        assert_equal(given[view.real], stands[view.real], f"in a {view.kind} scope, {what}")


def _related(kind: str) -> View:
    view = plain_view(kind, 1, LENGTH)
    pairs = ITSELF.clone()
    pairs[0, 2] = pairs[2, 4] = pairs[3, 1] = True
    return attrs.evolve(view, relation=pairs.unsqueeze(0)) if kind == "relation" else view


def _dependence(harness: ArchitectureHarness, model: Model, view: View) -> Tensor:
    """bool [x, a]: whether the atoms of token x change with the id of token a."""
    drawn = harness.draw(view, 2)
    ids = {slot.name: tensor for slot, tensor in drawn}.get("input_ids")
    if ids is None:
        raise NotApplicableError("it reads no token ids")
    seen = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)

    def unary(tensors: Tensors) -> Tensor:
        return harness.run({view.kind: model}, tensors, view).floats()["unary"]

    with torch.no_grad():
        before = unary(drawn)
        for a in range(LENGTH):
            for other in (1, 2):
                changed = ids.clone()
                changed[0, a] = (ids[0, a] + other) % BASE.vocabulary
                moved = (
                    (unary(drawn.replace_named("input_ids", changed)) - before).abs().flatten(2).amax(2)[0]
                )
                seen[:, a] |= moved > MOVED
    return seen


@check("architectures")
def places(case: Case) -> None:
    """What a spec adds has an effect: positions at each place, augmenters, operators; `gives` is true. A plain part of
    the suite's own at each place; whether its parameters matter.
    """
    registry, harness = case.registry.completed(PROBES), case.harness
    assert isinstance(harness, ArchitectureHarness)
    kind = harness.kinds[0]
    spec, view = harness.specs[kind], plain_view(kind, 2, LENGTH)
    tensors = harness.draw(view)

    def encoded(model: Model) -> Any:
        return model.network(harness.inputs(model, tensors, view))[0]

    case.each(_check_given)
    for what, trial in _with_probes(harness, spec, registry):
        try:
            probed = build_random(trial, registry)
        except PeirceError as error:
            if harness.part.fixed_layer and harness.part.places:
                raise BrokenError(f"{what} cannot be composed, though `places` lists it: {error}") from error
            continue  # such as a pair position where no operator attends
        if "'scope'" in what:
            if probed.network.rows == "length":  # with attention of its own, too
                for x, a in (_dependence(harness, probed, _related(kind)) & ~ITSELF).nonzero().tolist():
                    message = "a scope position shows each token itself alone, and token"
                    raise BrokenError(f"{message} {x} depends on token {a}")
            continue
        probes = [module for module in probed.modules() if type(module).__module__ == PROBES]
        with torch.no_grad():
            before = encoded(probed)
            for parameter in (each for probe in probes for each in probe.parameters()):
                parameter.add_(0.7)
            after = encoded(probed)
        if all(_equal(getattr(before, name), getattr(after, name)) for name in ATOMS):
            raise BrokenError(f"{what} has no effect")
        if "augmenter" in what and _equal(before.embeddings, after.embeddings):
            message = "the word embeddings for tied heads lack what augmenters change"
            raise BrokenError(f"{message}; give `TokenInput.words()`")


def _check_given(harness: ArchitectureHarness) -> None:
    """Heads get what `gives` lists, with each choice of an option."""
    kind, listed = harness.kinds[0], harness.part.gives(harness.options)
    view, model = plain_view(kind, 2, LENGTH), harness.make()[kind]
    given = model.network(harness.inputs(model, harness.draw(view), view))[0]
    for name in ("pooled", "binary"):
        if (name in listed) is not (getattr(given, name) is not None):
            lists, there = ("lists", "none") if name in listed else ("does not list", "one")
            raise BrokenError(f"`gives` {lists} the output {name!r}, and heads get {there}")


def _with_probes(harness: ArchitectureHarness, spec: Spec, registry: Registry) -> Iterator[tuple[str, Spec]]:
    for place in sorted(set(harness.part.places) & set(PLACES)):
        positions: Any = (*spec.positions, PartSpec(use=f"probe_{place}", options={}))
        yield f"a position at its place {place!r}", attrs.evolve(spec, positions=positions)
    augmenters: Any = (*spec.augmenters, PartSpec(use="probe_augmenter", options={}))
    yield "an augmenter", attrs.evolve(spec, augmenters=augmenters)
    if harness.part.layer and not harness.part.fixed_layer and not harness.part.recurrent:
        plan = resolve(spec, registry)
        names = [planned.name for planned in (*plan.mixing, *plan.state)]
        layer = tuple(OperatorSpec(use=name) for name in (*names, "probe_state"))
        operators = OperatorsSpec(layer=layer, options=spec.operators.options)
        yield "a further state operator of the layer", attrs.evolve(spec, operators=operators)


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    return other is None if one is None else other is not None and torch.equal(one, other)


@check("architectures")
def dims(case: Case) -> None:
    """Each size of `[model.dims]` changes the network, and a size that it takes can be built. One size at a time, one
    more and twice as much.
    """
    part = case.entry.part
    harness = cast(ArchitectureHarness, case.harness).few(1)
    ((kind, spec),) = harness.specs.items()
    view = plain_view(kind, 2, LENGTH)
    tensors = harness.draw(view)

    def seen(spec: Spec) -> tuple[str, Tensors]:
        """The shapes of its tensors; and what it gives, where one projection may serve all heads."""
        model = build_random(spec, case.registry)
        shapes = str([(name, value.shape) for name, value in model.state_dict().items()])
        with torch.no_grad():
            return shapes, harness.run({kind: model}, tensors, view)

    before, tried = seen(spec), False
    for name, now in sizes_of(part, every=True).items():
        for value in (now + 1, now * 2, now * 3, now - 1):
            with suppress(PeirceError):
                after = seen(spec.replace({f"model.dims.{name}": value}))
                tried = True
                if after[0] == before[0] and not any_differ(after[1], before[1]):
                    raise BrokenError(f"the size {name!r} of model.dims changes nothing in the network")
                break
    if not tried:
        raise NotApplicableError("it has no sizes that can be varied")


@check("architectures")
def initial_values(harness: ArchitectureHarness) -> None:
    """No parameter begins with larger numbers in a wider network. The root of each one's mean square in a new model, at
    four times and at thirty-two times the width of a tiny one.
    """
    ((_, spec),) = harness.few(1).specs.items()
    wide = {name: size for name, size in sizes_of(harness.part).items() if name in ("unary", "head_size")}

    def begun(factor: int) -> dict[str, Tensor]:
        sizes = {f"model.dims.{name}": size * factor for name, size in wide.items()}
        return dict(
            build(spec.replace(sizes), registry=harness.registry, dtype=torch.float64).named_parameters()
        )

    try:
        narrow, large = begun(4), begun(32)
    except PeirceError as error:
        raise NotApplicableError(f"its width cannot be varied alone: {error}") from error
    for name, parameter in narrow.items():
        if parameter.numel() >= FEW and name in large:
            one, other = (float(each.detach().square().mean().sqrt()) for each in (parameter, large[name]))
            if other > 2 * one:
                raise BrokenError(
                    f"the parameter {name} begins with numbers of {one:.2g}, and of {other:.2g} where the width is "
                    "eight times as much; divide by the root of the width, not multiply"
                )


@check("architectures")
def fused(harness: ArchitectureHarness) -> None:
    """A fused model equals the unfused one in float64, with the same state dict. One layer, to 1e-12 of the largest
    output.
    """
    for kind in harness.specs:
        spec = fit_scope(tiny_spec(harness.part, harness.options, scope=kind, layers=1), harness.registry)
        one, two = (build_random(spec, harness.registry, fuse=fuse) for fuse in (True, False))
        if list(one.state_dict()) != list(two.state_dict()):
            raise BrokenError("the state dict has different keys when the model is not fused")
        view = plain_view(kind, 2, 4)
        first, second = (harness.run({kind: instance}, harness.draw(view), view) for instance in (one, two))
        sizes = {name: max(float(t.detach().abs().max()), 1e-300) for name, t in first.floats().items()}
        first, second = (o.map(lambda s, t: t / sizes.get(s.name, 1)) for o in (first, second))  # noqa: B023
        assert_all_equal(first, second, f"in a {kind} scope, fused", tolerance=1e-12)


@check("operators", "positions", "augmenters", "architectures", slow=True)
def memory(case: Case) -> None:
    """Tokens that are inferred one by one from a cached state have the atoms that one pass gives them. A tiny causal
    model that holds the part, to 1e-10 of the largest atom: two tokens, then one at a time. An architecture is given
    positions inside its attention. Every choice of an option that takes a causal scope.
    """

    def body(harness: Harness) -> None:
        if isinstance(harness, ArchitectureHarness):
            takes = "causal" in harness.kinds or harness.part.scope
            refused = None if takes else "it takes no causal scope"
        else:
            refused = harness.part.check(harness.options, harness.dims, "causal")
        if refused:
            raise NotApplicableError(refused)
        _check_one_by_one(case, harness.options)

    case.each(body)


def _check_one_by_one(case: Case, options: Any) -> None:
    try:
        spec = spec_around(case.entry, options, case.registry, scope="causal")
    except NotRunError as error:
        raise NotApplicableError(str(error)) from error
    registry = case.registry.completed(PROBES)
    if case.entry.kind == "architectures":
        for place in ("pair", "rotary"):
            with suppress(PeirceError):
                positions: Any = (*spec.positions, PartSpec(use=f"probe_{place}", options={}))
                resolve(trial := attrs.evolve(spec, positions=positions), registry)
                spec = trial
    network = build_random(spec, registry).network
    if not isinstance(network, GenerativeArchitecture):
        raise NotApplicableError(f"architecture {spec.architecture!r} has no cached state")
    if not network.reuses_cache(1, spec.input.max_length):
        raise NotApplicableError("it depends on the length of the text, so that texts are read again")
    generator, length = torch.Generator().manual_seed(0), FOLLOWING
    real = torch.ones(2, length, dtype=torch.bool)
    real[0, 1] = real[1, 0] = False
    specs = [spec for spec in network.inputs() if "prefix" not in spec.name]
    sizes = {dim: length for spec in specs for dim in spec.dims} | {"batch": 2}
    inputs = {slot.name: values(slot, sizes, generator) for slot in slots(specs)}
    inputs |= {name: torch.ones_like(value) for name, value in inputs.items() if value.dtype == torch.bool}
    inputs |= {spec.name: real for spec in specs if spec.masks is not None}
    counted = {spec.name: spec.dims.index(network.rows) for spec in specs if network.rows in spec.dims}
    pieces: list[Tensor] = []
    related: list[tuple[Tensor, Tensor]] = []
    kept: dict[str, Tensor] = {}
    with torch.no_grad():
        whole, relations, *_ = network(inputs)[0]
        for start, stop in ((0, 2), *((at, at + 1) for at in range(2, length))):
            new = {name: inputs[name].narrow(at, start, stop - start) for name, at in counted.items()}
            encoded, _, kept = network.advance({**inputs, **new} if start == 0 else new, kept)
            pieces.append(encoded.unary)
            if (binary := encoded.binary) is not None and relations is not None:
                related.append((binary, relations[:, start:stop, : binary.shape[2]]))
    declared = [s.name for s in network.cached_state()]
    if list(kept) != declared:
        raise BrokenError(f"the architecture declares the cached state {declared}, and keeps {list(kept)}")
    size = max(float(whole.abs().max()), 1e-300)
    what = f"in a {spec.architecture} model, one by one"
    assert_equal(torch.cat(pieces, 1) / size, whole / size, what, tolerance=1e-10)
    for binary, wanted in related:
        size = max(float(wanted.abs().max()), 1e-300)
        assert_equal(binary / size, wanted / size, f"{what}, relations", tolerance=1e-10)


@check(*NETWORK, slow=True)
def onnx(case: Case) -> None:
    """An exported model gives in ONNX Runtime what torch gives, at other sizes than it was traced at. The smallest
    model that holds the part, by the registry's exporter, which verifies what it wrote.

    A thorough run takes an architecture of the registry's own.
    """
    _check_export(case, "onnx")


@check(*NETWORK, on_request=True)
def tensorrt(case: Case) -> None:
    """TensorRT parses an exported model and builds an engine of it, for every size of its dims. The model of the check
    `onnx`; the engine is not run, which needs a GPU.
    """
    _check_export(case, "tensorrt")


def _check_export(case: Case, to: str) -> None:
    if to not in case.registry.names("exporters"):
        raise NotRunError("not run: no exporter")
    registry = case.registry if case.thorough else with_stub_parts(case.registry)
    spec = spec_around(case.entry, case.harness.options, registry, small=not case.thorough)
    model = build_random(spec, registry, dtype=torch.float32)
    folder, keeps = Path(mkdtemp(prefix="peirce-check-")), False
    try:
        suffix = case.registry.get("exporters", to).suffix
        export(model, path=folder / f"model{suffix}", to=to, registry=registry)
    except ExportError as error:
        if isinstance(error.__cause__, ModuleNotFoundError):
            raise NotRunError(f"not run: {error}") from error
        keeps = str(folder) in str(error)  # a file that failed stays, since the error names it
        raise BrokenError(f"in a model of architecture {spec.architecture!r}: {error}") from error
    except ImportError as error:
        raise NotRunError(f"not run: {error}; install peirce[onnx]") from error
    finally:
        if not keeps:
            rmtree(folder)
