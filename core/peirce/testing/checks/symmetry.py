"""What a part may not depend on: other examples, the order of tokens, padding, the future."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from hypothesis import strategies as st

from peirce.parts import RecurrentOperator
from peirce.testing.check import Case, check, holds
from peirce.testing.checks.declared import NETWORK
from peirce.testing.compare import same, zero
from peirce.testing.failures import NotApplicableError
from peirce.testing.strategies import Example
from peirce.testing.subjects import Subject
from peirce.testing.views import Slot, View, both, plain_view, unpadded

LENGTHS = st.integers(1, 5) | st.sampled_from([17, 19])
"""Short ones, and some beyond one block of the causal fast path."""
MANY = 67
"""Examples of a large batch."""


@check(*NETWORK, contract="an example's result depends on that example alone, wherever it stands in a batch")
def batch(case: Case) -> None:
    """In another order, alone, and in a batch that is far larger than others."""

    def body(subject: Subject, example: Example) -> None:
        view = example.view
        tensors = subject.draw(view, example.generator())
        results = subject.once(tensors, view)
        for order in (torch.arange(view.batch).flip(0), torch.tensor([view.batch - 1])):
            chosen = [slot.batches(tensor, order) for slot, tensor in both(subject.reads(), tensors)]
            others = subject.once(chosen, view.batches(order))
            for (slot, result), (_, other) in zip(results, others, strict=True):
                what = f"{slot.name} of the examples {order.tolist()} of the batch"
                same(other, slot.batches(result, order), what)

    def many(subject: Subject) -> None:
        view = plain_view(subject.kinds[-1], 2, 3)
        tensors, order = subject.draw(view, torch.Generator().manual_seed(0)), torch.arange(MANY) % 2
        copies = [slot.batches(tensor, order) for slot, tensor in both(subject.reads(), tensors)]
        results, others = subject.once(tensors, view), subject.once(copies, view.batches(order))
        for (slot, result), (_, other) in zip(results, others, strict=True):
            same(other, slot.batches(result, order), f"{slot.name} of two examples among {MANY} like them")

    def each(subject: Subject) -> None:
        holds(subject, body, batches=st.integers(2, 3))
        if subject.kinds:
            many(subject)

    case.each(each)


def _has_no_order(part: type[Any]) -> bool:
    return not issubclass(part, RecurrentOperator)


@check(
    "operators",
    contract="permuting the tokens, pairs and scope together permutes the result",
    covers=_has_no_order,
)
def token_permutation(case: Case) -> None:
    """Unary tokens, both axes of binary atoms, and both axes of the scope."""

    def body(subject: Subject, example: Example) -> None:
        view = example.view
        order = torch.randperm(view.length, generator=example.generator(1))
        tensors = subject.draw(view, example.generator())
        moved = [slot.pick(tensor, order) for slot, tensor in both(subject.reads(), tensors)]
        results = subject.once(tensors, view)
        for (slot, result), (_, other) in zip(
            results, subject.once(moved, view.reordered(order)), strict=True
        ):
            same(
                other, slot.pick(result, order), f"{slot.name} with the tokens in the order {order.tolist()}"
            )

    def each(subject: Subject) -> None:
        # Causal and prefix scopes become relations when their tokens are permuted.
        kinds = subject.kinds if "relation" in subject.kinds else ("bidirectional",)
        holds(subject, body, kinds=kinds)

    case.each(each)


@check(
    "operators",
    contract="the form of a scope does not matter: a fast path gives what the relation gives",
    covers=_has_no_order,
)
def scope_forms(case: Case) -> None:
    """Padding, causal and prefix scopes against the same scope as a plain relation."""

    def body(subject: Subject, example: Example) -> None:
        view = example.view
        tensors = subject.draw(view, example.generator(), scale=(1.0, 30.0)[example.seed % 2])
        plain = subject.once(tensors, view, view.materialised())
        for (slot, result), (_, expected) in zip(subject.once(tensors, view), plain, strict=True):
            same(result, expected, f"{slot.name} in the scope's own form, against its relation")

    def each(subject: Subject) -> None:
        if "relation" not in subject.kinds:
            raise NotApplicableError("it is about scopes as relations, which the part refuses")
        holds(subject, body, kinds=("bidirectional", "causal", "prefix"), lengths=LENGTHS)

    case.each(each)


@check(
    *NETWORK,
    contract="padding changes nothing: neither what stands there, nor how much there is, nor on which side",
)
def padding(case: Case) -> None:
    """What real tokens get, with other values at padding; and each example alone, without any padding."""

    def body(subject: Subject, example: Example) -> None:
        view = example.view
        assert view.real is not None
        tensors = subject.draw(view, example.generator())
        results = subject.once(tensors, view)
        noise = subject.draw(view, example.generator(1), scale=50.0)
        noisy = [
            slot.mixed(tensor, other, ~view.real)
            for (slot, tensor), other in zip(both(subject.reads(), tensors), noise, strict=True)
        ]
        changed = subject.once(noisy, view)
        for i in range(view.batch):
            where = unpadded(view, i)
            alone = [slot.example(tensor, i, where) for slot, tensor in both(subject.reads(), tensors)]
            expected = subject.once(alone, view.example(i, where))
            for (slot, result), (_, other), (_, single) in zip(results, changed, expected, strict=True):
                tokens = f"{slot.name} of example {i} at its real tokens {where.tolist()}"
                same(
                    slot.example(other, i, where),
                    slot.example(result, i, where),
                    f"{tokens}, other padding content",
                )
                same(slot.example(result, i, where), single, f"{tokens}, against the example without padding")

    case.each(lambda subject: holds(subject, body, padded=True, count=2 * subject.examples))


@check(
    "heads",
    "architectures",
    contract="what is given of padding and of pairs outside the scope is exactly zero",
)
def outside(case: Case) -> None:
    """Outputs that speak of tokens or of pairs."""

    def body(subject: Subject, example: Example) -> None:
        view = example.view
        assert view.real is not None
        tensors = subject.draw(view, example.generator())
        for slot, result in subject.once(tensors, view):
            if not result.is_floating_point() or slot.tokens not in ((1,), (1, 2)):
                continue
            out = ~view.real if len(slot.tokens) == 1 else ~view.allowed()
            zero(result[out], f"{slot.name} outside the scope")

    case.each(lambda subject: holds(subject, body, padded=True, count=4))


@check(
    "operators",
    "architectures",
    contract="in causal and prefix scopes nothing depends on what may not be seen, softmax denominators included",
)
def no_look_ahead(case: Case) -> None:
    """The past stays as it is when the future changes, far-apart logits included, and when there is none."""

    def body(subject: Subject, example: Example) -> None:
        view = example.view
        cut = _cut(view, example.seed)
        past = torch.arange(cut)
        tensors = subject.draw(view, example.generator(), scale=(1.0, 100.0)[example.seed // 2 % 2])
        other = subject.draw(view, example.generator(1), scale=(1.0, 3e3)[example.seed % 2])
        future = (torch.arange(view.length) >= cut).expand(view.batch, -1)
        changed = [
            slot.mixed(tensor, new, future)
            for (slot, tensor), new in zip(both(subject.reads(), tensors), other, strict=True)
        ]
        cut_off = [slot.pick(tensor, past) for slot, tensor in both(subject.reads(), tensors)]
        results = subject.once(tensors, view)
        for what, others in (
            ("with another future", subject.once(changed, view)),
            ("with no future", subject.once(cut_off, _until(view, cut))),
        ):
            for (slot, result), (_, new) in zip(results, others, strict=True):
                if _is_past(slot):
                    name = f"it looks at the future: {slot.name} of the first {cut} tokens {what}"
                    same(slot.pick(new, past), slot.pick(result, past), name, tolerance=1e-11)

    def each(subject: Subject) -> None:
        lengths = LENGTHS if not subject.module else None
        holds(subject, body, kinds=("causal", "prefix"), lengths=lengths, count=2 * subject.examples)

    case.each(each)


def _cut(view: View, seed: int) -> int:
    """Where the future begins: after some token such that no token before it sees it or anything later."""
    allowed, cut = view.allowed(), 1 + seed % view.length
    while bool(allowed[:, :cut, cut:].any()):
        cut += 1
    return cut


def _until(view: View, cut: int) -> View:
    """The view of the first tokens."""
    real = None if view.real is None else view.real[:, :cut]
    return attrs.evolve(view, length=cut, real=real)


def _is_past(slot: Slot) -> bool:
    """Whether an output speaks of tokens; a pooled one may depend on the whole sequence."""
    return bool(slot.tokens)
