"""Parts that are built as `cls(options, dims)`: all kinds but architectures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from attrs import define, evolve
from torch import nn

from peirce.parts import Dims
from peirce.testing.composed import randomised
from peirce.testing.subjects.base import Subject
from peirce.testing.views import SCOPE_KINDS


@define
class SizedSubject(Subject):
    """A part that is built as `cls(options, dims)`."""

    @final
    def resized(self, dims: Dims) -> Subject:
        """See `Subject.resized`."""
        return evolve(self, dims=dims) if refusal(self.part, self.options, dims) is None else self

    @final
    def make(self, *, seed: int = 0, random: bool = True, dtype: torch.dtype = torch.float64) -> Any:
        """See `Subject.make`."""
        made = _seeded(lambda: self.part(self.options, self.dims), seed)
        if isinstance(made, nn.Module):
            made = made.to(torch.float64)
            if random:
                randomised(made, seed)
            made = made.to(dtype).eval()
        return made


def refusal(part: type[Any], options: Any, dims: Dims) -> str | None:
    """Why a part cannot work; None if it takes some kind of scope."""
    answers = [part.check(options, dims, kind) for kind in SCOPE_KINDS]
    return None if None in answers else str(answers[0])


def _seeded(make: Callable[[], Any], seed: int) -> Any:
    """What `make` gives when torch's own generator starts at a seed; the generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()
