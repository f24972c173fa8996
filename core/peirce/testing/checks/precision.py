"""Where a part computes: in the dtype that it is given, and on the device that it was moved to."""

from __future__ import annotations

from typing import Any

import torch

from peirce.testing.check import Case, check
from peirce.testing.checks.calls import modules
from peirce.testing.checks.declared import NETWORK
from peirce.testing.failures import BrokenError, NotApplicableError
from peirce.testing.subjects import Subject
from peirce.testing.views import View, plain_view
from peirce.testing.watching import Narrowing

_SAID = ("same device", "different device", "Expected all tensors", "cpu device", "on device")


@check(
    *NETWORK,
    contract="nothing is rounded inside: float64 stays float64 all the way, and float32 never becomes a half",
)
def precision(case: Case) -> None:
    """Every operation of a call in float64 and in float32, padded and not."""

    def body(subject: Subject) -> None:
        for dtype in (torch.float64, torch.float32):
            made = subject.make(dtype=dtype)
            for view in _views(subject):
                tensors = subject.draw(view, torch.Generator().manual_seed(0), dtype)
                with torch.no_grad(), Narrowing(dtype) as watched:
                    subject.run(made, tensors, view)
                for line, narrow in watched.found.items():
                    name, given = (str(each).removeprefix("torch.") for each in (narrow, dtype))
                    raise BrokenError(f"{name} inside, where the part is in {given}\n  {line}")

    case.each(body, where=lambda subject: bool(subject.kinds))


@check(
    *NETWORK,
    contract="a part computes where it is moved to: no table stays behind, and none is made elsewhere",
)
def devices(case: Case) -> None:
    """On torch's device without storage, which refuses tensors of another one as a GPU does."""

    def body(subject: Subject) -> None:
        made: Any = subject.make(seed=11, random=False)
        for module in modules(made):
            module.to("meta")
        try:
            _on_meta(subject, made)
        finally:
            forget = getattr(subject, "forget", None)
            if forget is not None:
                forget()

    case.each(body, where=lambda subject: bool(subject.kinds))


def _on_meta(subject: Subject, made: Any) -> None:
    for view in _views(subject):
        tensors = [t.to("meta") for t in subject.draw(view, torch.Generator().manual_seed(0))]
        try:
            results = subject.gives(made, tensors, view.on("meta"), view.on("meta").scope())
        except RuntimeError as error:
            if any(said in str(error) for said in _SAID) and "cpu" in str(error):
                raise BrokenError(
                    "a tensor stays on the CPU where the part is on another device; make it a buffer, or make it where "
                    f"the inputs are: {str(error).splitlines()[0]}"
                ) from error
            raise NotApplicableError(f"it needs values to compute: {str(error).splitlines()[0]}") from error
        for slot, result in results:
            if result.device.type != "meta":
                raise BrokenError(f"{slot.name} is on {result.device} where the part and its inputs are not")


def _views(subject: Subject) -> list[View]:
    kinds = subject.kinds
    found = []
    for kind in kinds[:2]:
        view = plain_view(kind, 2, 4)
        real = torch.tensor([[True, True, True, False], [False, True, True, True]])
        found += [
            view,
            View(kind=kind, batch=2, length=4, real=real, prefix=view.prefix, relation=view.relation),
        ]
    return found
