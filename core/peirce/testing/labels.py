"""Labels for the loss of a head: those that its sentence `labels` declares, and the usual forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from peirce.errors import InputError
from peirce.testing.failures import BrokenError

WHOLE_GROUPS = 12
"""A batch that is a whole number of groups of 2, 3, 4 or 6, as losses that compare rows may take them."""
_REFUSED = (RuntimeError, ValueError, TypeError, IndexError)


def forms(logits: Tensor, generator: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    """Labels of the usual forms, with what each is called."""
    shape = logits.shape
    yield "class ids", torch.randint(0, shape[-1], shape[:-1], generator=generator)
    yield "numbers", torch.rand(shape[:-1], generator=generator, dtype=logits.dtype)
    yield "a number for each logit", torch.rand(shape, generator=generator, dtype=logits.dtype)
    yield "0 or 1 for each logit", torch.randint(0, 2, shape, generator=generator)
    if len(shape) > 1:
        yield "one of the tokens", torch.randint(0, shape[1], shape[:1], generator=generator)


def losses(
    head: Any, outputs: dict[str, Tensor], generator: torch.Generator
) -> list[tuple[str, Tensor, Tensor]]:
    """The forms that a head's loss takes: what each is called, the labels, and the loss.

    Raises:
        BrokenError: it takes none; caused by the first InputError, if it raised one.
    """
    found, errors, refused = [], [], None
    for form, labels in forms(next(iter(outputs.values())), generator):
        try:
            found.append((form, labels, head.loss(outputs, labels)))
        except _REFUSED as error:
            refused = refused or (error if isinstance(error, InputError) else None)
            errors.append(f"{form}: {str(error).splitlines()[0]}")
    if not found:
        raise BrokenError(
            "the loss takes labels of none of the usual forms\n" + "\n".join(errors)
        ) from refused
    return found


def declared(sentence: str) -> set[tuple[str, int]]:
    """The dtypes and numbers of axes that a head's `labels` names, such as `int64 [b, x]`."""
    found = re.findall(r"\b(int64|float|bool)\w*\s*\[([^\]]*)\]", sentence)
    return {(dtype, len([axis for axis in axes.split(",") if axis.strip()])) for dtype, axes in found}
