"""Labels of the usual forms, and the losses of a head that takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from peirce.errors import InputError
from peirce_testing.compare import BrokenError

WHOLE_GROUPS = 12
"""A batch that is a whole number of groups of 2, 3, 4 or 6, as losses that compare rows may take them."""
REFUSED = (RuntimeError, ValueError, TypeError, IndexError)
"""What a loss raises of labels that it does not take."""


def _forms(logits: Tensor, generator: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    """Labels of the usual forms, with what each is called."""
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
    found, errors, refused = [], ["the loss takes labels of none of the usual forms"], None
    for form, labels in _forms(next(iter(outputs.values())), generator):
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
