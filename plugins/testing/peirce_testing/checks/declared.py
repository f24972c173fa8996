"""What a part declares agrees with itself and with what the part gives."""

from __future__ import annotations

import copy
from inspect import signature
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor

from peirce.model import Task
from peirce.parts import Architecture, Dims, PureOperator, RecurrentOperator, StateOperator, typing_of
from peirce.registry import KINDS
from peirce_testing.causes import call_problems
from peirce_testing.check import NETWORK, Case, check, on_examples
from peirce_testing.checks.options import with_option
from peirce_testing.compare import BrokenError, assert_equal
from peirce_testing.examples import BASE, FLOATS, SCOPE_KINDS, UNEVEN, Example, View, normal, plain_view
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import EXAMPLE, Harness, modules, size_of
from peirce_testing.harness.sized import PositionHarness, TokenHarness
from peirce_testing.options import example_options, given_fields
from peirce_testing.tiny_models import sizes_of

ROUNDINGS, ALLOWED = 4, 8
"""How often values are rounded anew to see what that changes, and how many times as much may differ."""
_MUTABLE = (list, dict, set, bytearray, torch.Tensor, np.ndarray)

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
    if issubclass(part, PureOperator):
        for harness in case.harnesses:
            found |= _typing(harness.make(), "" if harness.label == EXAMPLE else f"with {harness.label}, ")
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
    found |= dict.fromkeys(call_problems(part), True)
    for name, reason in part.expected_failures.items():
        message = f"expected_failures names {name!r}, which is not a check; the checks are {', '.join(names)}"
        found[message] = name not in names
        found[f"expected_failures gives no reason for {name!r}"] = not reason.strip()
    return found


def _operator(part: type[Any]) -> Findings:
    options = example_options(part)
    found: Findings = {}
    answers = {kind: part.check(options, BASE, kind) for kind in SCOPE_KINDS}
    for kind, answer in answers.items():
        message = f"check answers {answer!r} for the scope {kind!r}: a reason in words, or None"
        found[message] = answer is not None and (not isinstance(answer, str) or not answer)
    refused = f"check refuses every kind of scope at its example options: {answers[SCOPE_KINDS[0]]}"
    found[refused] = None not in answers.values()
    return found


def _typing(part: PureOperator, when: str) -> Findings:
    readings, output = list(part.readings().values()), part.output()
    typing, rule = typing_of(part.readings(), output), part.scope_rule
    softmax = [reader.activation == "softmax" for reader in readings]
    every = (
        (part.typing != typing, f"typing = {part.typing!r}, and its readings and its output make {typing!r}"),
        (any(softmax) and rule != "reduce", f"scope_rule = {rule!r}, and a kernel over tokens is there to be reduced"),
        (rule == "pairwise" and output.branch != "B", f"scope_rule = {rule!r} gives pairs, and the output is unary"),
        (rule == "none" and "B" in typing, f"scope_rule = {rule!r} is for unary atoms alone, not {typing!r}"),
        (part.pair == "score" and not typing.startswith("B <- U x U"), "pair = 'score' is for a query times a key"),
        (part.pair == "value" and not softmax[0], "pair = 'value' is for sums by a softmax kernel, the first reading"),
    )  # fmt: skip
    found: Findings = {f"{when}{message}": wrong for wrong, message in every}
    called = (*part.readings(), *part.weights(), "scope")
    for name in ("infer", "reference"):
        try:
            signature(getattr(part, name)).bind(*called)
        except TypeError:
            takes = ", ".join(signature(getattr(part, name)).parameters)
            found[f"{name} takes ({takes}), but its contract calls it with ({', '.join(called)})"] = True
    return found


def _architecture(part: type[Any]) -> Findings:
    given = part.sizes(example_options(part), part.Dims(**sizes_of(part)))
    unknown = sorted(set(given) - {field.alias for field in attrs.fields(Dims)})
    lost = "binary" in part.places and part.branches == "U"
    return {
        "places has 'binary', and branches = 'U' keeps no binary atoms": lost,
        f"sizes gives {', '.join(unknown)}, which peirce.parts.base.Dims does not have": unknown,
    }


@check(*NETWORK)
def shapes(harness: Harness) -> None:
    """The outputs have the names, the order and the shapes that the part declares. Every size of every axis; positions
    may leave the batch axis at 1. Of a part that reads tokens also where an option is about as great as the vocabulary.
    """
    on_examples(harness, _check_shapes)
    for edge in _edges(harness):
        try:
            _check_shapes(edge, Example(plain_view(edge.kinds[0], 2, 4), 0))
        except Exception as error:
            error.add_note(f"with {edge.options}")
            raise


def _edges(harness: Harness) -> list[Harness]:
    """A part that reads tokens with each whole number of its options about the vocabulary's size, if it takes that."""
    if not isinstance(harness, TokenHarness):
        return []
    size, names = harness.dims.vocabulary, [f.name for f in given_fields(harness.options)]
    whole = [name for name in names if type(getattr(harness.options, name)) is int]
    tried = (with_option(harness, name, size + more) for name in whole for more in (-1, 0, 1))
    return [each for each in tried if each is not None]


def _check_shapes(harness: Harness, example: Example) -> None:
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
        if not all(shape):
            raise BrokenError(f"{slot.name} is empty: {list(slot.axes)} is {shape} here")


@check(*NETWORK)
def dtypes(harness: Harness) -> None:
    """A part computes in the dtype that it is given, float64 to float16, as well as that can; under autocast too.
    Floats in the model's dtype, integers and booleans as declared; values against float64, by how far they move when
    inputs and parameters are rounded.
    """
    view = plain_view(harness.kinds[0], len(UNEVEN), 4, UNEVEN)
    _check_dtypes(harness, view)
    if isinstance(harness, TokenHarness) and any(not spec.required for spec in harness.make().inputs()):
        bare = harness.without_optional()
        try:
            _check_dtypes(bare, view)
        except Exception as error:
            error.add_note(f"without {', '.join(sorted(bare.absent))}")
            raise


def _check_dtypes(harness: Harness, view: View) -> None:
    few = harness.few(1) if isinstance(harness, ArchitectureHarness) else harness
    for dtype in FLOATS:
        results = harness.raw(harness.make(dtype=dtype), harness.draw(view, 1, dtype), view)
        for slot, tensor in results:
            wanted = {"float": dtype, "int64": torch.int64, "bool": torch.bool}[slot.dtype]
            if tensor.dtype != wanted:
                message = f"{slot.name} is {tensor.dtype} where the model is {dtype}; expected {wanted}"
                raise BrokenError(message)
        if dtype != torch.float64:
            _compare_rounded(few, view, dtype, torch.float32, f"in {dtype}")
    _compare_rounded(few, view, torch.float32, torch.bfloat16, "under torch.autocast in torch.bfloat16")


@torch.no_grad()
def _compare_rounded(harness: Harness, view: View, dtype: torch.dtype, cast: torch.dtype, when: str) -> None:
    """Compare values with those in float64, within what rounding inputs and parameters now and again changes."""
    tensors = harness.draw(view, 1)
    exact = harness.run(harness.make(), tensors, view)
    given = tensors.map(lambda _, t: t.to(dtype) if t.is_floating_point() else t)
    with torch.autocast("cpu", cast, enabled=cast != torch.float32):
        results = harness.run(harness.make(dtype=dtype), given, view)
    step = max(torch.finfo(each).eps for each in (dtype, cast))
    generator = torch.Generator().manual_seed(0)

    def rounded(t: Tensor) -> Tensor:
        return t * (1 + step * normal(t.shape, generator)) if t.is_floating_point() else t

    moved = [torch.zeros(()) for _ in exact]
    for _ in range(ROUNDINGS):
        near = copy.deepcopy(harness.make())
        for module in modules(near):
            for parameter in module.parameters():
                parameter.copy_(rounded(parameter))
        others = harness.run(near, tensors.map(lambda _, t: rounded(t)), view)
        moved = [
            torch.maximum(most, (b.double() - a.double()).abs().max()) if a.numel() else most
            for most, (_, a), (_, b) in zip(moved, exact, others, strict=True)
        ]
    for (slot, result), (_, wanted), most in zip(results, exact, moved, strict=True):
        if not wanted.is_floating_point():
            assert_equal(result, wanted, f"{slot.name} {when}, against float64")
        elif wanted.numel():
            size = max(1.0, float(wanted.abs().max()))
            tolerance = ALLOWED * (step + float(most) / size)
            assert_equal(result.double(), wanted, f"{slot.name} {when}, against float64", tolerance)
