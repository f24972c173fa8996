"""What a part declares agrees with itself and with what the part gives."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getattr_static, isfunction, signature
from typing import Any

import attrs
import numpy as np
import torch

from peirce.model import Task
from peirce.parts import Architecture, Dims, PureOperator, RecurrentOperator, StateOperator, typing_of
from peirce.registry import KINDS
from peirce_testing.check import NETWORK, Case, check
from peirce_testing.compare import BrokenError
from peirce_testing.examples import BASE, PADDED, SCOPE_KINDS, Example, plain_view
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import Harness, size_of
from peirce_testing.harness.sized import PositionHarness
from peirce_testing.options import example_options
from peirce_testing.tiny_models import sizes_of

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
"""The dtypes that a model may have."""
_MUTABLE = (list, dict, set, bytearray, torch.Tensor, np.ndarray)

_CONTRACTS = ("peirce.parts", "peirce.model")
"""Where the methods of parts are declared."""

Findings = dict[str, object]
"""What is said of a part, and whether that is a finding: true if it is wrong."""


@check(*KINDS)
def declaration(case: Case) -> None:
    """What a part declares (Options, typing, mask contract, sizes, expected failures) holds together. What it says
    about itself at the example sizes; names and types are the registry's to refuse.
    """
    part = case.part
    found = _general(part)
    if issubclass(part, PureOperator | StateOperator | RecurrentOperator):
        found |= _operator(part)
    if issubclass(part, Architecture):
        found |= _architecture(part)
    if wrong := [message for message, is_wrong in found.items() if is_wrong]:
        raise BrokenError("\n".join(wrong))


def _general(part: type[Any]) -> Findings:
    from peirce_testing.checks import CHECKS

    names, fields = [each.name for each in CHECKS], attrs.fields(part.Options)
    found: Findings = {"it has no docstring, which `peirce describe` shows": not (part.__doc__ or "").strip()}
    # The options of a task may need the files of `example_in`.
    task = issubclass(part, Task)
    if not task or all(f.default is not attrs.NOTHING or f.name in part.example for f in fields):
        one, two = example_options(part), example_options(part)
        found["two Options made from the same values are not equal"] = one != two and not task
        for name in (f.name for f in fields):
            message = f"the default of the option {name!r} is one object that all parts share; use factory="
            first = getattr(one, name)
            found[message] = first is getattr(two, name) and isinstance(first, _MUTABLE)
    found |= dict.fromkeys(_signature_problems(part), True)
    for name, reason in part.expected_failures.items():
        message = f"expected_failures names {name!r}, which is not a check; the checks are {', '.join(names)}"
        found[message] = name not in names
        found[f"expected_failures gives no reason for {name!r}"] = not reason.strip()
    return found


def _signature_problems(part: type[Any]) -> Iterator[str]:
    """The methods of a part that cannot be called as their contract calls them."""
    contract = [base for base in part.__mro__ if base.__module__.startswith(_CONTRACTS)]
    for name in sorted({name for base in contract for name in vars(base)}):
        declared = next(vars(base)[name] for base in contract if name in vars(base))
        mine, theirs = (getattr(each, "__func__", each) for each in (getattr_static(part, name), declared))
        if mine is theirs or not (isfunction(mine) and isfunction(theirs)):
            continue
        wanted = signature(theirs).parameters
        if all(each.kind is each.POSITIONAL_OR_KEYWORD for each in wanted.values()):
            try:
                signature(mine).bind(*wanted)
            except TypeError:
                has, needs = (", ".join([*names][1:]) for names in (signature(mine).parameters, wanted))
                yield f"{name} takes ({has}), but its contract calls it with ({needs})"


def _operator(part: type[Any]) -> Findings:
    options = example_options(part)
    found: Findings = {}
    answers = {kind: part.check(options, BASE, kind) for kind in SCOPE_KINDS}
    for kind, answer in answers.items():
        message = f"check answers {answer!r} for the scope {kind!r}: a reason in words, or None"
        found[message] = answer is not None and (not isinstance(answer, str) or not answer)
    refused = f"check refuses every kind of scope at its example options: {answers[SCOPE_KINDS[0]]}"
    found[refused] = None not in answers.values()
    return found | (_typing(part, part(options, BASE)) if issubclass(part, PureOperator) else {})


def _typing(part: type[PureOperator], instance: PureOperator) -> Findings:
    readings, output = list(instance.readings().values()), instance.output()
    typing, rule = typing_of(instance.readings(), output), part.scope_rule
    softmax = [reader.activation == "softmax" for reader in readings]
    every = (
        (part.typing != typing, f"typing = {part.typing!r}, and its readings and its output make {typing!r}"),
        (any(softmax) and rule != "reduce", f"scope_rule = {rule!r}, and a kernel over tokens is there to be reduced"),
        (rule == "pairwise" and output.branch != "B", f"scope_rule = {rule!r} gives pairs, and the output is unary"),
        (rule == "none" and "B" in typing, f"scope_rule = {rule!r} is for unary atoms alone, not {typing!r}"),
        (part.pair == "value" and not softmax[0], "pair = 'value' is for sums by a softmax kernel, the first reading"),
    )  # fmt: skip
    return {message: wrong for wrong, message in every}


def _architecture(part: type[Any]) -> Findings:
    given = part.sizes(example_options(part), part.Dims(**sizes_of(part)))
    unknown = sorted(set(given) - {field.alias for field in attrs.fields(Dims)})
    lost = "binary" in part.places and part.branches == "U"
    return {
        "places has 'binary', and branches = 'U' keeps no binary atoms": lost,
        f"sizes gives {', '.join(unknown)}, which peirce.parts.base.Dims does not have": unknown,
    }


@check(*NETWORK)
def shapes(harness: Harness, example: Example) -> None:
    """The outputs have the names, the order and the shapes that the part declares. Every size of every axis; positions
    may leave the batch axis at 1.
    """
    view, instance = example.view, harness.make()
    network = isinstance(harness, ArchitectureHarness)
    axes: dict[Any, int] = {"batch": view.batch, "length": view.length}
    for slot, tensor in harness.raw(instance, harness.draw(view, example.generator()), view):
        width = getattr(instance[view.kind].plan.dims, slot.name, None) if network else None
        if width not in (None, slot.axes[-1]):
            message = (
                f"{slot.name} is {slot.axes[-1]} wide, but `sizes` says {width}, for which heads are built"
            )
            raise BrokenError(message)
        shape = [size_of(axis, axes) for axis in slot.axes]
        one_for_all = isinstance(harness, PositionHarness) and list(tensor.shape) == [1, *shape[1:]]
        if list(tensor.shape) != shape and not one_for_all:
            message = f"{slot.name} has the shape {list(tensor.shape)}, but {list(slot.axes)} is {shape} here"
            raise BrokenError(message)


@check(*NETWORK)
def dtypes(harness: Harness) -> None:
    """A part computes in the dtype that it is given: float64, float32, bfloat16 or float16. Floats in the model's
    dtype, integers and booleans as declared.
    """
    view = plain_view(harness.kinds[0], 2, 4, PADDED)
    for dtype in FLOATS:
        instance = harness.make(dtype=dtype)
        for slot, tensor in harness.raw(instance, harness.draw(view, 1, dtype), view):
            wanted = {"float": dtype, "int64": torch.int64, "bool": torch.bool}[slot.dtype]
            if tensor.dtype != wanted:
                message = f"{slot.name} is {tensor.dtype} where the model is {dtype}; expected {wanted}"
                raise BrokenError(message)
