"""Why a part does not fit an architecture, or an operator its own declaration: a clause; None where it fits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

import torch

from peirce.algebra import Scope
from peirce.parts import (
    Architecture,
    PlannedOperator,
    Reader,
    RecurrentOperator,
    ScopePosition,
    SharedReader,
    Weight,
    Writer,
    typing_of,
)

if TYPE_CHECKING:
    from peirce.compose.finding import PartFinder

_NO_PROJECTIONS = torch.nn.Module()
"""The container of an operator's projections, empty: no reading may be called as one of its attributes."""


def operator_misfit(
    part: type[Any], architecture: type[Architecture], scope: str, finder: PartFinder
) -> str | None:
    """Why an architecture has no use for an operator in a kind of scope."""
    entries, owner = finder.registry.entries, f"architecture {architecture.name!r}"
    if not issubclass(part, RecurrentOperator):
        if not architecture.recurrent:
            return None
        known = [e.name for e in entries("operators") if issubclass(e.part, RecurrentOperator)]
        return f"a layer of {owner} is a recurrent operator: {', '.join(known) or 'none'}"
    if architecture.recurrent:
        return None
    if not architecture.heterogeneous:
        known = [e.name for e in entries("architectures") if e.part.recurrent or e.part.heterogeneous]
        return f"it is recurrent, and {owner} is not; {', '.join(known) or 'none'} would be"
    if scope == "relation":
        return "it reads every token before a token, and the scope 'relation' may forbid some of them"
    for position in finder.spec.positions:
        if issubclass(finder.part_class("positions", position.use, "model.positions"), ScopePosition):
            return (
                f"it reads every token before a token, and position {position.use!r} may forbid some of them; "
                "leave one of the two out"
            )
    return None


def position_misfit(part: type[Any], architecture: type[Architecture], attends: frozenset[str]) -> str | None:
    """Why a position has nowhere to act; `attends` is where the layers' attention takes terms (`PureOperator.pair`)."""
    owner = f"architecture {architecture.name!r}"
    offered = [place for place in part.places() if place in architecture.places]
    if not offered:
        places = (
            f"the places {', '.join(sorted(architecture.places))}" if architecture.places else "no places"
        )
        return f"it acts at {' and '.join(part.places())}, and {owner} has {places}"
    served = {"attention", "score"} | ({"value"} if "pair" in offered else set())
    if {*offered} - {"pair", "rotary"} or served & attends:
        return None
    does = (
        "scores pairs or sums values, as assoc and join do"
        if "value" in served
        else "scores pairs, as assoc does"
    )
    return f"it acts inside attention, and no operator of the layer {does}; {owner} has no attention of its own either"


def head_misfit(part: type[Any], architecture: type[Architecture], gives: frozenset[str]) -> str | None:
    """Why a head lacks something that it needs; `gives` is what the network offers."""
    lacking = sorted(part.needs - gives)
    if "past" in lacking:
        return 'it predicts the next token, which this scope shows it; set model.scope.kind to "causal" or "prefix"'
    if lacking:
        needed = f"it needs the output {' and '.join(lacking)}"
        return f"{needed}, which architecture {architecture.name!r} does not give with these options"
    return None


def _has_map_like(one: Reader, other: Reader) -> bool:
    return (one.branch, one.shape, one.bias) == (other.branch, other.shape, other.bias)


def declaration_mismatch(planned: PlannedOperator, finder: PartFinder) -> str | None:
    """Where an operator's typing, channels and equation disagree; `infer` is run once on shapes without storage."""
    operator, output = planned.operator, planned.output
    # An author's code gave them, so their types are those that it should have given.
    readings, weights = (cast(Mapping[Any, Any], each) for each in (planned.readings, planned.weights))
    assert operator is not None
    ends = [(name, reader, Reader) for name, reader in readings.items()]
    learned = [(name, weight, Weight) for name, weight in weights.items()]
    for name, end, kind in (*ends, *learned, ("output", output, Writer)):
        if not isinstance(end, kind):
            return f"its {name} must be a {kind.__name__}, not {end!r}"
    assert output is not None
    for name in map(str, (*readings, *weights)):
        if not re.fullmatch("(?!output$|source_)[a-z][a-z0-9_]*", name) or hasattr(_NO_PROJECTIONS, name):
            words = (
                "a lower-case word, neither 'output' nor 'source_...', and no attribute of torch's modules"
            )
            return f"its {'weight' if name in weights else 'reading'} {name!r} needs another name: {words}"
    names = [*readings]
    for i, (name, reader) in enumerate(readings.items()):
        if isinstance(reader, SharedReader):
            likes = [other for other in names[:i] if _has_map_like(readings[other], reader)]
            if reader.shares not in likes:
                there = f"of that branch, shape and bias there is {', '.join(likes) or 'none before it'}"
                return f"its {name} shares the map of the reading {reader.shares!r}; {there}"
    if both := sorted({*readings} & {*weights}):
        return f"{both[0]!r} is a reading and a weight; give one of them another name"
    typing = typing_of(readings, output)
    if operator.typing != typing:
        reads = ", ".join(f"{name} of {reader.branch}" for name, reader in readings.items())
        return (
            f"it declares the typing {operator.typing!r}, but its readings ({reads or 'none'}) and its output of "
            f"{output.branch} make {typing!r}"
        )
    shapes: dict[str, list[int]] = {}
    every = {**readings, **weights, "output": output}
    for role, end in every.items():
        for name, size in end.shape.items():
            if size < 1 and role not in weights and end.branch == "B" and not operator.dims.binary:
                known = [e.name for e in finder.registry.entries("architectures") if e.part.branches == "UB"]
                return (
                    f"its {role} has {size} channels {name!r}, since architecture {operator.dims.architecture!r} keeps "
                    f"no relations; set model.architecture to one that does: {', '.join(known) or 'none is there'}"
                )
            if size < 1:
                return f"its {role} has {size} channels {name!r} at these dims"
        tokens = [] if role in weights else [2, 3] if end.branch == "U" else [2, 3, 3]
        shapes[role] = [*tokens, *end.shape.values()]
    declared = shapes.pop("output")
    called = (*shapes, "scope")
    try:
        signature(operator.infer).bind(*called)
    except TypeError:
        takes = ", ".join(signature(operator.infer).parameters)
        given = f"({', '.join(called)}), its readings, its weights and the scope"
        return f"its infer takes ({takes}), and is called with {given}"
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
