"""What a part computes: its equation, at every size, and nothing besides."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import torch
from torch import Tensor

from peirce.networks import recur
from peirce.parts import Operator, RecurrentOperator
from peirce.testing.check import Case, check, holds
from peirce.testing.checks.declared import NETWORK
from peirce.testing.compare import finite, same
from peirce.testing.failures import BrokenError
from peirce.testing.strategies import Example
from peirce.testing.subjects import OperatorSubject, Subject, prepare
from peirce.testing.views import View, plain_view


@check(
    "operators",
    contract="`infer` computes what `reference` does, term by term, in every scope that the operator takes; `step` too",
    covers=lambda part: issubclass(part, Operator | RecurrentOperator),
)
def reference(case: Case) -> None:
    """In float64, where a row sees something; a recurrent operator's fused way, where it has one, is its step too."""

    def loops(subject: Subject, example: Example) -> None:
        made = subject.make()
        (given,) = subject.draw(example.view, example.generator())
        parameters = {name: value.tolist() for name, value in made.state_dict().items()}
        expected = torch.tensor(
            [made.reference(each.tolist(), parameters) for each in given], dtype=torch.float64
        )
        for what, result in (("step by step", recur(made, given)[0]), ("fused", made.fused(given))):
            if result is not None:
                same(result, expected, f"the outputs {what}")

    def body(subject: Subject, example: Example) -> None:
        scale = (1.0, 1.0, 1e-6)[example.seed % 3]
        hold_reference(subject, example.view, subject.draw(example.view, example.generator(), scale=scale))

    if issubclass(case.part, RecurrentOperator):
        case.each(lambda subject: holds(subject, loops, count=25, padded=False))
    else:
        case.each(lambda subject: holds(subject, body, count=25))


def hold_reference(subject: Subject, view: View, tensors: Sequence[Tensor]) -> None:
    """Hold an operator's `infer` to its `reference`, relative to the largest value."""
    assert isinstance(subject, OperatorSubject)
    made, scope, allowed = subject.make(), view.scope(), view.allowed()
    kernel, premise = prepare(made, tensors[0], tensors[1], scope)
    result = made.infer(kernel, premise, scope)
    slot = subject.writes(made)[0]
    for i in range(view.batch):
        expected = torch.tensor(
            made.reference(kernel[i].tolist(), premise[i].tolist(), allowed[i].tolist()), dtype=torch.float64
        )
        seen = allowed[i] if len(slot.tokens) == 2 else allowed[i].any(1)
        if expected.shape != result[i].shape:
            raise BrokenError(
                f"reference gives the shape {list(expected.shape)}, infer {list(result[i].shape)}"
            )
        wanted = expected[seen]
        size = min(1.0, float(wanted.abs().max())) if wanted.numel() else 1.0
        what = f"infer in example {i}, over what is in scope" + (
            f", in units of {size:.1e}" if 0 < size < 1e-3 else ""
        )
        size = size if 0 < size < 1e-3 else 1.0
        same(result[i][seen] / size, wanted / size, what)


@check(*NETWORK, contract="a part that was used at one batch size and length works at every other")
def sizes(case: Case) -> None:
    """One instance at several sizes, batch 1 and length 1 among them, against a fresh instance at each."""

    def body(subject: Subject) -> None:
        kind = subject.kinds[0]
        kept = subject.make()
        for step, (batch, length) in enumerate([(2, 3), (1, 1), (2, 5), (3, 1), (1, 4)]):
            view = plain_view(kind, batch, length)
            tensors = subject.draw(view, torch.Generator().manual_seed(step))
            results = subject.run(kept, tensors, view)
            fresh = subject.once(tensors, view)
            for (slot, result), (_, expected) in zip(results, fresh, strict=True):
                what = f"{slot.name} at batch {batch}, length {length}, after other sizes"
                same(result, expected, what, tolerance=1e-12)

    case.each(body, where=lambda subject: bool(subject.kinds))


@check(
    *NETWORK, contract="a part gives the same values for the same inputs, and changes neither them nor itself"
)
def purity(case: Case) -> None:
    """Twice the same call, under another state of torch's generator."""

    def body(subject: Subject, example: Example) -> None:
        view, made = example.view, subject.make()
        tensors = subject.draw(view, example.generator())
        before = [tensor.clone() for tensor in tensors]
        marks = [(tensor.requires_grad, tensor._version) for tensor in tensors]
        state = _state(made)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            first = [(slot, tensor.clone()) for slot, tensor in subject.run(made, tensors, view)]
            torch.manual_seed(2)
            second = subject.run(made, tensors, view)
        for slot, tensor, kept in zip(subject.reads(), tensors, before, strict=True):
            same(tensor, kept, f"the input {slot.name} after the call", tolerance=0.0)
        for slot, tensor, mark in zip(subject.reads(), tensors, marks, strict=True):
            if (tensor.requires_grad, tensor._version) != mark:
                raise BrokenError(
                    f"it changes the input {slot.name} in place, by its values or by requires_grad"
                )
        for (slot, one), (_, two) in zip(first, second, strict=True):
            same(two, one, f"{slot.name} at the second call", tolerance=0.0)
        for name, value in _state(made).items():
            same(value, state[name], f"the state {name} after the call", tolerance=0.0)

    case.each(lambda subject: holds(subject, body, count=6))


@check("positions", contract="a position serves every length up to max_length, and its values stay finite")
def long_sequences(case: Case) -> None:
    """At max_length, and the values of its first tokens are those of a short sequence."""

    def body(chosen: Subject) -> None:
        subject = chosen.resized(attrs.evolve(chosen.dims, max_length=512))
        length = subject.dims.max_length
        view = plain_view("bidirectional", 1, length)
        tensors = subject.draw(view, torch.Generator().manual_seed(0))
        first = torch.arange(3)
        short = [slot.pick(tensor, first) for slot, tensor in zip(subject.reads(), tensors, strict=True)]
        beginning = subject.once(short, plain_view("bidirectional", 1, 3))
        for (slot, result), (_, expected) in zip(subject.once(tensors, view), beginning, strict=True):
            if result.is_floating_point():
                finite(result, f"{slot.name} at length {length}")
            same(slot.pick(result, first), expected, f"{slot.name} of the first tokens at length {length}")

    case.each(body)


def _state(made: object) -> dict[str, torch.Tensor]:
    modules = made.items() if isinstance(made, dict) else [("", made)]
    return {
        f"{prefix} {name}": value.clone()
        for prefix, module in modules
        if isinstance(module, torch.nn.Module)
        for name, value in module.state_dict().items()
    }
