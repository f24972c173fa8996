"""What a part computes: its equation, at every size and after any other call, and nothing besides."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import torch
from torch import Tensor, nn

from peirce.parts import RecurrentOperator, StateOperator
from peirce_testing.check import NETWORK, check
from peirce_testing.compare import (
    BrokenError,
    assert_all_equal,
    assert_equal,
    assert_finite,
    assert_same_state,
    torch_unchanged,
)
from peirce_testing.examples import PADDED, Example, Slot, Tensors, View, dims_of, plain_view
from peirce_testing.harness.base import Harness, modules, state_of

HEAD_SIZES = (2, 128)
"""Channels of a head between which the scale of an operator without `scale` shows: 64 ** 0.25 is 2.8."""


@check("operators", but=(StateOperator, RecurrentOperator))
def scale(harness: Harness) -> None:
    """What an operator infers is of the same order however large its heads are. Its standard deviation with heads of 2
    and of 128 channels, for readings of order one times their `scale`, within a factor of 2.
    """
    deviations = []
    for size in HEAD_SIZES:
        sized = harness.resize(dims_of(2, size, 3, 3))
        instance, view = sized.make(), plain_view(sized.kinds[0], 4, 9)
        scales = {name: reader.scale for name, reader in instance.readings().items()}
        results = sized.run(instance, sized.draw(view).map(lambda s, t: t * scales.get(s.name, 1.0)), view)  # noqa: B023
        deviations.append(float(results[0][1].std()))
    if not 0.5 <= deviations[1] / max(deviations[0], 1e-300) <= 2:
        small, large = (f"{each:.3g}" for each in deviations)
        raise BrokenError(
            f"the standard deviation of the output is {small} with heads of {HEAD_SIZES[0]} channels, and {large} with "
            f"{HEAD_SIZES[1]}; give the readings a `scale`, such as head_size ** -0.25"
        )


@check(*NETWORK, count=6)
def purity(harness: Harness, example: Example) -> None:
    """A part gives the same values for the same inputs; it keeps nothing of a call, and changes neither its inputs nor
    itself nor what everybody shares. Twice the same call.
    """
    view, instance = attrs.evolve(example.view, places=example.view.index.clone()), harness.make()
    tensors = harness.draw(view, example.generator())
    scope = view.scope()
    shared = {"token positions": view.places, "mask": view.real}
    shared |= {"prefix_length": view.prefix, "scope": scope.pairs}
    kept = {name: tensor.clone() for name, tensor in shared.items() if tensor is not None}
    before, state, holding = tensors.clone_all(), state_of(instance), kept_tensors(instance)
    marks = [(tensor.requires_grad, tensor._version) for _, tensor in tensors]
    with torch_unchanged("a call"):
        first = harness.run(instance, tensors, view).clone_all()
        second = harness.run(instance, tensors, view, scope)
    for name, tensor in kept.items():
        assert_equal(shared[name], tensor, f"the {name}, which all parts of a layer share, after the call")  # type: ignore[arg-type]
    assert_all_equal(tensors, before, "after the call", tolerance=0.0)
    for (slot, tensor), mark in zip(tensors, marks, strict=True):
        if (tensor.requires_grad, tensor._version) != mark:
            raise BrokenError(f"it changes the input {slot.name} in place, by its values or by requires_grad")
    assert_all_equal(second, first, "at the second call", tolerance=0.0)
    assert_same_state(state_of(instance), state, "after the call")
    if new := sorted(kept_tensors(instance) - holding):
        raise BrokenError(f"after a call it still holds a tensor, at {new[0]}")


def kept_tensors(instance: object) -> set[str]:
    """Names of the tensors that a part keeps in attributes, beside parameters and buffers."""
    several = instance.values() if isinstance(instance, dict) else [instance]
    parts = [each for one in several for each in (one.modules() if isinstance(one, nn.Module) else [one])]
    found = set()
    for i, part in enumerate(parts):
        for name, value in vars(part).items():
            inside = list(value.values()) if isinstance(value, dict) else value
            for each in inside if isinstance(inside, list | tuple) else [value]:
                if isinstance(each, Tensor) and name not in ("_parameters", "_buffers"):
                    found.add(f"{type(part).__name__}.{name} {i} {id(each)}")
    return found


def example_calls(harness: Harness) -> list[tuple[View, Tensors, Tensors]]:
    """Calls of several sizes, with what a new part gives; the first two have one size."""
    first, last = harness.kinds[0], harness.kinds[:2][-1]
    sizes = ((first, 2, 4, None), (last, 2, 4, PADDED), (last, 3, 6, None), (first, 1, 1, None))
    found = []
    for seed, size in enumerate(sizes):
        view = plain_view(*size)
        tensors = harness.draw(view, seed)
        harness.forget()
        found.append((view, tensors, harness.once(tensors, view).clone_all()))
    harness.forget()
    return found


@check(*NETWORK)
def calls(harness: Harness) -> None:
    """A call gives the same after any other: of other values and sizes, in another mode, failed, or of a copy. In
    another order, without gradients, in inference mode, after failures and on a deep copy.
    """
    given, instance = example_calls(harness), harness.make()

    def call(
        i: int, when: str, on: object = instance, change: Callable[[Tensors], Tensors] = Tensors
    ) -> Tensors:
        view, tensors, expected = given[i]
        results = harness.run(on, change(tensors), view)
        assert_all_equal(results, expected, when)
        return results

    def train(when: str) -> None:
        results = call(0, when, change=Tensors.leaves)
        wanted = [result.sum() for _, result in results if result.requires_grad]
        if wanted:
            torch.autograd.backward(torch.stack(wanted).sum())
        for module in modules(instance):
            module.zero_grad()

    with torch.inference_mode():
        call(1, "in inference mode, the first time")
    train("after a first call in inference mode")
    kept = [(i, call(i, "after calls with other values, sizes and scopes")) for i in (0, 1, 0, 2, 3, 1, 0)]
    for i, results in kept:
        assert_all_equal(results, given[i][2], "of an earlier call, after later ones")
    for what, mode in (("without gradients", torch.no_grad), ("in inference mode", torch.inference_mode)):
        with mode():
            call(1, what)
        train(f"after a call {what}")
    for module in modules(instance):
        module.train()
        module.eval()
    call(1, "after train() and eval()")
    view, tensors, _ = given[0]
    for cut in (0, len(tensors) - 1):  # tensors that do not fit each other, which most parts fail at
        slot, tensor = tensors[cut]
        unfit = Tensors(tensors)
        unfit[cut] = slot, tensor[..., :1, :] if tensor.dim() > 1 else tensor
        with suppress(Exception):
            harness.run(instance, unfit, view)
        call(0, "after a call that failed in the middle")
    call(0, "from inputs that lie in memory in another order", change=_transpose_memory)
    twin = copy.deepcopy(instance)
    call(1, "of a deep copy", twin)
    with torch.no_grad():
        for parameter in (each for module in modules(twin) for each in module.parameters()):
            parameter.add_(1)
    call(0, "after a deep copy of the part has changed")
    _check_own_values(harness, twin, *given[1][:2])


def _check_own_values(harness: Harness, twin: Any, view: View, tensors: Tensors) -> None:
    """Compare a changed copy with a new part of the same parameters."""
    harness.forget()
    fresh = harness.make()
    for module, other in zip(modules(fresh), modules(twin), strict=True):
        module.load_state_dict(other.state_dict())
    expected = harness.run(fresh, tensors, view)
    harness.forget()
    what = (
        "of a deep copy with other parameters, against a new part with these: it must follow its own values"
    )
    assert_all_equal(harness.run(twin, tensors, view), expected, what)


def _transpose_memory(tensors: Tensors) -> Tensors:
    return tensors.map(lambda _, t: t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() > 1 else t)


@check("positions")
def long_sequences(harness: Harness) -> None:
    """A position serves every length up to max_length, and its values stay finite. At max_length; and where it takes
    causal scopes, the values of its first tokens are those of a short sequence.
    """
    harness = harness.resize(attrs.evolve(harness.dims, max_length=512))
    length, first = harness.dims.max_length, torch.arange(3)
    kind = harness.kinds[0]
    view = plain_view(kind, 1, length)
    tensors = harness.draw(view)
    beginning = harness.once(tensors.pick(first), plain_view(kind, 1, 3))
    results = harness.once(tensors, view)
    for name, result in results.floats().items():
        assert_finite(result, f"{name} at length {length}")
    if harness.part.check(harness.options, harness.dims, "causal") is None:  # others may count from the end
        assert_all_equal(results.pick(first), beginning, f"of the first tokens at length {length}")
    narrow = harness.make(dtype=torch.bfloat16)
    rounded = tensors.map(lambda _, t: t.bfloat16() if t.is_floating_point() else t)
    given = harness.run(narrow, rounded, view)
    exact = harness.run(
        narrow.double(), rounded.map(lambda _, t: t.double() if t.is_floating_point() else t), view
    )
    for slot, values in given:
        if values.is_floating_point():
            assert_equal(
                values.double(), exact.get(slot.name), f"{slot.name} in bfloat16 at length {length}", 0.1
            )
    for slot, result in results:
        _check_no_wrap(slot, result.detach())


def _check_no_wrap(slot: Slot, result: Tensor) -> None:
    """Check that places beyond 255 differ from those below, as they would not if counted in eight bits."""
    if not slot.tokens:
        return
    row = result if len(slot.tokens) == 1 else result.select(slot.tokens[0], -1)
    places = row.movedim(slot.tokens[0], 0)
    if torch.equal(places[256:], places[:256]) and not torch.equal(places[128:256], places[:128]):
        raise BrokenError(f"{slot.name} begins anew at place 256: are places counted in eight bits?")
