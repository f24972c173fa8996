"""How a part survives: rows with nothing in scope, huge logits, narrow dtypes, and the backward pass."""

from __future__ import annotations

import torch
from torch import Tensor

from peirce.parts import Operator, RecurrentOperator
from peirce.testing.check import Case, check, holds
from peirce.testing.checks.declared import FLOATS, NETWORK
from peirce.testing.compare import finite as hold_finite
from peirce.testing.compare import zero
from peirce.testing.strategies import Example
from peirce.testing.subjects import Outputs, Subject
from peirce.testing.views import View

NARROW = FLOATS[1:]


@check(
    "operators",
    "heads",
    "architectures",
    contract="a row with nothing in scope gives zeros, never NaN, and finite gradients, in every dtype",
    covers=lambda part: not issubclass(part, RecurrentOperator),  # it has a state there
)
def empty_rows(case: Case) -> None:
    """Padding, and tokens that a relation lets see nothing; softmax logits of order one and of +-1e4."""

    def body(subject: Subject, example: Example) -> None:
        view = example.view
        for dtype in FLOATS:
            for huge in (False, True)[: 1 + (not subject.module)]:
                drawn = subject.draw(view, example.generator(), dtype)
                tensors = [_leaf(t) for t in (subject.extreme(drawn) if huge else drawn)]
                made = subject.make(dtype=dtype)
                results = subject.raw(made, tensors, view)
                what = f"in {dtype}" + (" with logits of +-1e4" if huge else "")
                if issubclass(subject.part, Operator) and subject.part.scope_rule == "reduce":
                    empty = ~view.allowed().any(2)
                    for slot, result in results:
                        zero(result[empty], f"{slot.name} {what}, in the rows that see nothing")
                survives(subject, made, tensors, results, what)

    def each(subject: Subject) -> None:
        if "relation" in subject.kinds:
            holds(subject, body, kinds=("relation",), empty_rows=True, count=5)
        if "bidirectional" in subject.kinds:
            holds(subject, body, kinds=("bidirectional",), padded=True, count=5)
            # An example that is padding throughout; hypothesis draws at least one real token.
            view = View(kind="bidirectional", batch=2, length=3, real=torch.tensor([[False] * 3, [True] * 3]))
            body(subject, Example(view, 0))

    case.each(each)


@check(
    *NETWORK,
    contract="values and gradients are finite in float32, bfloat16 and float16, with logits of +-1e4",
)
def finite(case: Case) -> None:
    """Softmax kernels that are all but one-hot, where something is in scope."""

    def body(subject: Subject, example: Example) -> None:
        for dtype in NARROW:
            drawn = subject.draw(example.view, example.generator(), dtype)
            tensors = [_leaf(tensor) for tensor in subject.extreme(drawn)]
            made = subject.make(dtype=dtype)
            results = subject.run(made, tensors, example.view)
            survives(subject, made, tensors, results, f"in {dtype}")
            if subject.module and any(t.is_floating_point() for t in drawn):
                # The slope of a norm at 1e-6 is beyond float16.
                for size in (0.0,) if dtype == torch.float16 else (0.0, 1e-6):
                    tiny = [_leaf(t * size) if t.is_floating_point() else t for t in drawn]
                    what = f"in {dtype}, where all inputs are of order {size:g}"
                    survives(subject, made, tiny, subject.run(made, tiny, example.view), what)

    # Rows of padding see nothing, which is what `empty_rows` is about.
    padded = False if case.entry.kind == "operators" else None
    case.each(lambda subject: holds(subject, body, count=6, padded=padded))


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_() if tensor.is_floating_point() else tensor


def survives(subject: Subject, made: object, tensors: list[Tensor], results: Outputs, what: str) -> None:
    """Values are finite, and so are the gradients of every input and parameter."""
    modules = [
        m for m in (made.values() if isinstance(made, dict) else [made]) if isinstance(m, torch.nn.Module)
    ]
    for module in modules:
        module.zero_grad()  # a kept model may still hold the gradients of an example that failed
    total = None
    for slot, result in results:
        if result.is_floating_point():
            hold_finite(result.detach(), f"{slot.name} {what}")
            if result.requires_grad:
                total = result.float().sum() if total is None else total + result.float().sum()
    if total is None:
        return
    torch.autograd.backward(total)
    for slot, tensor in zip(subject.reads(), tensors, strict=True):
        if tensor.grad is not None:
            hold_finite(tensor.grad, f"the gradient of {slot.name} {what}")
    for module in modules:
        for name, parameter in module.named_parameters():
            if parameter.grad is not None:
                hold_finite(parameter.grad, f"the gradient of the parameter {name} {what}")
