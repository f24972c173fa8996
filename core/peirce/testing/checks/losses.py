"""The loss of a head: a mean over targets, finite, in float32 at least, with gradients that are right."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from hypothesis import strategies as st
from torch import Tensor

from peirce.errors import InputError
from peirce.parts import IGNORED
from peirce.testing.check import Case, check, holds
from peirce.testing.checks.numerics import survives
from peirce.testing.compare import finite, same
from peirce.testing.failures import BrokenError, NotApplicableError
from peirce.testing.labels import WHOLE_GROUPS, declared, losses
from peirce.testing.strategies import Example, normal
from peirce.testing.subjects import HeadSubject, Subject
from peirce.testing.views import plain_view

STEP = 1e-3
"""Of finite differences of a loss, which may be computed in float32."""


@check(
    "heads",
    contract="the loss of a head's predictions is a finite scalar with finite gradients, of labels as declared",
)
def loss(case: Case) -> None:
    """With labels of the forms that losses take: class ids, numbers, a number for each logit, or 0 or 1 for each.

    A loss that takes examples in groups may refuse the smaller batches, with an InputError.
    """
    part: Any = case.part
    if not part.labels.strip():
        raise BrokenError(
            "`labels` is empty: say in a sentence what `loss` takes, such as 'int64 [b]: the class'"
        )

    def body(subject: Subject, example: Example) -> None:
        assert isinstance(subject, HeadSubject)
        made, view = subject.make(), example.view
        tensors = [_leaf(tensor) for tensor in subject.draw(view, example.generator())]
        outputs = subject.predict(made, tensors, view, view.scope())
        found = _taken(made, outputs, view.batch, example)
        if found is None:
            return
        form, labels, value = found[0]
        if value.dim():
            raise BrokenError(f"the loss has the shape {list(value.shape)} and must be a scalar")
        said = declared(subject.part.labels)
        taken = {("float" if each.is_floating_point() else "int64", each.dim()) for _, each, _ in found}
        if said and not said & taken:
            raise BrokenError(
                f"labels says {subject.part.labels!r}, and the loss takes {form}: {_kind(labels)}"
            )
        scalar = attrs.evolve(subject.reads()[0], name="loss", axes=())
        survives(subject, made, tensors, [(scalar, value)], "")

    batches = st.sampled_from((1, 2, WHOLE_GROUPS))
    case.each(lambda subject: holds(subject, body, count=8, batches=batches))


def _taken(made: Any, outputs: dict[str, Tensor], batch: int, example: Example) -> Any:
    try:
        return losses(made, outputs, example.generator(2))
    except BrokenError as error:
        if isinstance(error.__cause__, InputError) and batch < WHOLE_GROUPS:
            return None
        raise


def _kind(labels: Tensor) -> str:
    return f"{str(labels.dtype).removeprefix('torch.')} {list(labels.shape)}"


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_() if tensor.is_floating_point() else tensor


def _predicted(subject: HeadSubject, batch: int, length: int, seed: int = 0) -> tuple[Any, dict[str, Tensor]]:
    """A head, and predictions of it as leaves."""
    kind = "causal" if "past" in subject.part.needs else "bidirectional"
    view = plain_view(kind, batch, length)
    made = subject.make()
    tensors = subject.draw(view, torch.Generator().manual_seed(seed))
    predicted = subject.predict(made, tensors, view, view.scope())
    return made, {name: _leaf(value) for name, value in predicted.items()}


@check(
    "heads",
    contract="a loss has the gradients of finite differences, changes nothing given, and is float32 at least",
)
def loss_numerics(case: Case) -> None:
    """Along a random direction of each prediction; logits of order 1e4 and 1e-6; predictions in half precision."""

    def body(subject: Subject) -> None:
        assert isinstance(subject, HeadSubject)
        made, outputs = _predicted(subject, WHOLE_GROUPS, 4)
        predicted = {name: t.detach().clone() for name, t in outputs.items()}
        for form, labels, value in losses(made, outputs, torch.Generator().manual_seed(1)):
            if outputs.keys() != predicted.keys():
                raise BrokenError(f"the loss adds to the predictions that it is given: {list(outputs)}")
            before = predicted | {"the labels": labels.clone()}
            _slopes(made, outputs, labels, value, form)
            for name, tensor in (outputs | {"the labels": labels}).items():
                same(
                    tensor.detach(), before[name], f"{name or 'the prediction'} after the loss", tolerance=0.0
                )
        for scale in (1e4, 1e-6):
            scaled = {name: _leaf(t.detach() * scale) for name, t in outputs.items()}
            for form, _, value in losses(made, scaled, torch.Generator().manual_seed(1))[:1]:
                _finite(value, scaled, f"with logits of order {scale:g} and {form}")
        half = {name: _leaf(t.detach().half() if t.is_floating_point() else t) for name, t in outputs.items()}
        form, labels, value = losses(made, half, torch.Generator().manual_seed(1))[0]
        if value.is_floating_point() and value.dtype.itemsize < 4:
            raise BrokenError(
                f"half inside the loss: it is {value.dtype} where predictions are float16; compute it in float32"
            )
        exact = made.loss(
            {n: t.detach().double() if t.is_floating_point() else t for n, t in half.items()}, labels
        )
        same(
            value.detach().double(),
            exact.detach().double(),
            f"the loss of float16 predictions with {form}",
            1e-3,
        )

    case.each(body)


def _finite(value: Tensor, outputs: dict[str, Tensor], what: str) -> None:
    finite(value.detach(), f"the loss {what}")
    if value.requires_grad:
        torch.autograd.backward(value)
    for name, tensor in outputs.items():
        if tensor.grad is not None:
            finite(tensor.grad, f"the gradient of {name or 'the prediction'} {what}")


def _slopes(made: Any, outputs: dict[str, Tensor], labels: Tensor, value: Tensor, form: str) -> None:
    floats = {name: t for name, t in outputs.items() if t.is_floating_point()}
    given: Any = [None] * len(floats)
    if value.requires_grad:
        given = torch.autograd.grad(value, list(floats.values()), allow_unused=True)
    for (name, tensor), gradient in zip(floats.items(), given, strict=True):
        direction = normal(tensor.shape, torch.Generator().manual_seed(3))
        ours = 0.0 if gradient is None else float((gradient * direction).sum())
        for step in (STEP, STEP / 10):
            with torch.no_grad():
                sides = [
                    float(made.loss({**outputs, name: tensor + sign * direction}, labels))
                    for sign in (step, -step)
                ]
            theirs = (sides[0] - sides[1]) / (2 * step)
            if abs(theirs - ours) <= 0.02 * max(abs(ours), abs(theirs)) + 0.01:
                break
        else:
            cause = "; it is detached on its way" if not ours else ""
            raise BrokenError(
                f"the gradient of the loss with {form} by {name or 'the prediction'} along a direction is {ours:.4g}, "
                f"and finite differences give {theirs:.4g}{cause}"
            )


@check(
    "heads",
    contract="a loss is the mean over targets, of one row or many; labels of -100 count for nothing",
)
def targets(case: Case) -> None:
    """Of class ids. Rows count by their targets; places of -100 hold any logits. A loss between rows is left out."""

    def body(subject: Subject) -> None:
        assert isinstance(subject, HeadSubject)
        made, outputs = _predicted(subject, 4, 3)
        logits = next(iter(outputs.values()))
        classes = logits.shape[-1]
        labels = torch.randint(0, classes, logits.shape[:-1], generator=torch.Generator().manual_seed(5))
        if not _mean_of_rows(made, outputs, labels):
            raise NotApplicableError("its loss takes no class ids row by row")
        one = _rows(outputs, slice(0, 1))
        same(
            made.loss(_joined(one, one), torch.cat([labels[:1], labels[:1]])).double(),
            made.loss(one, labels[:1]).double(),
            "the loss of a row twice, against once",
            tolerance=1e-5,
        )
        if labels.dim() == 1:
            return
        _ignored(made, outputs, labels)

    case.each(body)


def _mean_of_rows(made: Any, outputs: dict[str, Tensor], labels: Tensor) -> bool:
    """Whether the loss takes these labels, for the whole and for each row; a loss between rows does not."""
    try:
        made.loss(outputs, labels)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return False
    try:
        made.loss(_rows(outputs, slice(0, 3)), labels[:3])
    except InputError:
        return False  # it takes rows in groups
    apart = [
        float(made.loss(_rows(outputs, slice(i, i + 1)), labels[i : i + 1]).detach())
        for i in range(len(labels))
    ]
    # Rows that are compared with each other: alone a row has nothing to be compared with.
    return any(apart)


def _rows(outputs: dict[str, Tensor], rows: slice) -> dict[str, Tensor]:
    return {name: value[rows] for name, value in outputs.items()}


def _joined(one: dict[str, Tensor], two: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.cat([value, two[name]]) for name, value in one.items()}


def _ignored(made: Any, outputs: dict[str, Tensor], labels: Tensor) -> None:
    hidden = labels.clone()
    hidden[0, 1:] = IGNORED
    hidden[1, :1] = IGNORED
    counts = hidden != IGNORED
    value = made.loss(outputs, hidden)
    noise = {
        name: torch.where(_like(counts, t), t, t + 3.0) if t.shape[: counts.dim()] == counts.shape else t
        for name, t in outputs.items()
    }
    same(
        made.loss(noise, hidden).double(),
        value.double(),
        "the loss with other logits where labels are -100",
        1e-6,
    )
    apart = [
        made.loss(_rows(outputs, slice(i, i + 1)), hidden[i : i + 1]).double() for i in range(len(labels))
    ]
    weights = counts.flatten(1).sum(1).double()
    mean = (
        sum((loss * weight for loss, weight in zip(apart, weights, strict=True)), torch.zeros(()))
        / weights.sum()
    )
    same(
        value.double(),
        mean,
        "the loss of rows with few and many targets, against the mean over targets",
        1e-5,
    )
    nothing = {name: _leaf(t) for name, t in outputs.items()}
    empty = made.loss(nothing, torch.full_like(labels, IGNORED))
    _finite(empty, nothing, "where every label is -100")
    if float(empty.detach()):
        raise BrokenError(f"the loss is {float(empty.detach()):.4g} where every label is -100, and must be 0")


def _like(mask: Tensor, values: Tensor) -> Tensor:
    return mask.reshape(*mask.shape, *[1] * (values.dim() - mask.dim()))
