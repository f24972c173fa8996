"""The loss of a head: a mean over targets, finite, in float32 at least, with gradients that are right."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from peirce.errors import InputError
from peirce.parts import IGNORED
from peirce_testing.check import check
from peirce_testing.checks.numerics import check_finite
from peirce_testing.checks.options import with_option
from peirce_testing.compare import BrokenError, NotApplicableError, assert_equal, assert_gradients
from peirce_testing.examples import Example, Slot, Tensors, plain_view
from peirce_testing.harness.labels import (
    REFUSED,
    WHOLE_GROUPS,
    declared_forms,
    fitting_losses,
    form_of,
    losses,
)
from peirce_testing.harness.sized import HeadHarness
from peirce_testing.options import variations

SLOPES: Any = {"steps": (1e-3, 1e-4), "relative": 0.02, "absolute": 1e-3}
"""Finite differences of a loss, which may be computed in float32."""
Outputs = dict[str, Tensor]


@check("heads", count=8, batches=(1, 2, WHOLE_GROUPS))
def loss(harness: HeadHarness, example: Example) -> None:
    """The loss of a head's predictions is a finite scalar with finite gradients, of labels as declared. With labels of
    the forms that losses take: class ids, numbers, a number for each logit, or 0 or 1 for each.

    A loss that takes examples in groups may refuse the smaller batches, with an InputError.
    """
    instance, view, labelled = harness.make(), example.view, harness.part.labels
    if not labelled.strip():
        raise BrokenError("`labels` is empty: say in a sentence what `loss` takes, as 'int64 [b]: the class'")
    tensors = harness.draw(view, example.generator()).leaves()
    try:
        predicted = harness.predict(instance, tensors, view)
        found = losses(instance, predicted, example.generator(2))
    except BrokenError as error:
        if isinstance(error.__cause__, InputError) and view.batch < WHOLE_GROUPS:
            return
        raise
    form, labels, value = found[0]
    if value.dim():
        raise BrokenError(f"the loss has the shape {list(value.shape)} and must be a scalar")
    forms = declared_forms(labelled)
    taken = {form_of(each) for _, each, _ in found}
    if forms and not forms & taken:
        kind = f"{str(labels.dtype).removeprefix('torch.')} {list(labels.shape)}"
        raise BrokenError(f"`labels` says {labelled!r}, but the loss takes {form}: {kind}")
    if not value.requires_grad and any(each.requires_grad for each in predicted.values()):
        raise BrokenError("the loss has no gradient, so it trains nothing")
    check_finite(instance, tensors, Tensors([(Slot("loss", ()), value)]), "")


def _predictions(harness: HeadHarness, batch: int, length: int) -> tuple[Any, Outputs]:
    """A head, and predictions of it as leaves."""
    view = plain_view("causal" if "past" in harness.part.needs else "bidirectional", batch, length)
    instance = harness.make()
    return instance, _changed(harness.predict(instance, harness.draw(view), view), lambda t: t)


def _changed(outputs: Outputs, change: Any) -> Outputs:
    """The predictions with changed floats, as new leaves."""
    return {
        name: change(t.detach()).clone().requires_grad_() if t.is_floating_point() else t
        for name, t in outputs.items()
    }


@check("heads")
def loss_numerics(harness: HeadHarness) -> None:
    """A loss has the gradients of finite differences, changes nothing given, and is float32 at least. Along a random
    direction of each prediction; logits of order 1e4 and 1e-6, with other values of each option too; predictions in
    half precision.
    """
    instance, outputs = _predictions(harness, WHOLE_GROUPS, 4)
    generator = torch.Generator()
    predicted = {name: t.detach().clone() for name, t in outputs.items()}
    for form, labels, value in losses(instance, outputs, generator.manual_seed(1)):
        if outputs.keys() != predicted.keys():
            raise BrokenError(f"the loss adds to the predictions that it is given: {list(outputs)}")
        if value.is_floating_point() and value.dtype != torch.float64:
            meant = "where predictions are float64; use `at_least_float32`"
            raise BrokenError(f"the loss is {value.dtype} {meant}")
        before = predicted | {"the labels": labels.clone()}
        leaves = {n or "the prediction": t for n, t in outputs.items() if t.requires_grad}
        floats = {f"the loss with {form} by {name}": t for name, t in leaves.items()}
        assert_gradients(partial(instance.loss, outputs, labels), floats, generator.manual_seed(3), **SLOPES)
        for name, tensor in (outputs | {"the labels": labels}).items():
            what = f"{name or 'the prediction'} after the loss"
            assert_equal(tensor.detach(), before[name], what, tolerance=0.0)
    tried: list[tuple[str, Any]] = [("", harness)]
    for name, number in variations(harness.options):
        if type(number) is float:
            tried.append((f", {name} = {number!r}", with_option(harness, name, number)))
    for what, other in (each for each in tried if each[1] is not None):
        head, predictions = _predictions(other, WHOLE_GROUPS, 4)
        for scale in (1e4, 1e-6):
            scaled = _changed(predictions, lambda t, scale=scale: t * scale)
            form, _, value = losses(head, scaled, generator.manual_seed(1))[0]
            _check_finite(head, value, scaled, f"with logits of order {scale:g} and {form}{what}")
    half = _changed(outputs, Tensor.half)
    form, labels, value = losses(instance, half, generator.manual_seed(1))[0]
    if value.is_floating_point() and value.dtype.itemsize < 4:
        raise BrokenError(f"the loss of float16 predictions is {value.dtype}; compute it in float32")
    exact = instance.loss(_changed(half, Tensor.double), labels).detach()
    assert_equal(
        value.detach().double(), exact.double(), f"the loss of float16 predictions with {form}", 1e-3
    )


def _check_finite(instance: Any, value: Tensor, outputs: Outputs, what: str) -> None:
    predictions = Tensors((Slot(name or "the prediction", ()), t) for name, t in outputs.items())
    check_finite(instance, predictions, Tensors([(Slot("the loss", ()), value)]), what)


@check("heads")
def targets(harness: HeadHarness) -> None:
    """A loss is the mean over targets, of one row or many; labels of -100 count for nothing. Rows of a loss over class
    ids count by their targets; places of -100 hold any logits, in labels of every form where `labels` speaks of -100.
    """
    instance, outputs = _predictions(harness, 4, 3)
    logits, generator = next(iter(outputs.values())), torch.Generator().manual_seed(5)
    labels = torch.randint(0, logits.shape[-1], logits.shape[:-1], generator=generator)
    ids = _is_mean_of_rows(instance, outputs, labels)
    if ids:
        rows = torch.tensor([0, 0])
        twice, once = (_loss_of_rows(instance, outputs, labels, each) for each in (rows, rows[:1]))
        assert_equal(twice, once, "the loss of a row twice, against once", 1e-5)
        if labels.dim() > 1:
            _check_ignored_labels(instance, outputs, labels, True)
    forms = []
    if str(IGNORED) in harness.part.labels:
        instance, outputs = _predictions(harness, WHOLE_GROUPS, 3)
        forms = [each for form, each, _ in fitting_losses(instance, outputs, generator) if "-100" not in form]
        for labels in forms:
            _check_ignored_labels(instance, outputs, labels, False)
    if not ids and not forms:
        raise NotApplicableError(
            "its loss takes no class ids row by row, and `labels` does not speak of -100"
        )


def _loss_of_rows(instance: Any, outputs: Outputs, labels: Tensor, rows: Tensor) -> Tensor:
    found: Tensor = instance.loss(
        {name: value[rows] for name, value in outputs.items()}, labels[rows]
    ).double()
    return found


def _loss_of_each_row(instance: Any, outputs: Outputs, labels: Tensor) -> list[Tensor]:
    return [_loss_of_rows(instance, outputs, labels, row) for row in torch.arange(len(labels)).split(1)]


def _is_mean_of_rows(instance: Any, outputs: Outputs, labels: Tensor) -> bool:
    """Whether the loss takes these labels, for the batch and for each row alone; a loss that compares rows does not."""
    try:
        instance.loss(outputs, labels)
    except REFUSED:
        return False
    try:
        _loss_of_rows(instance, outputs, labels, torch.arange(3))
    except InputError:
        return False  # it takes rows in groups
    # Rows that are compared with each other: alone a row has nothing to be compared with.
    return any(float(value.detach()) for value in _loss_of_each_row(instance, outputs, labels))


def _check_ignored_labels(instance: Any, outputs: Outputs, labels: Tensor, ids: bool) -> None:
    hidden = labels.clone()
    if labels.dim() == 1:
        hidden[0] = IGNORED
    else:
        hidden[0, ..., 1:] = IGNORED
        hidden[1, ..., :1] = IGNORED
    counts = hidden != IGNORED

    def noisy(t: Tensor) -> Tensor:
        if t.shape[: counts.dim()] != counts.shape:
            return t
        return torch.where(counts.reshape(*counts.shape, *[1] * (t.dim() - counts.dim())), t, t + 3.0)

    value = instance.loss(outputs, hidden).double()
    noise = {name: noisy(t) for name, t in outputs.items()}
    assert_equal(
        instance.loss(noise, hidden).double(), value, "the loss with other logits where labels are -100", 1e-6
    )
    if ids:
        weights = counts.flatten(1).sum(1).double()
        mean = (torch.stack(_loss_of_each_row(instance, outputs, hidden)) * weights).sum() / weights.sum()
        assert_equal(
            value, mean, "the loss of rows with few and many targets, against the mean over targets", 1e-5
        )
    nothing = _changed(outputs, lambda t: t)
    empty = instance.loss(nothing, torch.full_like(labels, IGNORED))
    _check_finite(instance, empty, nothing, "where every label is -100")
    if float(empty.detach()):
        raise BrokenError(f"the loss is {float(empty.detach()):.4g} where every label is -100, and must be 0")
