"""What a picture of a model shows, as values: taken from a plan, and compared with those of another."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, TypeVar

import attrs
import torch
from attrs import evolve, frozen

from peirce.compose import is_saved, provenance_of, resolve
from peirce.errors import ModelFileError, RegistryError
from peirce.model import SPEC, Model, saved_files
from peirce.parts import Plan, Planned, PlannedHead, PlannedOperator, RecurrentOperator
from peirce.registry import Registry, load_spec
from peirce.spec import Spec
from peirce_export import runtime_class

ADDED, GONE, CHANGED = "added", "gone", "changed"
T = TypeVar("T")


@frozen(kw_only=True)
class Piece:
    """A part as a picture shows it.

    Args:
        kind: operator, position, augmenter, head or architecture.
        plugin: whose it is.
        reads, writes: the branch, `U` or `B`, the channels such as `12×64`, and what is read as what, such as `kernel`.
        options: each option as text; `given` has those that differ from the defaults.
        notes: what else there is to say, such as a head's outputs, and where a position acts.
        pair: where pair positions add their terms in an operator.
        status: against another plan `added`, `gone` or `changed`; empty where nothing differs.
        changes: what is changed.
    """

    kind: str
    name: str
    plugin: str
    typing: str = ""
    reads: tuple[tuple[str, str, str], ...] = ()
    writes: tuple[tuple[str, str, str], ...] = ()
    options: Mapping[str, str]
    given: Mapping[str, str]
    notes: tuple[str, ...] = ()
    pair: str = ""
    status: str = ""
    changes: tuple[str, ...] = ()

    @property
    def settings(self) -> tuple[str, ...]:
        """The options that differ from the defaults, or what has changed."""
        return self.changes or tuple(f"{key} = {value}" for key, value in self.given.items())

    def __str__(self) -> str:
        """All of it, in a line."""
        ends = [f"{name} {channels} of {branch}".strip() for branch, channels, name in self.reads]
        facts = [self.typing, "reads " + ", ".join(ends) if ends else "", *self.settings, *self.notes]
        return "; ".join([f"{self.kind} {self.name} of {self.plugin}", *filter(None, facts)])


@frozen(kw_only=True)
class Layer:
    """Layers that follow each other and are alike: how many, and their operators; `was` is how many there were."""

    count: int
    mixing: tuple[Piece, ...]
    state: tuple[Piece, ...]
    was: int | None = None


@frozen(kw_only=True)
class Contents:
    """What a picture of a model shows.

    Args:
        sizes: the sizes that parts see, the kind of scope and the like, each as text; `before` has those that differ
            from the other's, as they are there.
        branches: `U` or `UB`: the atoms that are kept from layer to layer.
        inputs, outputs: of the atoms and the pooled output, each with its dims.
        tokens: what is done to unary atoms before the layers: augmenters, then unary positions.
        pairs: positions that give the initial binary atoms.
        scopes: positions that restrict the scope.
        inside: positions inside attention; `pair` and `rotary` are in their notes.
        layers: one cycle of them, which is repeated `cycles` times.
        decoder: how many layers of a decoder follow those of the encoder; 0 where there is none.
        other: the name of the model that this one is compared with.
    """

    name: str
    architecture: Piece
    branches: str
    sizes: Mapping[str, str]
    inputs: tuple[str, ...]
    outputs: Mapping[str, str]
    tokens: tuple[Piece, ...]
    pairs: tuple[Piece, ...]
    scopes: tuple[Piece, ...]
    inside: tuple[Piece, ...]
    layers: tuple[Layer, ...]
    cycles: int
    decoder: int
    heads: tuple[Piece, ...]
    other: str = ""
    before: Mapping[str, str] = attrs.field(factory=dict)


def spec_of(source: str | os.PathLike[str] | Spec, registry: Registry | None = None) -> Spec:
    """The spec of a model: a ready name or a path, a saved model's, or the one that an exported file carries.

    Raises:
        SpecError, ModelFileError: there is none.
    """
    if isinstance(source, Spec):
        return source
    path = Path(source)
    if path.is_file() and path.suffix != ".toml":
        try:
            exported = runtime_class(path)().source(path)
        except RegistryError as error:
            raise ModelFileError(f"{path}: {error}") from error
        if exported is None:
            raise ModelFileError(f"{path} does not say what it was exported from; name its spec instead")
        return Spec.from_toml(exported.spec, source=str(path))
    if is_saved(source, registry):
        with saved_files(path) as files:
            return Spec.from_toml(files.text(SPEC), source=str(path / SPEC))
    return load_spec(os.fspath(source), registry=registry)


def contents(source: str | os.PathLike[str] | Spec, registry: Registry) -> Contents:
    """What there is to show of a spec, a saved model or an exported file.

    The plan says it, and a model without storage the inputs, the outputs and the layers of a decoder.

    Raises:
        SpecError, ModelFileError: the source cannot be read or composed.
    """
    plan = resolve(spec_of(source, registry), registry)
    cls = plan.architecture.part
    with torch.device("meta"):
        model = Model(plan, provenance_of(plan, registry))
    outputs = {each.name: _bracket(each.dims) for each in model.signature.outputs}

    def piece(planned: Planned, **more: Any) -> Piece:
        return _piece(planned, registry, **more)

    def at(place: str) -> tuple[Piece, ...]:
        here = (each for each in plan.positions if place in each.part.places() and place in cls.places)
        return tuple(piece(each, notes=(place,)) for each in here)

    def operators(planned: Sequence[PlannedOperator]) -> tuple[Piece, ...]:
        return tuple(piece(each, **_reads_and_writes(each, plan)) for each in planned)

    layers = []
    for layer, alike in groupby(plan.layers):
        # Where no relation is kept, those that write some stand before those that read them.
        mixing = sorted(layer.mixing, key=lambda each: cls.branches == "U" and each.part.typing[0] != "B")
        count = len([*alike])
        layers.append(Layer(count=count, mixing=operators(mixing), state=operators(layer.state)))
    sizes = plan.dims.known()
    if not any(issubclass(each.part, RecurrentOperator) for each in plan.mixing):
        sizes.pop("recurrent", None)
    cycles = plan.dims.layers // len(plan.layers)
    if len(layers) == 1:
        layers, cycles = [evolve(layers[0], count=plan.dims.layers)], 1
    names = (f".{name}" for name, _ in model.network.named_parameters() if "encoder." not in name)
    deep = {name.partition(".layers.")[2].partition(".")[0] for name in names if ".layers." in name}
    return Contents(
        name=plan.spec.name,
        architecture=piece(plan.architecture, reads=(("U", str(plan.dims.unary), ""),)),
        branches=cls.branches,
        sizes={name: f"{size:,}" for name, size in sizes.items()} | {"scope": plan.scope.kind},
        inputs=tuple(f"{each.name} {_bracket(each.dims)}" for each in model.signature.inputs),
        outputs={name: dims for name, dims in outputs.items() if name in ("unary", "binary", "pooled")},
        tokens=tuple(piece(each) for each in plan.augmenters) + at("unary"),
        pairs=at("binary"),
        scopes=at("scope"),
        inside=at("pair") + at("rotary"),
        layers=tuple(layers),
        cycles=cycles,
        decoder=len(deep) if cls.rows != "length" else 0,
        heads=tuple(_head(each, piece, outputs) for each in plan.heads),
    )


def _bracket(dims: Iterable[object]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _piece(planned: Planned, registry: Registry, **more: Any) -> Piece:
    entry = registry.entry(planned.kind, planned.name)
    options, given = {}, {}
    for each in attrs.fields(type(planned.options)):
        value = getattr(planned.options, each.name)
        options[each.name] = str(value).lower() if isinstance(value, bool) else repr(value)
        default = each.default.factory() if isinstance(each.default, attrs.Factory) else each.default  # type: ignore[arg-type]
        if value != default:
            given[each.name] = options[each.name]
    activation = getattr(planned, "activation", "none")
    if activation != "none":
        given["activation"] = options["activation"] = activation
    return Piece(
        kind=planned.kind.removesuffix("s"), name=planned.name,
        plugin=entry.plugin, options=options, given=given, **more,
    )  # fmt: skip


def _reads_and_writes(planned: PlannedOperator, plan: Plan) -> dict[str, Any]:
    """What an operator reads and writes. One with parameters of its own says it by its typing alone."""
    written, _, read = planned.part.typing.partition(" <- ")
    if planned.output is not None:
        reads = tuple((r.branch, _channels(r.shape), name) for name, r in planned.readings.items())
        writes: tuple[tuple[str, str, str], ...] = (
            (planned.output.branch, _channels(planned.output.shape), ""),
        )
    else:
        widths = {"U": plan.dims.unary, "B": plan.dims.binary}
        kept = [branch for branch in plan.architecture.part.branches if branch in read]
        named = "tokens" if issubclass(planned.part, RecurrentOperator) else ""
        reads = tuple((branch, str(widths[branch]), named) for branch in kept)
        writes = tuple((branch, str(widths[branch]), "") for branch in kept if branch in written)
    return {"typing": planned.part.typing, "reads": reads, "writes": writes,
            "pair": planned.part.pair or "" if planned.operator else ""}  # fmt: skip


def _channels(shape: Mapping[str, int]) -> str:
    return "×".join(map(str, shape.values()))


def _head(planned: PlannedHead, piece: Callable[..., Piece], outputs: Mapping[str, str]) -> Piece:
    prefix = planned.prefix
    outputs_of_head = tuple(
        f"{name} {dims}" for name, dims in outputs.items() if f"{name}_".startswith(f"{prefix}_")
    )
    needs = planned.part.needs & {"pooled", "binary"}
    reads = [("B", "", "binary")] * ("binary" in needs) + [("U", "", "pooled")] * ("pooled" in needs)
    found: Piece = piece(planned, reads=tuple(reads) or (("U", "", "unary"),), notes=outputs_of_head)
    return found if prefix == planned.name else evolve(found, name=f"{planned.name} as {prefix}")


def compare_contents(new: Contents, old: Contents) -> Contents:
    """The new contents with each difference from the old marked; removed parts stay in their places."""
    fields = ("tokens", "pairs", "scopes", "inside", "heads")
    sides: dict[str, Any] = {name: _align_pieces(getattr(new, name), getattr(old, name)) for name in fields}
    sizes = {name: new.sizes.get(name, "none") for name in {**new.sizes, **old.sizes}}
    before = {name: old.sizes.get(name, "none") for name in sizes}
    layers = []
    for ours, theirs in zip_longest(new.layers, old.layers):
        layer = ours or theirs
        was = theirs.count if theirs is not None else 0
        layers.append(Layer(
            count=ours.count if ours is not None else 0,
            mixing=_align_pieces(ours.mixing if ours else (), theirs.mixing if theirs else ()),
            state=_align_pieces(ours.state if ours else (), theirs.state if theirs else ()),
            was=None if was == layer.count and ours is not None else was,
        ))  # fmt: skip
    (architecture,) = _align_pieces(
        (new.architecture,), (evolve(old.architecture, name=new.architecture.name),)
    )
    if old.architecture.name != new.architecture.name:
        change = f"architecture {new.architecture.name}, was {old.architecture.name}"
        architecture = evolve(new.architecture, status=CHANGED, changes=(change,))
    return evolve(
        new, **sides, architecture=architecture, layers=tuple(layers), sizes=sizes, other=old.name,
        branches=max(new.branches, old.branches, key=len),
        before={name: value for name, value in before.items() if value != sizes[name]},
    )  # fmt: skip


def _align_pieces(new: tuple[Piece, ...], old: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Both sides' parts in one order, each with its status."""
    found: list[Piece] = []
    before, now = ([(each.kind, each.name) for each in side] for side in (old, new))
    for tag, a, z, b, y in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if tag == "equal":
            found += [_mark_changes(ours, theirs) for ours, theirs in zip(new[b:y], old[a:z], strict=True)]
        else:
            found += [evolve(each, status=GONE) for each in old[a:z]]
            found += [evolve(each, status=ADDED) for each in new[b:y]]
    return tuple(found)


def _mark_changes(ours: Piece, theirs: Piece) -> Piece:
    changes = [
        f"{name} = {ours.options.get(name, 'none')}, was {theirs.options.get(name, 'none')}"
        for name in {**ours.options, **theirs.options}
        if ours.options.get(name) != theirs.options.get(name)
    ]
    if ours.plugin != theirs.plugin:
        changes.append(f"of {ours.plugin}, was of {theirs.plugin}")
    if ours.typing != theirs.typing:
        changes.append(f"{ours.typing}, was {theirs.typing}")
    return evolve(ours, status=CHANGED, changes=tuple(changes)) if changes else ours
