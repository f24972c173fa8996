"""Tiny whole models around a part: the smallest spec that a registry's architectures can make of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import attrs
import torch

from peirce.compose import build, resolve
from peirce.errors import PeirceError
from peirce.model import Model
from peirce.parts import GenerativeArchitecture, Position, StateOperator
from peirce.registry import Registered, Registry
from peirce.spec import (
    HeadSpec,
    InputSpec,
    OperatorSpec,
    OperatorsSpec,
    PartSpec,
    Regularisation,
    ScopeSpec,
    Spec,
)
from peirce_testing.compare import NotRunError
from peirce_testing.examples import BASE, normal
from peirce_testing.options import as_table, choices, example_options
from peirce_testing.stub_parts import is_stub

SIZES = {
    "layers": 2, "unary": 4, "binary": 3, "heads": 2, "head_size": 2,
    "feedforward": 5, "feedforward_unary": 5, "feedforward_binary": 5,
}  # fmt: skip
"""What an architecture's `Dims` are given, by name; any other count without a default is 4."""


def sizes_of(architecture: type[Any], *, every: bool = False) -> dict[str, int]:
    """The sizes that a tiny model of an architecture is given; with `every`, its own defaults among them."""
    fields = attrs.fields(architecture.Dims)
    sizes = {f.name: SIZES.get(f.name, 4) for f in fields if f.name in SIZES or f.default is attrs.NOTHING}
    defaults = {f.name: f.default for f in fields if type(f.default) is int}
    return {**defaults, **sizes} if every else sizes


def tiny_spec(
    architecture: type[Any], options: Any, *, scope: str = "bidirectional", layers: int = 2
) -> Spec:
    """The spec of a tiny model of an architecture, without positions or heads."""
    sizes = sizes_of(architecture)
    given = {name: getattr(BASE, name) for name in ("vocabulary", "token_types", "max_length", "pad_id")}
    return Spec(
        name="tiny",
        architecture=architecture.name,
        dims={**sizes, "layers": layers} if "layers" in sizes else sizes,
        options=as_table(options),
        input=InputSpec(**given),
        scope=ScopeSpec(kind=scope),  # type: ignore[arg-type]
        regularisation=Regularisation(dropout=0.0),
    )


def fit_scope(spec: Spec, registry: Registry) -> Spec:
    """The spec, its operators' options chosen so that they accept its kind of scope.

    Raises:
        PeirceError: no choice does.
    """
    try:
        resolve(spec, registry)
        return spec
    except PeirceError as error:
        refused = error
    kind = registry.get("architectures", spec.architecture).scope or spec.scope.kind
    chosen: dict[str, Mapping[str, Any]] = {}
    for part in (entry.part for entry in registry.entries("operators")):
        options = example_options(part)
        if part.check(options, BASE, kind) is None:
            continue
        accepted = next((o for _, o in choices(options) if part.check(o, BASE, kind) is None), None)
        if accepted is None:
            continue
        given = {**chosen, part.name: as_table(accepted)}
        trial = attrs.evolve(spec, operators=OperatorsSpec(options=given))
        try:
            resolve(trial, registry)
            return trial
        except PeirceError as error:
            # The layer may lack this operator, or another one may still refuse the scope.
            if f"operator {part.name!r}, which the layer does not have" not in str(error):
                chosen = given
    raise refused


def plain_specs(registry: Registry, plugin: str = "") -> Iterator[Spec]:
    """Tiny specs without heads, in each of two kinds of scope that their architectures take.

    Those of a plug-in come first, then those of the plainest architectures.
    """

    def order(each: Registered) -> tuple[Any, ...]:
        part, foreign = each.part, each.plugin != plugin
        return foreign, is_stub(each), part.recurrent, not part.layer, part.fixed_layer, part.branches

    for part in (entry.part for entry in sorted(registry.entries("architectures"), key=order)):
        options = example_options(part)
        for scope in ("bidirectional", "causal") if part.scope is None else ("bidirectional",):
            if part.check_scope(options, scope) is None:
                with suppress(PeirceError):
                    yield fit_scope(tiny_spec(part, options, scope=scope, layers=1), registry)


def example_heads(registry: Registry) -> list[tuple[Any, HeadSpec]]:
    """Each head of a registry, beside how a spec asks for its example."""
    parts = [entry.part for entry in registry.entries("heads")]
    return [(part, HeadSpec(use=part.name, options=as_table(example_options(part)))) for part in parts]


def spec_around(
    entry: Registered, options: Any, registry: Registry, *, scope: str | None = None, small: bool = False
) -> Spec:
    """A small spec that holds a part: few operators, since exports take as long as the graph is large.

    Args:
        entry: the part.
        options: its options.
        registry: where the others are looked up.
        scope: the kind of scope, where the architecture does not fix it; what the part asks for if None.
        small: whether the suite's stub architecture, the smallest, comes before those of the registry.

    Raises:
        NotRunError: no registered architecture can hold the part.
    """
    if scope is None:
        past = entry.kind == "heads" and "past" in entry.part.needs
        refused = None
        if entry.kind == "positions":
            refused = entry.part.check(options, BASE, "bidirectional")
        elif entry.kind == "architectures":
            refused = entry.part.check_scope(options, "bidirectional")
        scope = "causal" if past or refused else "bidirectional"
    if entry.kind == "architectures":
        kind = scope if entry.part.scope is None else "bidirectional"
        return fit_scope(tiny_spec(entry.part, options, layers=1, scope=kind), registry)
    places = set(entry.part.places()) if entry.kind == "positions" else set()
    fewer = (False,) if places & {"pair", "rotary"} else (True, False)  # attention is more than one operator

    def order(each: Registered) -> tuple[Any, ...]:
        part = each.part
        return (
            is_stub(each) is not small,
            len(places - part.places),
            scope == "causal" and not issubclass(part, GenerativeArchitecture),
            not part.layer,
            not part.fixed_layer,
        )

    why: dict[str, dict[str, None]] = {}
    for architecture in (each.part for each in sorted(registry.entries("architectures"), key=order)):
        kind = scope if architecture.scope is None else "bidirectional"
        tiny = tiny_spec(architecture, _options_in(architecture, kind), layers=1, scope=kind)
        for few in fewer:
            try:
                begun = fit_scope(tiny, registry)
                trial = with_part(_few_operators(begun, registry) if few else begun, entry, options, registry)
                resolve(trial, registry)
                return trial
            except PeirceError as error:
                why.setdefault(str(error), {})[architecture.name] = None
    reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in why.items())
    raise NotRunError(f"not run: no registered architecture can hold it ({reasons or 'there is none'})")


def _options_in(architecture: type[Any], scope: str) -> Any:
    """An architecture's example options, or else the first choice of one of them that takes a kind of scope."""
    example = example_options(architecture)
    several = (example, *(chosen for _, chosen in choices(example)))
    return next((each for each in several if architecture.check_scope(each, scope) is None), example)


def _few_operators(spec: Spec, registry: Registry) -> Spec:
    """The spec with the first operator of its layer alone, where the layer is open."""
    if registry.get("architectures", spec.architecture).fixed_layer:
        return spec
    return attrs.evolve(spec, operators=OperatorsSpec(layer=_first_operator(spec, registry)))


def _first_operator(spec: Spec, registry: Registry) -> tuple[OperatorSpec, ...]:
    return tuple(OperatorSpec(use=planned.name) for planned in resolve(spec, registry).mixing[:1])


def with_part(spec: Spec, entry: Registered, options: Any, registry: Registry) -> Spec:
    """The spec with one more part.

    Raises:
        PeirceError: it is an operator, and the layer is fixed.
    """
    table = as_table(options)
    if entry.kind in ("positions", "augmenters"):
        more: Any = {entry.kind: (*getattr(spec, entry.kind), PartSpec(use=entry.name, options=table))}
        return attrs.evolve(spec, **more)
    if entry.kind == "heads":
        return spec_with_heads(spec, *spec.heads, HeadSpec(use=entry.name, options=table))
    if registry.get("architectures", spec.architecture).fixed_layer:
        raise PeirceError("its layer is fixed")
    activation = table.pop("activation", "none")
    layer: tuple[OperatorSpec, ...] = (OperatorSpec(use=entry.name, activation=activation, options=table),)
    if issubclass(entry.part, StateOperator):  # it follows operators that mix tokens
        layer = (*_first_operator(spec, registry), *layer)
    return _with_relations(attrs.evolve(spec, operators=OperatorsSpec(layer=layer)), registry)


def spec_with_heads(spec: Spec, *heads: HeadSpec) -> Spec:
    """The spec with other heads."""
    given: Any = heads  # the type checker loses what the field's converter takes
    return attrs.evolve(spec, heads=given)


def randomise(model: torch.nn.Module, seed: int = 0) -> None:
    """Give every parameter values of order one, so that small or zero initial values hide nothing."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.copy_(normal(parameter.shape, generator) * 0.5)


def build_random(
    spec: Spec, registry: Registry, *, fuse: bool = True, dtype: torch.dtype = torch.float64, seed: int = 0
) -> Model:
    """A model with parameters of order one, for inference."""
    model = build(spec, registry=registry, fuse=fuse, dtype=torch.float64)
    randomise(model, seed)
    return model.to(dtype).eval()


def _with_relations(spec: Spec, registry: Registry) -> Spec:
    """The spec with a position that gives binary atoms, if there is one, so that they are not all zero.

    One that knows pairs by their places alone comes before one that reads inputs of its own, whose random values may
    leave most pairs alike: norms of nearly constant atoms amplify rounding.
    """
    positions = registry.entries("positions")
    for entry in sorted(positions, key=lambda e: (is_stub(e), e.part.inputs is not Position.inputs)):
        if "binary" not in entry.part.places():
            continue
        try:
            trial = with_part(spec, entry, example_options(entry.part), registry)
            resolve(trial, registry)
            return trial
        except (PeirceError, AssertionError):
            continue
    return spec
