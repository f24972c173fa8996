"""What a part declares agrees with itself and with what the part gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
import torch

from peirce.model import Task
from peirce.parts import (
    PLACES,
    SUPPORTED_API,
    Architecture,
    Dims,
    Head,
    Operator,
    Position,
    RecurrentOperator,
    StateOperator,
)
from peirce.registry import KINDS
from peirce.testing.check import NETWORK, Case, check, expected_failures
from peirce.testing.compare import BrokenError
from peirce.testing.examples import BASE, PADDED, SCOPE_KINDS, Example, plain_view
from peirce.testing.harness.architectures import ArchitectureHarness
from peirce.testing.harness.base import Harness, size_of
from peirce.testing.harness.sized import PositionHarness
from peirce.testing.options import example_options
from peirce.testing.tiny_models import sizes_of

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
"""The dtypes that a model may have."""
_MUTABLE = (list, dict, set, bytearray, torch.Tensor, np.ndarray)

Findings = dict[str, object]
"""What is said of a part, and whether that is a finding: true if it is wrong."""


@check(*KINDS)
def declaration(case: Case) -> None:
    """What a part declares (name, api, Options, typing, mask contract, expected failures) holds together. The class
    attributes, and what the part says about itself at the example sizes.
    """
    part, found = case.part, _general(case.part)
    findings: tuple[tuple[Any, Callable[[Any], Findings]], ...] = (
        (Operator | StateOperator | RecurrentOperator, _operator), (Position, _position), (Head, _head),
        (Architecture, _architecture),
    )  # fmt: skip
    for base, of_base in findings:
        if issubclass(part, base):
            found |= of_base(part)
    if wrong := [said for said, is_wrong in found.items() if is_wrong]:
        raise BrokenError("\n".join(wrong))


def _general(part: type[Any]) -> Findings:
    from peirce.testing.checks import CHECKS

    names = [each.name for each in CHECKS]
    fields = attrs.fields(part.Options)
    taken = [f.name for f in fields if f.name in ("use", "as")]
    found: Findings = {
        f"name = {part.name!r} is not of the form [a-z][a-z0-9_]*": not re.fullmatch(
            "[a-z][a-z0-9_]*", part.name
        ),
        f"api = {part.api!r} is none of {list(SUPPORTED_API)}": part.api not in SUPPORTED_API,
        "the class has no docstring, which `peirce describe` shows": not (part.__doc__ or "").strip(),
        f"Options has the fields {taken}, which a spec keeps for itself": taken,
        f"expected_failures = {part.expected_failures!r} maps no checks to reasons": not isinstance(
            part.expected_failures, Mapping
        ),
    }
    # The options of a task may need the files of `example_in`.
    if not issubclass(part, Task) or all(
        f.default is not attrs.NOTHING or f.name in part.example for f in fields
    ):
        one, two = example_options(part), example_options(part)
        found["two Options made from the same values are not equal"] = one != two and not issubclass(
            part, Task
        )
        for name in (f.name for f in fields):
            said = f"the default of the option {name!r} is one object that all parts share; use factory="
            found[said] = getattr(one, name) is getattr(two, name) and isinstance(
                getattr(one, name), _MUTABLE
            )
    for name, reason in expected_failures(part).items():
        said = f"expected_failures names {name!r}, which is no check; checks are {', '.join(names)}"
        found[said] = name not in names
        found[f"expected_failures gives no reason for {name!r}"] = not (
            isinstance(reason, str) and reason.strip()
        )
    return found


def _position(part: type[Position]) -> Findings:
    known = [base.__name__ for base in PLACES.values()]
    served = [place for place, base in PLACES.items() if issubclass(part, base)]
    return {
        f"places() answers {list(part.places())}, and its base classes serve {served}": list(part.places())
        != served,
        f"it serves no place: subclass one of {', '.join(known)}": not served,
    }


def _head(part: type[Head]) -> Findings:
    unknown = sorted(set(part.needs) - {"pooled", "binary", "past"})
    return {f"needs = {unknown} is none of pooled, binary and past": unknown}


def _operator(part: type[Any]) -> Findings:
    options = example_options(part)
    answers = {kind: part.check(options, BASE, kind) for kind in SCOPE_KINDS}
    rules = ("causal",) if issubclass(part, RecurrentOperator) else ("reduce", "pairwise", "none")
    found: Findings = {
        f"check answers {answer!r} for the scope {kind!r}: a reason in words, or None": not (
            answer is None or (isinstance(answer, str) and answer)
        )
        for kind, answer in answers.items()
    }
    refused = f"check refuses every kind of scope at its example options: {answers[SCOPE_KINDS[0]]}"
    found[refused] = None not in answers.values()
    found[f"scope_rule = {part.scope_rule!r} is none of {', '.join(rules)}"] = part.scope_rule not in rules
    letter = part.letter is None or re.fullmatch("[a-z]", part.letter)
    found[f"letter = {part.letter!r} is not one of a to z"] = not letter
    return found | (_typing(part, part(options, BASE)) if issubclass(part, Operator) else {})


def _typing(part: type[Operator], made: Operator) -> Findings:
    kernel, premise, output = made.kernel(), made.premise(), made.output()
    typing = f"{output.branch} <- {kernel.branch} x {premise.branch}"
    rule, sums = part.scope_rule, (output.branch, kernel.branch, kernel.activation) == ("U", "B", "softmax")
    softmax = "softmax" in (kernel.activation, premise.activation)
    return {
        f"typing = {part.typing!r}, and its kernel, premise and output make {typing!r}": part.typing
        != typing,
        f"its premise has the activation {premise.activation!r}; only kernels have one": premise.activation
        != "none",
        f"scope_rule = {rule!r}, and a kernel normalised over tokens is there to be reduced": softmax
        and rule != "reduce",
        "scope_rule = 'pairwise' gives each pair, and the output is unary": rule == "pairwise"
        and output.branch != "B",
        f"scope_rule = 'none' gives each token from itself alone, and the typing is {typing!r}": rule
        == "none"
        and typing != "U <- U x U",
        f"pair = 'score' is for a score of two tokens, B <- U x U, and the typing is {typing!r}": part.pair
        == "score"
        and typing != "B <- U x U",
        "pair = 'value' is for a sum with normalised binary kernels into unary atoms": part.pair == "value"
        and not sums,
    }


def _architecture(part: type[Architecture]) -> Findings:
    given = part.sizes(example_options(part), part.Dims(**sizes_of(part)))
    unknown = sorted(set(given) - {field.alias for field in attrs.fields(Dims)})
    places = ", ".join(PLACES)
    return {
        **{f"places has {each!r}, which is none of {places}": True for each in part.places - set(PLACES)},
        f"branches = {part.branches!r} is neither U nor UB": part.branches not in ("U", "UB"),
        "places has 'binary', and branches = 'U' keeps no binary atoms": "binary" in part.places
        and part.branches == "U",
        f"sizes gives {', '.join(unknown)}, which peirce.parts.base.Dims does not have": unknown,
    }


@check(*NETWORK)
def shapes(harness: Harness, example: Example) -> None:
    """The outputs have the names, the order and the shapes that the part declares. Every size of every axis; positions
    may leave the batch axis at 1.
    """
    view, made = example.view, harness.make()
    network = isinstance(harness, ArchitectureHarness)
    axes: dict[Any, int] = {"batch": view.batch, "length": view.length}
    for slot, tensor in harness.raw(made, harness.draw(view, example.generator()), view):
        width = getattr(made[view.kind].plan.dims, slot.name, None) if network else None
        if width not in (None, slot.axes[-1]):
            said = f"{slot.name} is {slot.axes[-1]} wide, and sizes says {width}, which heads are built for"
            raise BrokenError(said)
        shape = [size_of(axis, axes) for axis in slot.axes]
        one_for_all = isinstance(harness, PositionHarness) and list(tensor.shape) == [1, *shape[1:]]
        if list(tensor.shape) != shape and not one_for_all:
            said = f"{slot.name} has the shape {list(tensor.shape)}, and {list(slot.axes)} makes {shape}"
            raise BrokenError(said)


@check(*NETWORK)
def dtypes(harness: Harness) -> None:
    """A part computes in the dtype that it is given: float64, float32, bfloat16 or float16. Floats in the model's
    dtype, integers and booleans as declared.
    """
    view = plain_view(harness.kinds[0], 2, 4, PADDED)
    for dtype in FLOATS:
        made = harness.make(dtype=dtype)
        for slot, tensor in harness.raw(made, harness.draw(view, 1, dtype), view):
            wanted = {"float": dtype, "int64": torch.int64, "bool": torch.bool}[slot.dtype]
            if tensor.dtype != wanted:
                said = f"{slot.name} is {tensor.dtype} where the model is {dtype}; expected {wanted}"
                raise BrokenError(said)
