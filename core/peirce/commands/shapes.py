"""The shapes of a part's tensors by the names of sizes, from the part built once at sizes that all differ."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

import attrs
import torch

from peirce.compose import build
from peirce.errors import SpecError
from peirce.parts import (
    Augmenter,
    Dims,
    Position,
    PureOperator,
    Reader,
    RecurrentOperator,
    StateOperator,
    TensorSpec,
    Weight,
    Writer,
    axes_of,
)
from peirce.spec import (
    InputSpec,
    OperatorSpec,
    OperatorsSpec,
    ScopeKind,
    ScopeSpec,
    Spec,
    structure,
    structure_value,
)

if TYPE_CHECKING:
    from peirce.registry import Registry

_DIMS = Dims(
    layers=3, unary=22 * 26, binary=22 * 10, heads=22, head_size=26, feedforward_unary=22 * 31,
    feedforward_binary=22 * 37, pooled=22 * 47, recurrent=22 * 53, vocabulary=97, token_types=5, max_length=41,
    dropout=0.0,
)  # fmt: skip
_NAMES = {size: name for name, size in _DIMS.known().items() if size > 20}

_EACH = "b or 1"
_PLACES: dict[str, tuple[str, list[str], str]] = {
    "unary": ("unary", [_EACH, "x", "unary"], "added to the unary atoms at the input"),
    "binary": ("binary", [_EACH, "x", "y", "binary"], "the initial binary atoms"),
    "pair": ("pairs", [_EACH, "x", "y"], "what is added to the scores and the values of each pair"),
    "rotary": (
        "rotations",
        [_EACH, "x", "w"],
        "the angles that queries and keys are turned by, as cos and sin",
    ),
    "scope": ("scope", [_EACH, "x", "a"], "bool: whether x may attend to a"),
}
"""The tensor that a position returns at each place: its name, shape and meaning."""


def shapes(kind: str, part: type[Any], registry: Registry) -> list[dict[str, str]]:
    """Name, shape and notes of each tensor that a part reads, writes or needs, with the options of its `example`.

    An architecture shows the inputs and outputs of a model of it without positions and heads. A part that cannot be
    built so gives none, and neither does one of a kind whose tensors depend on data.
    """
    with suppress(Exception):  # a part that refuses these sizes is described by its options alone
        if kind == "architectures":
            return _model_tensors(part, registry)
        if kind in ("operators", "positions", "augmenters", "heads"):
            return _part_tensors(part(structure_value(part.Options, part.example), _DIMS))
    return []


def _part_tensors(part: Any) -> list[dict[str, str]]:
    if isinstance(part, PureOperator):
        ends: dict[str, Reader | Writer] = {**part.readings(), "output": part.output()}
        weights = (
            _tensor(name, [*weight.shape], f"learned, {_first_values(weight)} at first")
            for name, weight in part.weights().items()
        )
        return [*(_end(part, name, end) for name, end in ends.items()), *weights]
    if isinstance(part, StateOperator):
        notes = "read, and its increment written"
        both = {"unary": ["b", "x", "unary"], "binary": ["b", "x", "y", "binary"]}
        return [_tensor(name, shape, notes) for name, shape in both.items()]
    if isinstance(part, RecurrentOperator):
        states = [
            _tensor(f"state {name}", ["b", *map(_size_name, value.shape)], "carried from token to token")
            for name, value in part.initial().items()
        ]
        output = _tensor("output", ["b", "x", "recurrent"], "given")
        return [_tensor("atoms", ["b", "x", "unary"], "read"), *states, output]
    inputs = [_declared("input", spec) for spec in part.inputs()]
    if isinstance(part, Position):
        return [*inputs, *(_tensor(*_PLACES[place]) for place in part.places())]
    if isinstance(part, Augmenter):
        return [*inputs, _tensor("embeddings", ["b", "x", "unary"], "read, and returned changed")]
    return inputs + [_declared("output", spec) for spec in part.outputs()]


def _first_values(weight: Weight) -> str:
    return f"{weight.initial:g}" + (f" with a spread of {weight.spread:.4g}" if weight.spread else "")


def scope_for(part: type[Any]) -> ScopeKind:
    """The first kind of scope that an architecture takes with its example options."""
    options = structure(part.Options, part.example, where=str, label="option")
    kinds: tuple[ScopeKind, ...] = get_args(ScopeKind) if part.scope is None else ()
    return next((kind for kind in kinds if part.check_scope(options, kind) is None), "bidirectional")


def _model_tensors(part: type[Any], registry: Registry) -> list[dict[str, str]]:
    """The inputs and outputs of a model without storage, with a single operator where the default layer is refused."""
    known = _DIMS.known() | {"feedforward": _DIMS.feedforward_unary}
    fields = attrs.fields(part.Dims)
    sizes = {f.name: known.get(f.name, 4) for f in fields if f.name in known or f.default is attrs.NOTHING}
    tokens = InputSpec(vocabulary=97, token_types=5, max_length=41)
    spec = Spec(
        name="example", architecture=part.name, dims=sizes, options=dict(part.example), input=tokens,
        scope=ScopeSpec(kind=scope_for(part)),
    )  # fmt: skip
    for layer in (None, *((OperatorSpec(use=name),) for name in registry.names("operators"))):
        with suppress(SpecError), torch.device("meta"):
            layered = attrs.evolve(spec, operators=OperatorsSpec(layer=layer))
            given = build(layered, registry=registry).signature
            inputs = [_declared("input", tensor) for tensor in given.inputs]
            return inputs + [_declared("output", tensor) for tensor in given.outputs]
    return []


def _declared(side: str, spec: TensorSpec) -> dict[str, str]:
    notes: str = spec.dtype
    if side == "input":
        absent = "" if spec.default is None else f", {spec.default} where absent"
        notes += ", required" if spec.required else f", optional{absent}"
    notes += f": {spec.meaning}" if spec.meaning else ""
    return _tensor(f"{side} {spec.name}", [_size_name(dim) for dim in spec.dims], notes)


def _size_name(size: int | str) -> int | str:
    """The name of a size; the size itself where it has none."""
    return _NAMES.get(size, size) if isinstance(size, int) else size


def _end(part: PureOperator, name: str, end: Reader | Writer) -> dict[str, str]:
    shape = [f"{axis}={_NAMES[size]}" if size in _NAMES else axis for axis, size in end.shape.items()]
    return _tensor(name, ["b", *axes_of(part, end), *shape], _notes(end))


def _notes(end: Reader | Writer) -> str:
    branch = "unary" if end.branch == "U" else "binary"
    notes = [f"{'written to' if isinstance(end, Writer) else 'read from'} {branch} atoms"]
    notes += ["with bias"] if end.bias else []
    if isinstance(end, Reader):
        notes += [f"{end.activation} over the scope"] if end.activation != "none" else []
        notes += ["dropout"] if end.dropout else []
        notes += [f"scaled by {end.scale:.4g} at head_size {_DIMS.head_size}"] if end.scale != 1.0 else []
    return ", ".join(notes)


def _tensor(name: str, shape: list[Any], notes: str) -> dict[str, str]:
    return {"name": name, "shape": f"[{', '.join(map(str, shape))}]", "notes": notes}
