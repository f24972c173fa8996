"""From a spec to a typed plan: every part found, its options read, and the parts checked against each other.

Nothing is allocated: what does not fit is refused before any tensor exists, with its place in the spec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import attrs
import torch
from attrs import frozen

from peirce.algebra import Scope
from peirce.errors import PlanError, RegistryError, SpecError, one_line, unknown, unusable
from peirce.networks import recur
from peirce.parts import (
    Architecture,
    Dims,
    Head,
    Operator,
    Plan,
    Planned,
    PlannedHead,
    PlannedOperator,
    Position,
    Reader,
    RecurrentOperator,
    StateOperator,
    Writer,
)
from peirce.spec import Activation, OperatorSpec, Spec, parse_shorthand, structure_options

if TYPE_CHECKING:
    from peirce.registry import Registry


T = TypeVar("T")
_ATOMS = {"U": "unary", "B": "binary"}
_NO_HEADS = torch.nn.ModuleDict()
"""The container of a model's heads, empty: no head's prefix may be one of its attributes."""


def resolve(spec: Spec, registry: Registry, *, fuse: bool = True) -> Plan:
    """Find the parts that a spec names and check that they fit together.

    Args:
        spec: the spec.
        registry: where parts are looked up.
        fuse: whether stages use fused projections; the state dict is the same either way.

    Raises:
        SpecError: an unknown part or option, with the nearest valid name and the line.
        PlanError: parts that do not fit together: sizes, places, branches, scope.
    """
    path = "model.architecture"
    cls: type[Architecture] = _Finder(spec, registry).part("architectures", spec.architecture, path)
    spec = cls.current(spec)  # as the architecture reads it today
    finder = _Finder(spec, registry)
    architecture = finder.find("architectures", spec.architecture, spec.options, path, "model.options")
    model_dims: Any = structure_options(
        cls.Dims,
        spec.dims,
        spec=spec,
        path="model.dims",
        kind_label=f"dimension of architecture {cls.name!r}",
    )
    finder.check(architecture, "model.dims", model_dims)
    scope = _scope_kind(finder, cls)
    finder.refuse(cls.check_scope(architecture.options, scope), architecture, "model.scope.kind")
    dims = _dims(finder, cls, architecture.options, model_dims)
    mixing, state = _operators(finder, cls, dims)
    attends = cls.own_attention or any(planned.part.pair for planned in mixing if planned.operator)
    positions = _beside(
        finder, "positions", spec.positions, dims, scope, lambda part: _no_place(part, cls, attends)
    )
    augmenters = _beside(finder, "augmenters", spec.augmenters, dims, scope)
    for i, head in enumerate(spec.heads):
        if hasattr(_NO_HEADS, head.as_):
            reason = f'torch\'s modules have an attribute {head.as_!r}; give it another name with as = "..."'
            finder.refuse(reason, f"the output prefix {head.as_!r}", f"model.heads.{i}")
    gives = cls.gives(architecture.options)
    if scope in ("causal", "prefix"):
        gives |= {"past"}
    heads = _beside(finder, "heads", spec.heads, dims, scope, lambda part: _not_given(part, cls, gives))
    return Plan(
        spec=spec, architecture=architecture, model_dims=model_dims, dims=dims, mixing=mixing, state=state,
        positions=positions, augmenters=augmenters, fuse=fuse,
        heads=tuple(_as(PlannedHead, found, prefix=head.as_) for head, found in zip(spec.heads, heads, strict=True)),
    )  # fmt: skip


def _as(cls: type[T], planned: Planned, **more: Any) -> T:
    """A planned part as one of its kind."""
    return cls(**attrs.asdict(planned, recurse=False), **more)


@frozen
class _Finder:
    """Looks parts up and places errors in the spec."""

    spec: Spec
    registry: Registry

    def part(self, kind: str, name: str, path: str) -> type[Any]:
        try:
            return self.registry.get(kind, name)
        except RegistryError as error:
            raise self.wrong(path, str(error)) from error

    def find(self, kind: str, name: str, options: Mapping[str, Any], path: str, options_path: str) -> Planned:
        part = self.part(kind, name, path)
        label = f"option of {kind.removesuffix('s')} {part.name!r}"
        read = structure_options(
            part.Options, part.todays(options), spec=self.spec, path=options_path, kind_label=label
        )
        return Planned(kind=kind, name=part.name, part=part, options=read, path=path)

    def check(self, planned: Planned, path: str, *arguments: Any) -> None:
        """Refuse a part that says that it cannot work, or asks for a size that the architecture does not have."""
        try:
            reason: str | None = planned.part.check(planned.options, *arguments)
        except PlanError as error:
            reason = str(error)
        self.refuse(reason, planned, path)

    def wrong(self, path: str, what: str) -> PlanError:
        """The error for a mistake at a key of the spec."""
        return PlanError(f"{self.spec.at(path)}: {what}")

    def failure(self, planned: Planned, doing: str, error: Exception) -> str:
        """Why a part cannot be used that raises; what is no refusal of its own is a mistake of its plug-in."""
        if isinstance(error, PlanError):
            return str(error)
        plugin = self.registry.entry(planned.kind, planned.name).plugin
        return f"plug-in {plugin} fails to {doing}: {one_line(error)}"

    def refuse(self, reason: str | None, what: object, path: str) -> None:
        if reason is not None:
            raise self.wrong(path, unusable(what, reason))


def _dims(finder: _Finder, cls: type[Architecture], options: Any, model_dims: Any) -> Dims:
    given = finder.spec.input
    if given.vocabulary is None:
        raise finder.wrong(
            "model.input",
            "model.input.vocabulary is missing: give the number of token ids, such as vocabulary = 32768, or train "
            "with a task that determines it",
        )
    return Dims(
        **attrs.asdict(given),
        dropout=finder.spec.regularisation.dropout,
        architecture=cls.name,
        **cls.sizes(options, model_dims),
    )


def _operators(
    finder: _Finder, cls: type[Architecture], dims: Dims
) -> tuple[tuple[PlannedOperator, ...], tuple[PlannedOperator, ...]]:
    spec = finder.spec
    entries = _layer(finder, cls)
    named = {entry.use for entry, _ in entries}
    state_default = cls.state if not any(_is_state(finder, entry.use) for entry, _ in entries) else ()
    entries = [*entries, *((OperatorSpec(use=name), "model.operators.layer") for name in state_default)]
    for name in spec.operators.options:
        if name not in named and name not in state_default:
            has = ", ".join(sorted({*named, *state_default}))
            raise finder.wrong(
                f"model.operators.options.{name}",
                f"options for operator {name!r}, which the layer does not have; it has {has}",
            )
    planned = [_operator(finder, cls, entry, path, dims) for entry, path in entries]
    mixing = tuple(p for p in planned if not issubclass(p.part, StateOperator))
    if cls.layer and not mixing:
        raise finder.wrong("model.operators.layer", "the layer has no operator that mixes tokens")
    if cls.recurrent and len(planned) > 1:
        raise finder.wrong(
            "model.operators.layer",
            f"a layer of architecture {cls.name!r} is one recurrent operator, and this one has {len(planned)}: "
            f"{', '.join(p.name for p in planned)}; leave one of them",
        )
    return mixing, tuple(p for p in planned if p not in mixing)


def _layer(finder: _Finder, cls: type[Architecture]) -> list[tuple[OperatorSpec, str]]:
    """The operators of a layer as tables, each with its path in the spec."""
    spec, path = finder.spec, "model.operators.layer"
    layer = spec.operators.layer
    if cls.fixed_layer and layer not in (None, cls.layer):
        has = f"the fixed layer {cls.layer!r}" if cls.layer else "no operators"
        raise finder.wrong(
            path,
            f"architecture {cls.name!r} has {has}; leave `layer` out, or choose an architecture whose layers are open, "
            "such as one with two branches",
        )
    if not cls.layer:
        return []
    if cls.recurrent and not isinstance(layer, tuple):
        return [(OperatorSpec(use=cls.layer if layer is None else layer), path)]
    if layer is None or isinstance(layer, str):
        letters = finder.registry.letters
        written = {name: finder.registry.get("operators", name).typing[0] for name in letters.values()}
        try:
            names = parse_shorthand(cls.layer if layer is None else layer, letters, written)
        except SpecError as error:
            reasons = filter(None, map(finder.registry.why_no_letter, dict.fromkeys(layer or "")))
            raise finder.wrong(path, "\n".join([str(error), *reasons])) from error
        return [(OperatorSpec(use=name), path) for name in names]
    return [(entry, f"{path}.{i}") for i, entry in enumerate(layer)]


def _is_state(finder: _Finder, name: str) -> bool:
    """Whether a name is a state operator's; an unknown name is reported where its operator is looked up."""
    try:
        return issubclass(finder.registry.get("operators", name), StateOperator)
    except RegistryError:
        return False


def _operator(
    finder: _Finder, cls: type[Architecture], entry: OperatorSpec, path: str, dims: Dims
) -> PlannedOperator:
    spec = finder.spec
    shared = spec.operators.options.get(entry.use, {})
    own = path if entry.options else f"model.operators.options.{entry.use}"
    options = {**shared, **entry.options}
    if not issubclass(finder.part("operators", entry.use, path), Operator) and entry.activation != "none":
        options["activation"] = entry.activation
    found = finder.find("operators", entry.use, options, path, own)
    finder.refuse(_wrong_kind(finder.registry, cls, found.part), found, path)
    finder.check(found, own, dims, _scope_kind(finder, cls))
    if not issubclass(found.part, Operator):
        if issubclass(found.part, RecurrentOperator):
            finder.refuse(_misread(finder, found, dims), found, path)
        return _as(PlannedOperator, found)
    if entry.activation not in get_args(Activation):
        finder.refuse(unknown("activation", entry.activation, get_args(Activation)), found, path)
    try:
        operator: Operator = found.part(found.options, dims)
        kernel, premise, output = operator.kernel(), operator.premise(), operator.output()
    except Exception as error:
        reason = finder.failure(found, "declare its kernel, premise and output", error)
        raise finder.wrong(path, unusable(found, reason)) from error
    finder.refuse(_misfit(operator, kernel, premise, output), found, path)
    for branch in {kernel.branch, premise.branch, output.branch}:
        if branch not in cls.branches and not cls.fixed_layer:
            kept = f"it uses {_ATOMS[branch]} atoms, which architecture {cls.name!r} does not keep"
            finder.refuse(kept, found, path)
    return _as(
        PlannedOperator,
        found,
        activation=entry.activation,
        operator=operator,
        kernel=kernel,
        premise=premise,
        output=output,
    )


def _wrong_kind(registry: Registry, cls: type[Architecture], part: type[Any]) -> str | None:
    """Why the architecture's layers cannot be made of operators of this kind; None when they can."""
    if issubclass(part, RecurrentOperator) == cls.recurrent:
        return None
    if cls.recurrent:
        known = [e.name for e in registry.entries("operators") if issubclass(e.part, RecurrentOperator)]
        return f"a layer of architecture {cls.name!r} is a recurrent operator: {', '.join(known) or 'none'}"
    known = [entry.name for entry in registry.entries("architectures") if entry.part.recurrent]
    return f"it is recurrent, and architecture {cls.name!r} is not; {', '.join(known) or 'none'} would be"


def _misread(finder: _Finder, found: Planned, dims: Dims) -> str | None:
    """What is wrong with the loop of a recurrent operator; it is run once on shapes without storage."""
    try:
        with torch.device("meta"):
            outputs, _ = recur(found.part(found.options, dims), torch.empty(2, 3, dims.unary))
    except Exception as error:
        return finder.failure(found, f"run it on atoms {[2, 3, dims.unary]}", error)
    if tuple(outputs.shape) != (2, 3, dims.recurrent):
        return f"its step gives {list(outputs.shape[2:])} numbers a token, where {dims.recurrent} are wanted"
    return None


def _misfit(operator: Operator, kernel: Reader, premise: Reader, output: Writer) -> str | None:
    """Where an operator's typing, channels and equation disagree with each other; None when they agree."""
    typing = f"{output.branch} <- {kernel.branch} x {premise.branch}"
    if operator.typing != typing:
        return (
            f"it declares the typing {operator.typing!r}, but its kernel, premise and output make {typing!r}"
        )
    for role, channels in (("kernel", kernel), ("premise", premise), ("output", output)):
        for name, size in channels.shape.items():
            if size < 1:
                return f"its {role} has {size} channels {name!r} at these dims"
    batch, length = 2, 3
    shapes = {role: _shape(batch, length, c) for role, c in (("k", kernel), ("p", premise), ("o", output))}
    try:
        with torch.device("meta"):  # shapes without storage
            result = operator.infer(torch.empty(shapes["k"]), torch.empty(shapes["p"]), Scope())
    except Exception as error:
        cause = str(error).partition("\n")[0]
        return f"its infer fails on a kernel {list(shapes['k'])} and a premise {list(shapes['p'])}: {cause}"
    if tuple(result.shape) != shapes["o"]:
        return (
            f"its infer gives shape {list(result.shape)} where its output declares {list(shapes['o'])} "
            f"(batch {batch}, length {length}), so it cannot be added to the other operators' outputs"
        )
    return None


def _shape(batch: int, length: int, channels: Reader | Writer) -> tuple[int, ...]:
    tokens = (length,) if channels.branch == "U" else (length, length)
    return (batch, *tokens, *channels.shape.values())


def _beside(
    finder: _Finder,
    kind: str,
    entries: Sequence[Any],
    dims: Dims,
    scope: str,
    misfit: Callable[[type[Any]], str | None] = lambda part: None,
) -> tuple[Planned, ...]:
    """Positions, augmenters and heads: found, options read, and asked whether they fit and work at these sizes."""
    planned = []
    for i, entry in enumerate(entries):
        path = f"model.{kind}.{i}"
        found = finder.find(kind, entry.use, entry.options, path, path)
        finder.refuse(misfit(found.part), found, path)
        finder.check(found, path, dims, scope)
        planned.append(found)
    return tuple(planned)


def _no_place(part: type[Position], architecture: type[Architecture], attends: bool) -> str | None:
    """Why a position has nowhere to act; None when it has."""
    served = part.places()
    offered = [place for place in served if place in architecture.places]
    if not offered:
        places = (
            f"the places {', '.join(sorted(architecture.places))}" if architecture.places else "no places"
        )
        return f"it acts at {' and '.join(served)}, and architecture {architecture.name!r} has {places}"
    if offered == ["pair"] and not attends:
        return (
            "it biases attention, and no operator of the layer scores pairs or sums values, as assoc and join do; "
            f"architecture {architecture.name!r} has no attention of its own either"
        )
    return None


def _scope_kind(finder: _Finder, cls: type[Architecture]) -> str:
    """The kind of scope that operators work in: the architecture's own, or the spec's."""
    kind = finder.spec.scope.kind
    if cls.scope is not None and kind != "bidirectional":
        raise finder.wrong(
            "model.scope.kind",
            f"architecture {cls.name!r} has the scope {cls.scope!r} and no other; leave `kind` out",
        )
    return cls.scope or kind


def _not_given(part: type[Head], architecture: type[Architecture], gives: frozenset[str]) -> str | None:
    """Which output a head needs and does not get; None when it gets all."""
    lacking = sorted(part.needs - gives)
    if not lacking:
        return None
    if "past" in lacking:
        return 'it predicts the next token, which this scope shows it; set model.scope.kind to "causal" or "prefix"'
    return (
        f"it needs the output {' and '.join(lacking)}, which architecture {architecture.name!r} does not give with "
        "these options"
    )
