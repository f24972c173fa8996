"""How a part survives: rows with nothing in scope, huge logits, narrow dtypes, and the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import torch
from hypothesis import strategies as st
from torch import Tensor

from peirce.errors import InputError
from peirce.parts import Operator, RecurrentOperator
from peirce.testing.check import Case, check, holds
from peirce.testing.checks.declared import FLOATS, NETWORK
from peirce.testing.compare import finite as hold_finite
from peirce.testing.compare import zero
from peirce.testing.failures import BrokenError
from peirce.testing.strategies import Example
from peirce.testing.subjects import HeadSubject, Outputs, Subject
from peirce.testing.views import View

NARROW = FLOATS[1:]
WHOLE_GROUPS = 12
"""A batch that is a whole number of groups of 2, 3, 4 or 6."""


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
                _survives(subject, made, tensors, results, what)

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
            _survives(subject, made, tensors, results, f"in {dtype}")

    # Rows of padding see nothing, which is what `empty_rows` is about.
    padded = False if case.entry.kind == "operators" else None
    case.each(lambda subject: holds(subject, body, count=6, padded=padded))


@check(
    "operators",
    "augmenters",
    "heads",
    contract="the gradients that autograd gives are those of finite differences, in float64",
)
def gradients(case: Case) -> None:
    """By torch's own gradcheck, with respect to every tensor of floats."""

    def body(subject: Subject, example: Example) -> None:
        view, made = example.view, subject.make()
        tensors = [_leaf(tensor) for tensor in subject.draw(view, example.generator())]

        def outputs(*given: Tensor) -> tuple[Tensor, ...]:
            return tuple(t for _, t in subject.run(made, given, view) if t.requires_grad)

        if any(t.requires_grad for t in tensors) and outputs(*tensors):
            try:
                torch.autograd.gradcheck(outputs, tensors, fast_mode=True, atol=1e-4, rtol=1e-3)
            except torch.autograd.gradcheck.GradcheckError as error:  # type: ignore[attr-defined]
                raise BrokenError(str(error).strip().split("\n\n")[0]) from None

    padded = False if case.entry.kind == "operators" else None
    case.each(lambda subject: holds(subject, body, count=6, padded=padded))


@check("heads", contract="the loss of a head's predictions is a finite scalar with finite gradients")
def loss(case: Case) -> None:
    """With labels of the forms that losses take: class ids, numbers, a number for each logit, or 0 or 1 for each.

    A loss that takes examples in groups may refuse the smaller batches, with an InputError.
    """

    def body(subject: Subject, example: Example) -> None:
        assert isinstance(subject, HeadSubject)
        made, view = subject.make(), example.view
        tensors = [_leaf(tensor) for tensor in subject.draw(view, example.generator())]
        outputs = subject.predict(made, tensors, view, view.scope())
        try:
            value = _loss(made.loss, outputs, example.generator(2))
        except BrokenError as error:
            if isinstance(error.__cause__, InputError) and view.batch < WHOLE_GROUPS:
                return
            raise
        if value.dim():
            raise BrokenError(f"the loss has the shape {list(value.shape)} and must be a scalar")
        _survives(
            subject, made, tensors, [(attrs.evolve(subject.reads()[0], name="loss", axes=()), value)], ""
        )

    batches = st.sampled_from((1, 2, WHOLE_GROUPS))
    case.each(lambda subject: holds(subject, body, count=6, batches=batches))


def _loss(loss: Callable[..., Tensor], outputs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
    errors, refused = [], None
    for form, labels in _labels(next(iter(outputs.values())), generator):
        try:
            return loss(outputs, labels)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            refused = refused or (error if isinstance(error, InputError) else None)
            errors.append(f"{form}: {str(error).splitlines()[0]}")
    raise BrokenError("the loss takes labels of none of the usual forms\n" + "\n".join(errors)) from refused


def _labels(logits: Tensor, generator: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    shape = logits.shape
    yield "class ids", torch.randint(0, shape[-1], shape[:-1], generator=generator)
    yield "numbers", torch.rand(shape[:-1], generator=generator, dtype=logits.dtype)
    yield "a number for each logit", torch.rand(shape, generator=generator, dtype=logits.dtype)
    yield "0 or 1 for each logit", torch.randint(0, 2, shape, generator=generator)
    if len(shape) > 1:
        yield "one of the tokens", torch.randint(0, shape[1], shape[:1], generator=generator)


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_() if tensor.is_floating_point() else tensor


def _survives(subject: Subject, made: object, tensors: list[Tensor], results: Outputs, what: str) -> None:
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
