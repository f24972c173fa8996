"""Labels of the usual forms, and the losses of a head that takes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from peirce.errors import InputError
from peirce.parts import IGNORED
from peirce_testing.compare import BrokenError

WHOLE_GROUPS = 12
"""A batch that is a whole number of groups of 2, 3, 4 or 6, as losses that compare rows may take them."""
REFUSED = (RuntimeError, ValueError, TypeError, IndexError)
"""What a loss raises of labels that it does not take."""


def _forms(
    head: Any, outputs: Mapping[str, Tensor], generator: torch.Generator
) -> Iterator[tuple[str, Tensor]]:
    """Labels that the head gives an example of, or of the usual forms, with what each is called."""
    if (own := head.example_labels(outputs, generator)) is not None:
        yield "its example labels", own
        return
    logits = next(iter(outputs.values()))
    shape = logits.shape
    yield "class ids", torch.randint(0, shape[-1], shape[:-1], generator=generator)
    yield "numbers", torch.rand(shape[:-1], generator=generator, dtype=logits.dtype)
    yield "a number for each logit", torch.rand(shape, generator=generator, dtype=logits.dtype)
    yield "0 or 1 for each logit", torch.randint(0, 2, shape, generator=generator)
    if len(shape) > 1:
        yield "one of the tokens", torch.randint(0, shape[1], shape[:1], generator=generator)


def losses(
    head: Any, outputs: Mapping[str, Tensor], generator: torch.Generator
) -> list[tuple[str, Tensor, Tensor]]:
    """The forms that a head's loss takes: what each is called, the labels, and the loss.

    Raises:
        BrokenError: it takes none; caused by the first InputError, if it raised one.
    """
    unusual = "the loss takes labels of none of the usual forms; give some that it takes by `example_labels`"
    found, errors, refused = [], [unusual], None
    for form, labels in _forms(head, outputs, generator):
        try:
            found.append((form, labels, head.loss(outputs, labels)))
        except REFUSED as error:
            if "in-place" in str(error) or "inplace" in str(error):
                raise BrokenError(f"the loss changes a prediction or a label in place: {error}") from error
            refused = refused or (error if isinstance(error, InputError) else None)
            errors.append(f"{form}: {str(error).splitlines()[0]}")
    if not found:
        raise BrokenError("\n".join(errors)) from refused
    return found


def declared_forms(sentence: str) -> set[tuple[str, int]]:
    """The dtypes and numbers of axes that a head's `labels` names, such as `int64 [b, x]`."""
    found = re.findall(r"\b(int64|float|bool)\w*\s*\[([^\]]*)\]", sentence)
    return {(dtype, len([axis for axis in axes.split(",") if axis.strip()])) for dtype, axes in found}


def form_of(labels: Tensor) -> tuple[str, int]:
    """The dtype and the number of axes of labels, as `declared_forms` has them."""
    return "float" if labels.is_floating_point() else "int64", labels.dim()


def fitting_losses(
    head: Any, outputs: Mapping[str, Tensor], generator: torch.Generator
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """As `losses`, of the declared forms, where the head names them; then with some labels of -100 where these count
    for nothing."""
    found, forms = losses(head, outputs, generator), declared_forms(head.labels)
    for form, labels, loss in [each for each in found if form_of(each[1]) in forms] or found[:1]:
        yield form, labels, loss
        if str(IGNORED) in head.labels:
            some = labels.clone()
            some.view(-1)[::3] = IGNORED
            yield f"{form}, some of -100", some, head.loss(outputs, some)
