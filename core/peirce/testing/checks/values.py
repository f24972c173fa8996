"""What a part computes: its equation, at every size and after any other call, and nothing besides."""

from __future__ import annotations

import copy
from contextlib import suppress

import attrs
import torch
from torch import Tensor

from peirce.networks import recur
from peirce.parts import Operator, RecurrentOperator
from peirce.testing.check import NETWORK, Case, check, check_each, check_examples, holds
from peirce.testing.compare import BrokenError, alike, finite, same, torch_left_alone
from peirce.testing.examples import PADDED, Example, Tensors, View, plain_view
from peirce.testing.harness import Harness, prepare
from peirce.testing.harness.base import modules, state_of


@check(
    "operators",
    contract="`infer` computes what `reference` does, term by term, in every scope that the operator takes; `step` too",
    covers=lambda part: issubclass(part, Operator | RecurrentOperator),
)
def reference(case: Case) -> None:
    """In float64, where a row sees something; a recurrent operator's fused way, where it has one, is its step too."""
    recurrent = issubclass(case.part, RecurrentOperator)

    def body(harness: Harness, example: Example) -> None:
        scale = 1.0 if recurrent else (1.0, 1.0, 1e-6)[example.seed % 3]
        hold_reference(harness, example.view, harness.draw(example.view, example.generator(), scale=scale))

    case.each(lambda harness: holds(harness, body, count=25, padded=False if recurrent else None))


def hold_reference(harness: Harness, view: View, tensors: Tensors) -> None:
    """Hold an operator to its `reference`, relative to the largest value."""
    made = harness.make()
    if isinstance(made, RecurrentOperator):
        ((_, given),) = tensors
        parameters = {name: value.tolist() for name, value in made.state_dict().items()}
        expected = torch.tensor([made.reference(x.tolist(), parameters) for x in given], dtype=torch.float64)
        with torch.no_grad():
            for what, result in (("step by step", recur(made, given)[0]), ("fused", made.fused(given))):
                if result is not None:
                    same(result, expected, f"the outputs {what}")
        return
    scope, allowed = view.scope(), view.allowed()
    kernel, premise = prepare(made, tensors, scope)
    result = made.infer(kernel, premise, scope)
    pairs = len(harness.writes(made)[0].tokens) == 2
    for i in range(view.batch):
        expected = torch.tensor(
            made.reference(kernel[i].tolist(), premise[i].tolist(), allowed[i].tolist()), dtype=torch.float64
        )
        seen = allowed[i] if pairs else allowed[i].any(1)
        if expected.shape != result[i].shape:
            raise BrokenError(
                f"reference gives the shape {list(expected.shape)}, infer {list(result[i].shape)}"
            )
        wanted = expected[seen]
        size = float(wanted.abs().max()) if wanted.numel() else 1.0
        size = size if 0 < size < 1e-3 else 1.0
        what = f"infer in example {i}, over what is in scope" + ("" if size == 1 else f", in {size:.1e}")
        same(result[i][seen] / size, wanted / size, what)


@check_examples(
    *NETWORK,
    contract="a part gives the same values for the same inputs; it keeps nothing of a call, and changes neither its "
    "inputs nor itself nor what everybody shares",
    count=6,
)
def purity(harness: Harness, example: Example) -> None:
    """Twice the same call."""
    view, made = example.view, harness.make()
    tensors = harness.draw(view, example.generator())
    before, state, held = tensors.cloned(), state_of(made), _held(made)
    marks = [(tensor.requires_grad, tensor._version) for _, tensor in tensors]
    with torch_left_alone("a call"):
        first = harness.run(made, tensors, view).cloned()
        second = harness.run(made, tensors, view)
    alike(tensors, before, "after the call", tolerance=0.0)
    for (slot, tensor), mark in zip(tensors, marks, strict=True):
        if (tensor.requires_grad, tensor._version) != mark:
            raise BrokenError(f"it changes the input {slot.name} in place, by its values or by requires_grad")
    alike(second, first, "at the second call", tolerance=0.0)
    for name, value in state_of(made).items():
        same(value, state[name], f"the state {name} after the call", tolerance=0.0)
    if new := sorted(_held(made) - held):
        raise BrokenError(f"after a call it still holds a tensor, at {new[0]}")


def _held(made: object) -> set[str]:
    """Where a part keeps tensors beside its parameters and buffers: in attributes, and in lists and tables there."""
    several = made.values() if isinstance(made, dict) else [made]
    parts = [
        each for one in several for each in (one.modules() if isinstance(one, torch.nn.Module) else [one])
    ]
    found = set()
    for i, part in enumerate(parts):
        for name, value in vars(part).items():
            if name in ("_parameters", "_buffers"):
                continue
            inside = value.values() if isinstance(value, dict) else value
            tensors = [value] if isinstance(value, Tensor) else [
                each for each in (inside if isinstance(value, dict | list | tuple) else ()) if isinstance(each, Tensor)
            ]  # fmt: skip
            found |= {f"{type(part).__name__}.{name} {i} {id(each)}" for each in tensors}
    return found


def calls_of(harness: Harness) -> list[tuple[View, Tensors, Tensors]]:
    """Calls of several sizes, with what a new part gives; the first two have one size."""
    kinds = harness.kinds[:2]
    found = []
    for seed, (kind, batch, length, real) in enumerate(
        ((kinds[0], 2, 4, None), (kinds[-1], 2, 4, PADDED), (kinds[-1], 3, 6, None), (kinds[0], 1, 1, None))
    ):
        view = plain_view(kind, batch, length, real)
        tensors = harness.draw(view, seed)
        harness.forget()
        found.append((view, tensors, harness.once(tensors, view).cloned()))
    harness.forget()
    return found


@check_each(
    *NETWORK,
    contract="a call gives the same after any other: of other values and sizes, in another mode, failed, or of a copy",
)
def calls(harness: Harness) -> None:
    """In another order, without gradients, in inference mode, after failures and on a deep copy."""
    given, made = calls_of(harness), harness.make()

    def call(i: int, when: str, on: object = made) -> Tensors:
        view, tensors, expected = given[i]
        results = harness.run(on, tensors, view)
        alike(results, expected, when)
        return results

    def train(when: str) -> None:
        view, tensors, expected = given[0]
        results = harness.run(made, tensors.leaves(), view)
        alike(results, expected, when)
        wanted = [result.sum() for _, result in results if result.requires_grad]
        if wanted:
            torch.autograd.backward(torch.stack(wanted).sum())
        for module in modules(made):
            module.zero_grad()

    with torch.inference_mode():
        call(1, "in inference mode, the first time")
    train("after a first call in inference mode")
    kept = [(i, call(i, "after calls with other values, sizes and scopes")) for i in (0, 1, 0, 2, 3, 1, 0)]
    for i, results in kept:
        alike(results, given[i][2], "of an earlier call, after later ones")
    for what, mode in (("without gradients", torch.no_grad), ("in inference mode", torch.inference_mode)):
        with mode():
            call(1, what)
        train(f"after a call {what}")
    for module in modules(made):
        module.train()
        module.eval()
    call(1, "after train() and eval()")
    view, tensors, expected = given[0]
    for cut in (0, len(tensors) - 1):  # tensors that do not fit each other, which most parts fail at
        unfit = Tensors(
            (s, t[..., :1, :] if i == cut and t.dim() > 1 else t) for i, (s, t) in enumerate(tensors)
        )
        with suppress(Exception):
            harness.run(made, unfit, view)
        call(0, "after a call that failed in the middle")
    strided = tensors.map(lambda _, t: t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() > 1 else t)
    alike(harness.run(made, strided, view), expected, "from inputs that lie in memory in another order")
    twin = copy.deepcopy(made)
    call(1, "of a deep copy", twin)
    with torch.no_grad():
        for parameter in (each for module in modules(twin) for each in module.parameters()):
            parameter.add_(1)
    call(0, "after a deep copy of the part has changed")


@check_each(
    "positions", contract="a position serves every length up to max_length, and its values stay finite"
)
def long_sequences(chosen: Harness) -> None:
    """At max_length, and the values of its first tokens are those of a short sequence."""
    harness = chosen.resized(attrs.evolve(chosen.dims, max_length=512))
    length, first = harness.dims.max_length, torch.arange(3)
    view = plain_view("bidirectional", 1, length)
    tensors = harness.draw(view)
    beginning = harness.once(tensors.pick(first), plain_view("bidirectional", 1, 3))
    results = harness.once(tensors, view)
    for name, result in results.floats().items():
        finite(result, f"{name} at length {length}")
    alike(results.pick(first), beginning, f"of the first tokens at length {length}")
