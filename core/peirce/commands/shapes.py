"""The shapes of a part's tensors with symbolic sizes, found by building the part at two sets of sizes."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs
import torch

from peirce.compose import build, resolve
from peirce.errors import SpecError
from peirce.parts import (
    Augmenter,
    Dims,
    Head,
    Operator,
    Place,
    Position,
    Reader,
    RecurrentOperator,
    StateOperator,
    TensorSpec,
    Writer,
)
from peirce.spec import CONVERTER, InputSpec, OperatorSpec, OperatorsSpec, Spec, freeze

if TYPE_CHECKING:
    from peirce.registry import Registry

# Every size is distinct, and so are the usual products and quotients; heads divides every width.
_SMALL = (
    Dims(
        layers=3, unary=6 * 14, binary=6 * 10, heads=6, head_size=14, feedforward_unary=6 * 31,
        feedforward_binary=6 * 37, pooled=6 * 47, recurrent=6 * 53,
        vocabulary=97, token_types=5, max_length=41, dropout=0.0,
    ),
    Dims(
        layers=5, unary=4 * 22, binary=4 * 26, heads=4, head_size=22, feedforward_unary=4 * 43,
        feedforward_binary=4 * 47, pooled=4 * 59, recurrent=4 * 61,
        vocabulary=89, token_types=7, max_length=53, dropout=0.0,
    ),
)  # fmt: skip
_SIZES = (
    "unary", "binary", "heads", "head_size", "feedforward_unary", "feedforward_binary", "vocabulary",
    "pooled", "recurrent", "layers", "token_types", "max_length",
)  # fmt: skip


def shapes(kind: str, part: type[Any], registry: Registry) -> list[dict[str, str]]:
    """Name, shape and notes of each tensor that a part reads, writes or needs, with the options of its `example`.

    An architecture shows the inputs and outputs of a model of it without positions and heads. A part that cannot be
    built so gives none, and neither does one of a kind whose tensors depend on data.
    """
    if kind not in ("operators", "positions", "augmenters", "heads", "architectures"):
        return []
    try:
        if kind == "architectures":
            first, second = (_model_tensors(part, dims, registry) for dims in _SMALL)
        else:
            options = CONVERTER.structure(freeze(dict(part.example)), part.Options)
            first, second = (_tensors(part(options, dims), dims) for dims in _SMALL)
    except Exception:
        # The part refuses these sizes, or nothing registered completes it; its options say more than a guess would.
        return []
    if [(name, len(sizes)) for name, sizes, _ in first] != [(name, len(sizes)) for name, sizes, _ in second]:
        return []
    return [
        {
            "name": name,
            "shape": "[" + ", ".join(_axis(one, two) for one, two in zip(sizes, others, strict=True)) + "]",
            "notes": notes,
        }
        for (name, sizes, notes), (_, others, _) in zip(first, second, strict=True)
    ]


# The tokens that index each end of an operator: x and y are those of the result, and a is summed over.
_PLACES: dict[str, dict[str, dict[str, str]]] = {
    "reduce": {
        "kernel": {"U": "a", "B": "xa"},
        "premise": {"U": "a", "B": "ay"},
        "output": {"U": "x", "B": "xy"},
    },
    "pairwise": {
        "kernel": {"U": "x", "B": "xy"},
        "premise": {"U": "y", "B": "xy"},
        "output": {"U": "x", "B": "xy"},
    },
    "none": {
        "kernel": {"U": "x", "B": "xy"},
        "premise": {"U": "x", "B": "xy"},
        "output": {"U": "x", "B": "xy"},
    },
}
_Axis = tuple[str, int | str]
_Tensor = tuple[str, list[_Axis], str]
"""Name, axes (each a letter and a size) and notes."""


def _tensors(part: Any, dims: Dims) -> list[_Tensor]:
    """What a part reads and gives, by the contract of its kind."""
    if isinstance(part, Operator):
        ends: dict[str, Reader | Writer] = {
            "kernel": part.kernel(),
            "premise": part.premise(),
            "output": part.output(),
        }
        places = _PLACES[part.scope_rule]
        if part.scope_rule == "reduce" and part.output().branch == "U":
            places = places | {"premise": {"U": "a", "B": "xa"}}
        return [(name, _axes(end, places[name][end.branch]), _notes(end)) for name, end in ends.items()]
    if isinstance(part, StateOperator):
        notes = "read, and its increment written"
        return [
            ("unary", _tokens("b", "x", dims.unary), notes),
            ("binary", _tokens("b", "xy", dims.binary), notes),
        ]
    if isinstance(part, RecurrentOperator):
        states: list[_Tensor] = [
            (f"state {name}", [("", "b"), *(("", size) for size in value.shape)], "kept from token to token")
            for name, value in part.initial().items()
        ]
        output = ("output", _tokens("b", "x", dims.recurrent), "given")
        return [("atoms", _tokens("b", "x", dims.unary), "read"), *states, output]
    assert isinstance(part, Position | Augmenter | Head)
    tensors = [_declared("input", spec) for spec in part.inputs()]
    if isinstance(part, Position):
        return tensors + [_given(place, dims) for place in part.places()]
    if isinstance(part, Augmenter):
        return [*tensors, ("embeddings", _tokens("b", "x", dims.unary), "read, and given back changed")]
    return tensors + [_declared("output", spec) for spec in part.outputs()]


def _model_tensors(part: type[Any], dims: Dims, registry: Registry) -> list[_Tensor]:
    """What a model of an architecture reads and gives, composed without storage."""
    known = dims.known() | {"feedforward": dims.feedforward_unary}
    sizes = {
        field.name: known.get(field.name, 4)
        for field in attrs.fields(part.Dims)
        if field.name in known or field.default is attrs.NOTHING
    }
    tokens = InputSpec(
        vocabulary=dims.vocabulary,
        token_types=dims.token_types,
        max_length=dims.max_length,
        pad_id=dims.pad_id,
    )
    spec = Spec(name="example", architecture=part.name, dims=sizes, options=dict(part.example), input=tokens)
    with torch.device("meta"):
        signature = build(_accepted(spec, registry), registry=registry).signature
    return [
        *(_declared("input", tensor) for tensor in signature.inputs),
        *(_declared("output", tensor) for tensor in signature.outputs),
    ]


def _accepted(spec: Spec, registry: Registry) -> Spec:
    """The spec; or one operator that needs no options, where the default layer needs some in the architecture's scope.

    Raises:
        SpecError: no operator alone is accepted either.
    """
    try:
        resolve(spec, registry)
        return spec
    except SpecError as error:
        refused = error
    for name in registry.names("operators"):
        trial = attrs.evolve(spec, operators=OperatorsSpec(layer=(OperatorSpec(use=name),)))
        with suppress(SpecError):
            resolve(trial, registry)
            return trial
    raise refused


def _declared(side: str, spec: TensorSpec) -> _Tensor:
    return f"{side} {spec.name}", [("", dim) for dim in spec.dims], _meaning(spec)


def _given(place: Place, dims: Dims) -> _Tensor:
    """What a position gives at a place."""
    if place == "unary":
        return "unary", _tokens("b or 1", "x", dims.unary), "added to the unary atoms at the input"
    if place == "binary":
        return "binary", _tokens("b or 1", "xy", dims.binary), "the initial binary atoms"
    if place == "pair":
        return (
            "pairs",
            _tokens("b or 1", "xy"),
            "the bucket of each pair in the tables of keys, values and scores",
        )
    return "scope", _tokens("b or 1", "xa"), "bool: whether x may look at a"


def _axes(end: Reader | Writer, tokens: str) -> list[_Axis]:
    return [*_tokens("b", tokens), *end.shape.items()]


def _tokens(batch: str, tokens: str, *width: int) -> list[_Axis]:
    return [("", batch), *(("", token) for token in tokens), *(("", size) for size in width)]


def _notes(end: Reader | Writer) -> str:
    branch = "unary" if end.branch == "U" else "binary"
    if isinstance(end, Writer):
        return f"written to {branch} atoms" + (", with bias" if end.bias else "")
    notes = [f"read from {branch} atoms"]
    if end.bias:
        notes.append("with bias")
    if end.activation != "none":
        notes.append(f"{end.activation} over the scope")
    if end.dropout:
        notes.append("dropout")
    if end.scale != 1.0:
        notes.append(f"scaled by {end.scale:.4g} at head_size {_SMALL[0].head_size}")
    return ", ".join(notes)


def _meaning(spec: TensorSpec) -> str:
    return f"{spec.dtype}: {spec.meaning}" if spec.meaning else spec.dtype


def _axis(one: _Axis, two: _Axis) -> str:
    letter, size = one
    if isinstance(size, str) or isinstance(two[1], str):
        return str(size)
    symbol = _symbol(size, two[1])
    return f"{letter}={symbol}" if letter else symbol


def _symbol(size: int, other: int) -> str:
    """The size that is `size` at the first dims and `other` at the second, in terms of the dims' names."""
    if size == other:
        return str(size)
    one, two = _SMALL
    candidates = [(name, float(getattr(one, name)), float(getattr(two, name))) for name in _SIZES]
    for name, at_first, at_second in candidates:
        if (at_first, at_second) == (size, other):
            return name
    for factor in (2, 4):
        for name, at_first, at_second in candidates:
            if (at_first * factor, at_second * factor) == (size, other):
                return f"{factor} * {name}"
            if (at_first / factor, at_second / factor) == (size, other):
                return f"{name} / {factor}"
    for (left, *a), (right, *b) in itertools.permutations(candidates, 2):
        if (a[0] / b[0], a[1] / b[1]) == (size, other):
            return f"{left} / {right}"
        if (a[0] * b[0], a[1] * b[1]) == (size, other):
            return f"{left} * {right}"
    return f"{size} (at heads {_SMALL[0].heads})"
