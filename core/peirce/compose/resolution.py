"""From a spec to a typed plan: every part found, its options read, and the parts checked against each other.

Nothing is allocated: what does not fit is refused before any tensor exists, with its place in the spec.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import attrs
import torch

from peirce.algebra import Scope
from peirce.errors import PeirceError, PlanError, RegistryError, one_line, unknown, unusable
from peirce.networks import recur
from peirce.parts import (
    Architecture,
    Dims,
    Plan,
    Planned,
    PlannedHead,
    PlannedLayer,
    PlannedOperator,
    PureOperator,
    Reader,
    RecurrentOperator,
    ScopePosition,
    StateOperator,
    Writer,
    typing_of,
)
from peirce.spec import Activation, HeadSpec, LayerSpec, OperatorSpec, Spec, structure

if TYPE_CHECKING:
    from peirce.registry import Registry


T = TypeVar("T")
P = TypeVar("P", bound=Planned)
_NO_PROJECTIONS = torch.nn.Module()
"""The container of an operator's projections, empty: no reading may be called as one of its attributes."""
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
    return _Resolution(spec, registry).plan(fuse)


class _Resolution:
    """Plans the parts of one spec, and places in it what is wrong."""

    dims: Dims
    attends: frozenset[str]
    gives: frozenset[str]

    def __init__(self, spec: Spec, registry: Registry) -> None:
        self.spec, self.registry = spec, registry
        self.cls: type[Architecture] = self.part("architectures", spec.architecture, "model.architecture")
        self.spec = spec = self.cls.current(spec)  # as the architecture reads it today
        self.scope = self.cls.scope or spec.scope.kind
        self.owner = f"architecture {self.cls.name!r}"

    def plan(self, fuse: bool) -> Plan:
        spec, cls, owner = self.spec, self.cls, self.owner
        architecture = self.find(
            Planned, "architectures", spec.architecture, "model.architecture", spec.options, "model.options"
        )
        self.own(architecture.part.Dims, spec.dims, "model.dims", cls.name)
        model_dims: Any = self.read(architecture.part.Dims, spec.dims, "model.dims", f"dimension of {owner}")
        self.ask(architecture, "model.dims", model_dims)
        if cls.scope is not None and spec.scope.kind != "bidirectional":
            only = f"{owner} has the scope {cls.scope!r} and no other; leave `kind` out"
            raise self.wrong("model.scope.kind", only)
        self.refuse(cls.check_scope(architecture.options, self.scope), architecture, "model.scope.kind")
        if spec.input.vocabulary is None:
            raise self.wrong(
                "model.input",
                "model.input.vocabulary is missing: give the number of token ids, such as vocabulary = 32768, or "
                "train with a task that determines it",
            )
        self.dims = Dims(
            **attrs.asdict(spec.input),
            dropout=spec.regularisation.dropout,
            architecture=cls.name,
            **cls.sizes(architecture.options, model_dims),
        )
        layers = self.layers()
        mixing = tuple({id(each): each for layer in layers for each in layer.mixing}.values())
        state = tuple({id(each): each for layer in layers for each in layer.state}.values())
        inside = {planned.part.pair for planned in mixing if planned.operator} - {None}
        self.attends = frozenset({"attention"} if cls.own_attention else inside)
        past = frozenset({"past"} if self.scope in ("causal", "prefix") else ())
        self.gives = cls.gives(architecture.options) | past
        return Plan(
            spec=spec,
            architecture=architecture,
            model_dims=model_dims,
            dims=self.dims,
            mixing=mixing,
            state=state,
            layers=layers,
            positions=self.beside("positions"),
            augmenters=self.beside("augmenters"),
            heads=tuple(map(self.head, spec.heads, self.beside("heads"))),
            fuse=fuse,
        )

    def part(self, kind: str, name: str, path: str) -> type[Any]:
        try:
            return self.registry.get(kind, name)
        except RegistryError as error:
            raise self.wrong(path, str(error)) from error

    def read(self, cls: type[T], table: Mapping[str, Any], path: str, label: str) -> T:
        return structure(cls, table, where=self.spec.at, path=path, label=label)

    def own(self, cls: type[Any], table: Mapping[str, Any], path: str, name: str) -> None:
        """Refuse options or sizes that a spec in Python takes of another part."""
        made = getattr(table, "made_of", None)
        if made is not None and not issubclass(made, cls):
            raise self.wrong(path, f"{name!r} takes {cls.__qualname__}, and is given {made.__qualname__}")

    def find(self, cls: type[P], kind: str, name: str, path: str, options: Mapping[str, Any], at: str) -> P:
        """A part that the spec names, with its options, which stand at a key of their own."""
        part = self.part(kind, name, path)
        label = f"option of {kind.removesuffix('s')} {part.name!r}"
        self.own(part.Options, options, at, part.name)
        read = self.read(part.Options, part.todays(options), at, label)
        return cls(kind=kind, name=part.name, part=part, options=read, path=path)

    def fit(self, cls: type[P], kind: str, name: str, path: str, options: Mapping[str, Any], at: str) -> P:
        """A part beside the architecture, asked whether it fits and works at these sizes."""
        found = self.find(cls, kind, name, path, options, at)
        self.refuse(self.misfit(kind, found.part), found, path)
        self.ask(found, at, self.dims, self.scope)
        return found

    def beside(self, kind: str) -> tuple[Planned, ...]:
        """The positions, augmenters or heads."""
        entries = [(f"model.{kind}.{i}", entry) for i, entry in enumerate(getattr(self.spec, kind))]
        return tuple(self.fit(Planned, kind, entry.use, path, entry.options, path) for path, entry in entries)

    def head(self, head: HeadSpec, found: Planned) -> PlannedHead:
        first = next(i for i, other in enumerate(self.spec.heads) if other.as_ == head.as_)
        why = f"model.heads.{first} has it" if found.path != f"model.heads.{first}" else None
        why = f"torch's modules have an attribute {head.as_!r}" if hasattr(_NO_HEADS, head.as_) else why
        named = f"the output prefix {head.as_!r}"
        self.refuse(why and f'{why}; give the head another name with as = "..."', named, found.path)
        return PlannedHead(**attrs.asdict(found, recurse=False), prefix=head.as_)

    def layers(self) -> tuple[PlannedLayer, ...]:
        """The layers that the spec tells apart; the last one's successor is like the first."""
        cls, said = self.cls, self.spec.operators
        if not said.layers:
            alike = LayerSpec(layer=said.layer, state=said.state)
            planned = [self.layer(alike, "model.operators")]
        else:
            path = "model.operators.layers"
            if said.layer is not None or said.state is not None:
                both = "there are `layer` or `state` beside `layers`; each entry of `layers` has its own"
                raise self.wrong(path, both)
            if not cls.mixed:
                known = ", ".join(e.name for e in self.registry.entries("architectures") if e.part.mixed)
                raise self.wrong(path, f"the layers of {self.owner} are alike; those of {known} may differ")
            if self.dims.layers % (cycle := sum(one.repeat for one in said.layers)):
                raise self.wrong(
                    path,
                    f"its entries are {cycle} layers, repeats counted, and model.dims.layers is "
                    f"{self.dims.layers}, which is no multiple of that; change `repeat` or model.dims.layers",
                )
            entries = enumerate(said.layers)
            planned = [each for i, one in entries for each in [self.layer(one, f"{path}.{i}")] * one.repeat]
        self.used(said.options, "model.operators", *{id(each): each for each in planned}.values())
        return tuple(planned)

    def used(self, options: Mapping[str, Any], path: str, *layers: PlannedLayer) -> None:
        """Refuse options of an operator that no layer has of those which they are for."""
        names = {each.name for layer in layers for each in (*layer.mixing, *layer.state)}
        for name in options:
            if name not in names:
                has = ", ".join(sorted(names))
                what = (
                    f"options for operator {name!r}, which the layer does not have; it has {has}. Leave them out; "
                    f"--set '{path}={{layer=\"NAME\"}}' replaces operators and options at once"
                )
                raise self.wrong(f"{path}.options.{name}", what)

    def layer(self, said: LayerSpec, path: str) -> PlannedLayer:
        """The operators of a layer, and those that follow them by default."""
        cls, at, own = self.cls, f"{path}.layer", (said.options, path)
        if cls.fixed_layer and said.state not in (None, cls.state):
            raise self.wrong(f"{path}.state", f"the layers of {self.owner} are fixed; leave `state` out")
        operators = [self.operator(entry, place, *own) for entry, place in self.mixed(said, at)]
        if said.state is not None:
            if any(issubclass(each.part, StateOperator) for each in operators):
                twice = "`layer` has state operators as well; name them in one of the two"
                raise self.wrong(f"{path}.state", twice)
            given: dict[str, Any] = {f"{path}.state": said.state}
            if not isinstance(said.state, str):
                given = {f"{path}.state.{i}": each for i, each in enumerate(said.state)}
            for place, each in given.items():
                entry = OperatorSpec(use=each) if isinstance(each, str) else each
                operators.append(state := self.operator(entry, place, *own))
                mixes = "it mixes tokens, so it belongs to `layer`"
                self.refuse(None if issubclass(state.part, StateOperator) else mixes, state, place)
        elif not any(issubclass(each.part, StateOperator) for each in operators):
            operators += [self.operator(OperatorSpec(use=name), at, *own) for name in cls.state]
        mixing = tuple(each for each in operators if not issubclass(each.part, StateOperator))
        if cls.layer and not mixing and not any(each.part.scope_rule == "reduce" for each in operators):
            raise self.wrong(at, "the layer has no operator that mixes tokens")
        alone = operators if cls.recurrent else mixing
        if len(alone) > 1 and any(issubclass(each.part, RecurrentOperator) for each in mixing):
            named = ", ".join(each.name for each in alone)
            one = "one recurrent operator mixes the tokens of a layer"
            raise self.wrong(at, f"{one}, and this one has {len(alone)}: {named}; leave one of them")
        if (bad := cls.check_layer(mixing)) is not None:
            self.refuse(bad[1], bad[0], bad[0].path)
        layer = PlannedLayer(mixing=mixing, state=tuple(each for each in operators if each not in mixing))
        self.used(said.options, path, layer)
        return layer

    def mixed(self, said: LayerSpec, path: str) -> list[tuple[OperatorSpec, str]]:
        """What `layer` says, as tables, each with its path in the spec."""
        cls, layer = self.cls, said.layer
        if cls.fixed_layer and layer not in (None, cls.layer):
            has = f"the fixed layer {cls.layer!r}" if cls.layer else "no operators"
            raise self.wrong(
                path,
                f"{self.owner} has {has}; leave `layer` out, or choose an architecture whose layers are "
                "open, such as one with two branches",
            )
        if not cls.layer:
            return []
        if isinstance(layer, tuple):
            return [(entry, f"{path}.{i}") for i, entry in enumerate(layer)]
        text = cls.layer if layer is None else layer
        whole = cls.recurrent or text in {entry.name for entry in self.registry.entries("operators")}
        return [(OperatorSpec(use=name), path) for name in ([text] if whole else self.shorthand(text, path))]

    def shorthand(self, text: str, path: str) -> list[str]:
        """The operators of `jmc.atp`: those left of the dot write unary atoms, those right of it binary ones."""
        letters, names = self.registry.letters, list[str]()
        known = [f"{letter} ({letters[letter]})" for letter in sorted(letters)]
        unary, dot, binary = text.partition(".")
        for letter, branch in [*((each, "U") for each in unary), *((each, "B") for each in binary)]:
            if letter not in letters:
                said = unknown(f"letter of the shorthand {text!r}", letter, known)
                raise self.wrong(path, "\n".join(filter(None, [said, self.registry.why_no_letter(letter)])))
            name = letters[letter]
            shown, place = f"{letter!r} ({name}) stands", f"in the shorthand {text!r}"
            if self.registry.get("operators", name).typing[0] != branch:
                kind, side = ("binary", "right") if branch == "U" else ("unary", "left")
                hint = "" if dot else "; the shorthand has no dot, as in 'jmc.atp'"
                why = f"it writes {kind} atoms, so it belongs to the {side}{hint}"
                raise self.wrong(path, f"{shown} on the wrong side of the dot {place}: {why}")
            if name in names:
                why = "list the operators as tables to use one twice"
                raise self.wrong(path, f"{shown} twice {place}; {why}")
            names.append(name)
        if not names:
            raise self.wrong(path, f"the shorthand {text!r} names no operator. Known: {', '.join(known)}")
        return names

    def operator(
        self, entry: OperatorSpec, path: str, given: Mapping[str, Mapping[str, Any]], layer: str
    ) -> PlannedOperator:
        part, activation = self.part("operators", entry.use, path), entry.activation
        layered = given.get(entry.use, {})
        tables = self.spec.operators.options.get(entry.use, {}), layered, entry.options
        for table in tables:
            self.own(part.Options, table, path, part.name)
        shared = {key: value for table in tables for key, value in table.items()}
        if not issubclass(part, PureOperator) and activation != "none":
            shared["activation"] = activation
        own = path if entry.options else f"{layer if layered else 'model.operators'}.options.{entry.use}"
        found = self.fit(PlannedOperator, "operators", entry.use, path, shared, own)
        if issubclass(part, RecurrentOperator):
            self.refuse(self.misread(found), found, path)
        if not issubclass(part, PureOperator):
            return found
        if activation not in get_args(Activation):
            self.refuse(unknown("activation", activation, get_args(Activation)), found, path)

        def declare() -> tuple[PureOperator, dict[str, Reader], Writer]:
            operator = part(found.options, self.dims)
            return operator, dict(operator.readings()), operator.output()

        operator, readings, output = self.tried(found, "declare its readings and its output", declare)
        self.refuse(_misinferred(operator, readings, output), found, path)
        return attrs.evolve(found, activation=activation, operator=operator, readings=readings, output=output)

    def misfit(self, kind: str, part: type[Any]) -> str | None:
        """Why the architecture has no use for a part; None when it has."""
        cls, entries = self.cls, self.registry.entries
        recurrent = kind == "operators" and issubclass(part, RecurrentOperator)
        if kind == "operators" and cls.recurrent and not recurrent:
            known = [e.name for e in entries("operators") if issubclass(e.part, RecurrentOperator)]
            return f"a layer of {self.owner} is a recurrent operator: {', '.join(known) or 'none'}"
        if recurrent and not cls.recurrent:
            if not cls.mixed:
                known = [e.name for e in entries("architectures") if e.part.recurrent or e.part.mixed]
                return f"it is recurrent, and {self.owner} is not; {', '.join(known) or 'none'} would be"
            if self.scope == "relation":
                return "it reads every token before a token, and the scope 'relation' may forbid some of them"
            for place in self.spec.positions:
                if issubclass(self.part("positions", place.use, "model.positions"), ScopePosition):
                    return (
                        f"it reads every token before a token, and position {place.use!r} may forbid some of them; "
                        "leave one of the two out"
                    )
        if kind == "positions":
            offered = [place for place in part.places() if place in cls.places]
            if not offered:
                places = f"the places {', '.join(sorted(cls.places))}" if cls.places else "no places"
                return f"it acts at {' and '.join(part.places())}, and {self.owner} has {places}"
            served = {"attention", "score"} | ({"value"} if "pair" in offered else set())
            if not {*offered} - {"pair", "rotary"} and not served & self.attends:
                does = "scores pairs, as assoc does"
                if "value" in served:
                    does = "scores pairs or sums values, as assoc and join do"
                return (
                    f"it acts inside attention, and no operator of the layer {does}; {self.owner} has no attention of "
                    "its own either"
                )
        if kind == "heads" and (lacking := sorted(part.needs - self.gives)):
            needed = f"it needs the output {' and '.join(lacking)}, which {self.owner} does not give"
            seen = "it predicts the next token, which this scope shows it; set model.scope.kind"
            return f'{seen} to "causal" or "prefix"' if "past" in lacking else f"{needed} with these options"
        return None

    def misread(self, found: Planned) -> str | None:
        """What is wrong with the loop of a recurrent operator; it is run once on shapes without storage."""
        read, given = [2, 3, self.dims.unary], self.dims.recurrent

        def run() -> list[int]:
            with torch.device("meta"):
                return list(recur(found.part(found.options, self.dims), torch.empty(read))[0].shape)

        if (shape := self.tried(found, f"run it on atoms {read}", run)) != [2, 3, given]:
            return f"its step gives {shape[2:]} numbers a token, where {given} are wanted"
        return None

    def ask(self, planned: Planned, path: str, *arguments: Any) -> None:
        """Refuse a part that says that it cannot work, or asks for a size that the architecture does not have."""
        check = partial(planned.part.check, planned.options, *arguments)
        self.refuse(self.tried(planned, "check its options", check), planned, path)

    def tried(self, planned: Planned, doing: str, work: Callable[[], T]) -> T:
        """What a part's own code gives; an error that is no refusal of the part is a mistake of its plug-in."""
        try:
            return work()
        except Exception as error:
            reason: object = error
            if not isinstance(error, PeirceError):
                plugin = self.registry.entry(planned.kind, planned.name).plugin
                reason = f"plug-in {plugin} fails to {doing}: {one_line(error)}"
            raise self.wrong(planned.path, unusable(planned, reason)) from error

    def refuse(self, reason: str | None, what: object, path: str) -> None:
        if reason is not None:
            raise self.wrong(path, unusable(what, reason))

    def wrong(self, path: str, what: str) -> PlanError:
        """The error for a mistake at a key of the spec."""
        return PlanError(f"{self.spec.at(path)}: {what}")


def _misinferred(operator: PureOperator, readings: Mapping[Any, Any], output: Any) -> str | None:
    """Where an operator's typing, channels and equation disagree with each other; None when they agree."""
    read = [(name, reader, Reader) for name, reader in readings.items()]
    for name, end, kind in (*read, ("output", output, Writer)):
        if not isinstance(end, kind):
            return f"its {name} is {end!r}, where a {kind.__name__} belongs"
    for name in map(str, readings):
        if not re.fullmatch("(?!output$|source_)[a-z][a-z0-9_]*", name) or hasattr(_NO_PROJECTIONS, name):
            words = (
                "a lower-case word, neither 'output' nor 'source_...', and no attribute of torch's modules"
            )
            return f"its reading {name!r} needs another name: {words}"
    typing = typing_of(readings, output)
    if operator.typing != typing:
        reads = ", ".join(f"{name} of {reader.branch}" for name, reader in readings.items())
        wrote = f"its readings ({reads or 'none'}) and its output of {output.branch} make"
        return f"it declares the typing {operator.typing!r}, but {wrote} {typing!r}"
    shapes: dict[str, list[int]] = {}
    ends: dict[str, Reader | Writer] = {**readings, "output": output}
    for role, end in ends.items():
        for name, size in end.shape.items():
            if size < 1:
                return f"its {role} has {size} channels {name!r} at these dims"
        shapes[role] = [2, *((3,) if end.branch == "U" else (3, 3)), *end.shape.values()]
    declared = shapes.pop("output")
    try:
        with torch.device("meta"):  # shapes without storage
            index = torch.arange(3).unsqueeze(0)
            result = operator.infer(*map(torch.empty, shapes.values()), Scope().at(index, index))
    except Exception as error:
        given = " and ".join(f"{role} {shape}" for role, shape in shapes.items())
        cause = str(error).partition("\n")[0]
        return f"its infer fails on {given}: {cause}"
    if list(result.shape) != declared:
        return (
            f"its infer gives shape {list(result.shape)} where its output declares {declared} "
            "(batch 2, length 3), so it cannot be added to the other operators' outputs"
        )
    return None
