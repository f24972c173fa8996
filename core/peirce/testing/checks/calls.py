"""A part is a function: whatever happened before, beside it or to a copy of it, a call gives the same."""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout, suppress
from io import StringIO
from typing import Any

import numpy as np
import torch
from attrs import frozen
from torch import Tensor, nn

from peirce.testing.check import Case, check
from peirce.testing.checks.declared import NETWORK
from peirce.testing.checks.shared import left_alone
from peirce.testing.compare import same
from peirce.testing.failures import BrokenError
from peirce.testing.held import held
from peirce.testing.subjects import ArchitectureSubject, Outputs, Subject
from peirce.testing.subjects.sized import SizedSubject
from peirce.testing.views import View, plain_view
from peirce.testing.watching import Between, InTheMiddleError

PLACES = 12
"""Between how many of its operations a part is failed, or called from elsewhere."""
FEW_PLACES = 4
"""The same for a whole network, which takes a hundred times as long."""
PATIENCE = 2.0
"""Seconds for a call from another thread, which a part may make wait; it goes on later."""


@frozen
class Call:
    """One call, and what a part that was never used before gives."""

    view: View
    tensors: list[Tensor]
    expected: Outputs

    def on(self, subject: Subject, made: Any, when: str) -> Outputs:
        """Make the call on a part, and hold its outputs to what is expected."""
        results = subject.run(made, self.tensors, self.view)
        self.holds(results, when)
        return results

    def holds(self, results: Outputs, when: str) -> None:
        """Hold outputs to what is expected."""
        for (slot, result), (_, expected) in zip(results, self.expected, strict=True):
            same(result.detach(), expected, f"{slot.name} {when}")


def calls_of(subject: Subject) -> list[Call]:
    """Calls of several sizes; the first three have one size, and differ in their values, scope or padding."""
    kinds = subject.kinds
    first, last = kinds[0], kinds[min(1, len(kinds) - 1)]
    pads = View(
        kind=last, batch=2, length=4, real=torch.tensor([[True, True, True, False], [False, True, True, True]]),
        prefix=torch.tensor([1, 2]) if last == "prefix" else None,
        relation=torch.ones(2, 4, 4).tril().bool() if last == "relation" else None,
    )  # fmt: skip
    views = [
        plain_view(first, 2, 4),
        pads,
        plain_view(last, 2, 4),
        plain_view(first, 1, 1),
        plain_view(last, 3, 6),
    ]
    found = []
    for seed, view in enumerate(views):
        tensors = subject.draw(view, torch.Generator().manual_seed(seed))
        if isinstance(subject, ArchitectureSubject):
            subject.forget()
        expected = [(slot, result.detach().clone()) for slot, result in subject.once(tensors, view)]
        found.append(Call(view, tensors, expected))
    if isinstance(subject, ArchitectureSubject):
        subject.forget()
    return found


def modules(made: Any) -> list[nn.Module]:
    """The modules of what `Subject.make` gave; none for an operator without parameters."""
    return [
        each for each in (made.values() if isinstance(made, dict) else [made]) if isinstance(each, nn.Module)
    ]


@check(
    *NETWORK,
    contract="a call gives the same after any other: of other values, in another mode, or failed",
)
def calls(case: Case) -> None:
    """After others of one size, of other sizes, without gradients, in inference mode, and after failures."""

    def body(subject: Subject) -> None:
        given = calls_of(subject)
        made = subject.make()
        kept: list[tuple[Call, Outputs]] = []
        for i in (0, 1, 2, 0, 3, 4, 1, 0):
            kept.append(
                (given[i], given[i].on(subject, made, "after calls with other values, sizes and scopes"))
            )
        for _ in range(16 if isinstance(subject, SizedSubject) else 3):
            given[0].on(subject, made, "after many calls")
        for call, results in kept:
            call.holds(results, "of an earlier call, after later ones")
        for what, mode in (("without gradients", torch.no_grad), ("in inference mode", torch.inference_mode)):
            with mode():
                inside = [given[i].on(subject, made, what) for i in (1, 0)]
            _train(subject, made, given[0], f"after a call {what}")
            del inside
        fresh = subject.make()
        with torch.inference_mode():
            given[1].on(subject, fresh, "in inference mode, the first time")
            given[4].on(subject, fresh, "in inference mode, the first time")
        _train(subject, fresh, given[0], "after a first call in inference mode")
        for module in modules(made):
            module.train()
            module.eval()
        given[1].on(subject, made, "after train() and eval()")
        _after_failures(subject, made, given)
        _other_memory(subject, made, given[0])

    case.each(body, where=lambda subject: bool(subject.kinds))


def _train(subject: Subject, made: Any, call: Call, when: str) -> None:
    """A call with gradients, and its backward pass."""
    leaves = [t.detach().clone().requires_grad_() if t.is_floating_point() else t for t in call.tensors]
    results = subject.run(made, leaves, call.view)
    call.holds(results, when)
    wanted = [result.sum() for _, result in results if result.requires_grad]
    if wanted:
        torch.autograd.backward(torch.stack(wanted).sum())
    for module in modules(made):
        module.zero_grad()


def _after_failures(subject: Subject, made: Any, given: list[Call]) -> None:
    """Fail a call before some of its operations; the next call must not know of it."""

    def fail() -> None:
        raise InTheMiddleError("raised by the check `calls`, in the middle of a call")

    for place in _places(subject, lambda: subject.run(made, given[1].tensors, given[1].view)):
        with suppress(InTheMiddleError), Between([place], fail):
            subject.run(made, given[1].tensors, given[1].view)
        for i in (0, 1):
            given[i].on(subject, made, "after a call that failed in the middle")


def _places(subject: Subject, call: Callable[[], object]) -> list[int]:
    """Some of torch's operations in a call, the first and the last among them, by their number."""
    with Between(()) as counter:
        call()
    count, most = counter.count, PLACES if isinstance(subject, SizedSubject) else FEW_PLACES
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)}) if count else []


def _other_memory(subject: Subject, made: Any, call: Call) -> None:
    """The same values with another order of axes in memory."""
    strided = [t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() > 1 else t for t in call.tensors]
    call.holds(subject.run(made, strided, call.view), "from inputs that lie in memory in another order")


@check(*NETWORK, contract="a copy gives the same and shares nothing; calls from several threads do not mix")
def copies(case: Case) -> None:
    """A deep copy; and calls from another thread, between the operations of one that goes on."""

    def body(subject: Subject) -> None:
        given = calls_of(subject)
        made = subject.make()
        given[0].on(subject, made, "at first")
        twin = copy.deepcopy(made)
        given[1].on(subject, twin, "of a deep copy")
        with torch.no_grad():
            for module in modules(twin):
                for parameter in module.parameters():
                    parameter.add_(1)
        given[0].on(subject, made, "after a deep copy of the part has changed")
        errors: list[BaseException] = []
        threads: list[threading.Thread] = []

        def other() -> None:
            def call() -> None:
                try:
                    with torch.no_grad():
                        for i in (2, 3):
                            given[i].on(subject, made, "in another thread")
                except BaseException as error:
                    errors.append(error)

            threads.append(threading.Thread(target=call))
            threads[-1].start()
            threads[-1].join(PATIENCE)

        for context in (torch.no_grad(), nullcontext()):
            with context:
                places = _places(subject, lambda: subject.run(made, given[0].tensors, given[0].view))
                with Between(places, other):
                    results = subject.run(made, given[0].tensors, given[0].view)
            for thread in threads:
                thread.join()
            given[0].holds(results, "while other threads call it")
            if errors:
                raise errors[0]

    case.each(body, where=lambda subject: bool(subject.kinds))


@check(
    *NETWORK,
    contract="a part keeps nothing of a call: no tensor, and nothing that grows; it draws no random numbers, prints "
    "nothing, and changes nothing that the process shares",
)
def kept(case: Case) -> None:
    """What can be reached from the part, its class and its module, before and after calls; and the generators."""

    def body(subject: Subject) -> None:
        if isinstance(subject, ArchitectureSubject):
            subject.forget()
        with left_alone("__init__", but="the random state"):  # of which parameters are drawn
            made = subject.make()
        kinds = subject.kinds
        # Lengths that no other check has: a cache may know the others already.
        views = [plain_view(kinds[i % len(kinds)], 1 + i % 2, 20 + i) for i in range(5)]
        inputs = [subject.draw(view, torch.Generator().manual_seed(i)) for i, view in enumerate(views)]
        before, _ = held(made)
        state = torch.get_rng_state(), random.getstate(), repr(np.random.get_state())
        with left_alone("a call", but="the random state"), redirect_stdout(StringIO()) as printed:
            subject.run(made, inputs[0], views[0])
            _, sizes = held(made)
            for view, tensors in zip(views, inputs, strict=True):
                for mode in (nullcontext, torch.no_grad):
                    with mode():
                        subject.run(made, tensors, view)
        if said := printed.getvalue().strip():
            raise BrokenError(f"a call prints {said.splitlines()[0][:200]!r}; use logging, or say nothing")
        if not torch.equal(state[0], torch.get_rng_state()):
            raise BrokenError("it draws from torch's generator, though it is in evaluation mode")
        if state[1:] != (random.getstate(), repr(np.random.get_state())):
            raise BrokenError("it draws random numbers from Python or numpy, though it is in evaluation mode")
        after, grown = held(made)
        new = [(name, value) for key, (name, value) in after.items() if key not in before]
        if new:
            name, value = new[0]
            raise BrokenError(
                f"after calls it still holds a tensor of the shape {list(value.shape)}, at {name}"
            )
        larger = [name for name, size in grown.items() if size > sizes.get(name, size)]
        if larger:
            raise BrokenError(
                f"{larger[0]} grows with each call: {sizes[larger[0]]} entries, then {grown[larger[0]]}"
            )

    case.each(body, where=lambda subject: bool(subject.kinds))
