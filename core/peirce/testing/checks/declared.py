"""What a part declares agrees with itself and with what the part gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
from peirce.testing.check import (
    NETWORK,
    Case,
    check,
    check_each,
    check_examples,
    expected_failures,
)
from peirce.testing.compare import BrokenError
from peirce.testing.examples import BASE, PADDED, SCOPE_KINDS, Example, plain_view
from peirce.testing.harness import ArchitectureHarness, Harness, PositionHarness
from peirce.testing.harness.base import size_of
from peirce.testing.options import example_options
from peirce.testing.tiny_models import SIZES

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
"""The dtypes that a model may have."""


@check(
    *KINDS,
    contract="what a part declares (name, api, Options, typing, mask contract, expected failures) holds together",
)
def declaration(case: Case) -> None:
    """The class attributes, and what the part says about itself at the example sizes."""
    part = case.part
    wrong = [*_general(part), *_specific(part)]
    if wrong:
        raise BrokenError("\n".join(wrong))


def _general(part: type[Any]) -> list[str]:
    wrong = []
    if not re.fullmatch("[a-z][a-z0-9_]*", part.name):
        wrong.append(f"name = {part.name!r} is not of the form [a-z][a-z0-9_]*")
    if part.api not in SUPPORTED_API:
        wrong.append(f"api = {part.api!r} is none of {list(SUPPORTED_API)}")
    if not part.__doc__ or not part.__doc__.strip():
        wrong.append("the class has no docstring, which `peirce describe` shows")
    taken = [f.name for f in attrs.fields(part.Options) if f.name in ("use", "as")]
    if taken:
        wrong.append(f"Options has the fields {taken}, which a spec keeps for itself")
    if not issubclass(part, Task) and example_options(part) != example_options(part):
        wrong.append("two Options made from the same values are not equal")
    shared = [name for name, one, two in _twice(part) if one is two and isinstance(one, _MUTABLE)]
    wrong += [
        f"the default of the option {name!r} is one object that all parts share; use factory="
        for name in shared
    ]
    from peirce.testing.checks import CHECKS

    names = [each.name for each in CHECKS]

    if not isinstance(part.expected_failures, Mapping):
        wrong.append(f"expected_failures = {part.expected_failures!r} maps no checks to reasons")
    for name, reason in expected_failures(part).items():
        if name not in names:
            wrong.append(
                f"expected_failures names {name!r}, which is no check; checks are {', '.join(names)}"
            )
        if not isinstance(reason, str) or not reason.strip():
            wrong.append(f"expected_failures gives no reason for {name!r}")
    return wrong


_MUTABLE = (list, dict, set, bytearray, torch.Tensor, np.ndarray)


def _twice(part: type[Any]) -> list[tuple[str, Any, Any]]:
    """Each option by name, as two tables of options made from the example have it.

    A task's may need the files of `example_in`, and have no others.
    """
    needed = {f.name for f in attrs.fields(part.Options) if f.default is attrs.NOTHING}
    if issubclass(part, Task) and not needed <= {*part.example}:
        return []
    one, two = example_options(part), example_options(part)
    return [(f.name, getattr(one, f.name), getattr(two, f.name)) for f in attrs.fields(part.Options)]


def _specific(part: type[Any]) -> list[str]:
    if issubclass(part, Operator | StateOperator | RecurrentOperator):
        return _operator(part)
    if issubclass(part, Position):
        known = [base.__name__ for base in PLACES.values()]
        served = tuple(place for place, base in PLACES.items() if issubclass(part, base))
        if tuple(part.places()) != served:
            return [f"places() answers {list(part.places())}, and its base classes serve {list(served)}"]
        return [] if served else [f"it serves no place: subclass one of {', '.join(known)}"]
    if issubclass(part, Head):
        unknown = sorted(set(part.needs) - {"pooled", "binary", "past"})
        return [f"needs = {unknown} is none of pooled, binary and past"] if unknown else []
    if issubclass(part, Architecture):
        return _architecture(part)
    return []


def _operator(part: type[Any]) -> list[str]:
    options = example_options(part)
    answers = [part.check(options, BASE, kind) for kind in SCOPE_KINDS]
    wrong = [
        f"check answers {answer!r} for the scope {kind!r}: a reason in words, or None"
        for kind, answer in zip(SCOPE_KINDS, answers, strict=True)
        if not (answer is None or (isinstance(answer, str) and answer))
    ]
    if None not in answers:
        wrong.append(f"check refuses every kind of scope at its example options: {answers[0]}")
    rules = ("causal",) if issubclass(part, RecurrentOperator) else ("reduce", "pairwise", "none")
    if part.scope_rule not in rules:
        wrong.append(f"scope_rule = {part.scope_rule!r} is none of {', '.join(rules)}")
    if part.letter is not None and not re.fullmatch("[a-z]", part.letter):
        wrong.append(f"letter = {part.letter!r} is not one of a to z")
    if issubclass(part, Operator):
        wrong += _typing(part, part(options, BASE))
    return wrong


def _typing(part: type[Operator], made: Operator) -> list[str]:
    kernel, premise, output = made.kernel(), made.premise(), made.output()
    branches = f"{output.branch} <- {kernel.branch} x {premise.branch}"
    wrong = []
    if part.typing != branches:
        wrong.append(f"typing = {part.typing!r}, and its kernel, premise and output make {branches!r}")
    softmax = "softmax" in (kernel.activation, premise.activation)
    if premise.activation != "none":
        wrong.append(f"its premise has the activation {premise.activation!r}; only kernels have one")
    if softmax and part.scope_rule != "reduce":
        wrong.append(
            f"scope_rule = {part.scope_rule!r}, and a kernel normalised over tokens is there to be reduced"
        )
    if part.scope_rule == "pairwise" and output.branch != "B":
        wrong.append("scope_rule = 'pairwise' gives each pair, and the output is unary")
    if part.scope_rule == "none" and branches != "U <- U x U":
        wrong.append(
            f"scope_rule = 'none' gives each token from itself alone, and the typing is {branches!r}"
        )
    if part.pair == "score" and branches != "B <- U x U":
        wrong.append(
            f"pair = 'score' is for a score of two tokens, B <- U x U, and the typing is {branches!r}"
        )
    if part.pair == "value" and (output.branch, kernel.branch, kernel.activation) != ("U", "B", "softmax"):
        wrong.append("pair = 'value' is for a sum with normalised binary kernels into unary atoms")
    return wrong


def _architecture(part: type[Architecture]) -> list[str]:
    wrong = [
        f"places has {place!r}, which is none of {', '.join(PLACES)}" for place in part.places - set(PLACES)
    ]
    if part.branches not in ("U", "UB"):
        wrong.append(f"branches = {part.branches!r} is neither U nor UB")
    if "binary" in part.places and part.branches == "U":
        wrong.append("places has 'binary', and branches = 'U' keeps no binary atoms")
    known = {field.alias for field in attrs.fields(Dims)}
    sizes = {f.name: SIZES.get(f.name, 4) for f in attrs.fields(part.Dims) if f.default is attrs.NOTHING}
    given = part.sizes(example_options(part), part.Dims(**sizes))
    unknown = sorted(set(given) - known)
    if unknown:
        wrong.append(f"sizes gives {', '.join(unknown)}, which peirce.parts.base.Dims does not have")
    return wrong


@check_examples(
    *NETWORK, contract="the outputs have the names, the order and the shapes that the part declares"
)
def shapes(harness: Harness, example: Example) -> None:
    """Every size of every axis; positions may leave the batch axis at 1."""
    view, made = example.view, harness.make()
    network = isinstance(harness, ArchitectureHarness)
    axes: dict[Any, int] = {"batch": view.batch, "length": view.length}
    for slot, tensor in harness.raw(made, harness.draw(view, example.generator()), view):
        width = getattr(made[view.kind].plan.dims, slot.name, None) if network else None
        if width is not None and slot.axes[-1] != width:
            raise BrokenError(
                f"{slot.name} is {slot.axes[-1]} wide, and sizes says {width}, which heads are built for"
            )
        shape = [size_of(axis, axes) for axis in slot.axes]
        one_for_all = isinstance(harness, PositionHarness) and list(tensor.shape) == [1, *shape[1:]]
        if list(tensor.shape) != shape and not one_for_all:
            raise BrokenError(
                f"{slot.name} has the shape {list(tensor.shape)}, and {list(slot.axes)} makes {shape}"
            )


@check_each(
    *NETWORK, contract="a part computes in the dtype that it is given: float64, float32, bfloat16 or float16"
)
def dtypes(harness: Harness) -> None:
    """Floats in the model's dtype, integers and booleans as declared."""
    view = plain_view(harness.kinds[0], 2, 4, PADDED)
    for dtype in FLOATS:
        made = harness.make(dtype=dtype)
        for slot, tensor in harness.raw(made, harness.draw(view, 1, dtype), view):
            wanted = {"float": dtype, "int64": torch.int64, "bool": torch.bool}[slot.dtype]
            if tensor.dtype != wanted:
                raise BrokenError(
                    f"{slot.name} is {tensor.dtype} where the model is {dtype}; expected {wanted}"
                )
