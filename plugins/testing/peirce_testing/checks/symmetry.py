"""What a part may not depend on: other examples, the order of tokens, padding, the future."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import torch
from torch import Tensor

from peirce.parts import RecurrentOperator
from peirce_testing.check import NETWORK, check, on_examples
from peirce_testing.compare import (
    BrokenError,
    NotApplicableError,
    assert_all_equal,
    assert_equal,
    assert_zero,
)
from peirce_testing.examples import Example, Slot, Tensors, View, plain_view
from peirce_testing.harness.base import Harness
from peirce_testing.harness.sized import HeadHarness, TokenHarness

LENGTHS = (1, 2, 3, 4, 5, 17, 19)
"""Short ones, and some beyond one block of the causal fast path."""
ATOMS = {"unary", "binary"}
"""What an operator with parameters reads, of whichever tokens it likes where its rule is `reduce`."""
MANY = 67
"""Examples of a large batch."""


@check(*NETWORK)
def batch(harness: Harness) -> None:
    """An example's result depends on that example alone, wherever it stands in a batch. In another order, alone, among
    three, and in a batch that is far larger than others.
    """

    def chosen(harness: Harness, view: View, tensors: Tensors, order: Tensor, what: str) -> None:
        results = harness.once(tensors, view)
        assert_all_equal(
            harness.once(tensors.batches(order), view.batches(order)), results.batches(order), what
        )

    def body(harness: Harness, example: Example) -> None:
        view, tensors = example.view, harness.draw(example.view, example.generator())
        every = torch.arange(view.batch)
        for order in (every.flip(0), every.roll(1), every[-1:]):
            chosen(harness, view, tensors, order, f"of the examples {order.tolist()} of the batch")

    on_examples(harness, body, batches=(2, 3, 4))
    view = plain_view(harness.kinds[-1], 2, 3)
    for size in (1, 3, MANY):
        chosen(
            harness,
            view,
            harness.draw(view),
            torch.arange(size) % 2,
            f"of two examples among {size} like them",
        )


@check("operators", but=RecurrentOperator)
def token_permutation(harness: Harness) -> None:
    """Permuting the tokens, pairs and scope together permutes the result. Unary tokens, both axes of binary atoms, and
    both axes of the scope, whose fast forms give what a relation gives.
    """

    def body(harness: Harness, example: Example) -> None:
        order = torch.randperm(example.view.length, generator=example.generator(1))
        tensors = harness.draw(example.view, example.generator(), scale=(1.0, 30.0)[example.seed % 2])
        check_permutation(harness, example.view, tensors, order)

    # Causal and prefix scopes become relations when their tokens are permuted.
    kinds = harness.kinds if "relation" in harness.kinds else ("bidirectional",)
    on_examples(harness, body, kinds=kinds, lengths=LENGTHS)


def check_permutation(harness: Harness, view: View, tensors: Tensors, order: Tensor) -> None:
    """Compare the results for reordered tokens with the reordered results."""
    results = harness.once(tensors, view)
    others = harness.once(tensors.pick(order), view.reorder(order))
    assert_all_equal(others, results.pick(order), f"with the tokens in the order {order[:9].tolist()}")


@check("operators", but=RecurrentOperator)
def locality(harness: Harness) -> None:
    """A result depends on the tokens that `scope_rule` and readers without `cached` name, and on no others.
    Everything else changes: the rows of other tokens, for a reader that is not cached; all but one token, for a rule
    `none`; all but two tokens and their relations, for a rule `pairwise`, and so that a rule `reduce` is one.
    """
    rule, reaches = harness.part.scope_rule, False

    def body(harness: Harness, example: Example) -> None:
        nonlocal reaches
        view, instance = example.view, harness.make()
        tensors, other = (harness.draw(view, example.generator(salt)) for salt in (0, 1))
        results = harness.once(tensors, view)
        x, y = (
            example.seed % view.length,
            (example.seed + 1 + example.seed // 2 % (view.length - 1)) % view.length,
        )
        mine = torch.arange(view.length) == x
        both = mine if rule == "none" else mine | (torch.arange(view.length) == y)
        attended = (
            {name for name, end in instance.readings().items() if end.cached} if not harness.module else ATOMS
        )

        def moved(kept: Callable[[Slot], Tensor | None]) -> Tensors:
            """The results where all has changed but what is kept of tokens or pairs; None keeps everything."""

            def changed(slot: Slot, tensor: Tensor, new: Tensor) -> Tensor:
                mask = kept(slot) if slot.tokens else None
                if mask is None:
                    return tensor
                return torch.where(
                    mask.view(1, *mask.shape, *[1] * (tensor.dim() - mask.dim() - 1)), tensor, new
                )

            pairs = zip(tensors, other, strict=True)
            return harness.once(Tensors((slot, changed(slot, t, new)) for (slot, t), (_, new) in pairs), view)

        def near(slot: Slot) -> Tensor:
            return both if len(slot.tokens) == 1 else both.unsqueeze(0) & both.unsqueeze(1)

        def rows(slot: Slot) -> Tensor:
            return mine if len(slot.tokens) == 1 else mine.unsqueeze(1).expand(-1, view.length)

        def here(slot: Slot, tensor: Tensor) -> Tensor:
            """The result of the token, of the pair, or of the row."""
            return tensor[:, x, y] if len(slot.tokens) == 2 and rule != "reduce" else tensor[:, x]

        changes = {f"what scope_rule = {rule!r} hides": moved(near)}
        if rule == "reduce":
            changes = {
                f"the reading {name!r} of other tokens, which is not `cached`,": moved(
                    lambda slot, name=name: rows(slot) if slot.name == name else None  # type: ignore[misc]
                )
                for name in (slot.name for slot, _ in tensors if slot.tokens and slot.name not in attended)
            }
        for hidden, found in changes.items():
            for (slot, one), (_, wanted) in zip(found, results, strict=True):
                what = f"{slot.name} of token {x}" + f" and the pair ({x}, {y})" * (rule == "pairwise")
                assert_equal(
                    here(slot, one), here(slot, wanted), f"{what}, where {hidden} has changed", 1e-11
                )
        if rule == "reduce" and not reaches:
            for (slot, one), (_, wanted) in zip(moved(near), results, strict=True):
                at = (slice(None), x, y)[: 1 + len(slot.tokens)]
                reaches = reaches or not torch.equal(one[at], wanted[at])

    for count in (6, 60):  # few channels, or a sparse scope, may show nothing
        if count == 6 or (rule == "reduce" and not reaches):
            on_examples(harness, body, padded=False, count=count, lengths=(3, 4, 5))
    if rule == "reduce" and not reaches:
        raise BrokenError(
            "scope_rule = 'reduce' is for sums over tokens, and no result depends on a third token"
        )


@check(*NETWORK, padded=True, factor=2)
def padding(harness: Harness, example: Example) -> None:
    """Padding changes nothing: neither what stands there, nor how much there is, nor on which side. What real tokens
    get, with other values at padding; and each example alone, without any padding.
    """
    view = example.view
    assert view.real is not None
    tensors = harness.draw(view, example.generator())
    results = harness.once(tensors, view)
    noise = harness.draw(view, example.generator(1), scale=50.0)
    changed = harness.once(tensors.replaced_where(noise, ~view.real), view)
    for i in range(view.batch):
        where = view.real_places(i)
        expected = results.example(i, where)
        alone = harness.once(tensors.example(i, where), view.example(i, where))
        tokens = f"of example {i} at its real tokens {where.tolist()}"
        assert_all_equal(changed.example(i, where), expected, f"{tokens}, other padding content")
        assert_all_equal(expected, alone, f"{tokens}, against the example without padding")


@check("heads", "architectures", padded=True, count=4)
def outside(harness: Harness, example: Example) -> None:
    """What is given of padding and of pairs outside the scope is exactly zero. Outputs that speak of tokens or of
    pairs.
    """
    view = example.view
    assert view.real is not None
    for slot, result in harness.once(harness.draw(view, example.generator()), view):
        if result.is_floating_point() and slot.tokens in ((1,), (1, 2)):
            out = ~view.real if len(slot.tokens) == 1 else ~view.allowed()
            assert_zero(result[out], f"{slot.name} outside the scope")


@check(*NETWORK)
def no_look_ahead(harness: Harness) -> None:
    """In causal and prefix scopes nothing depends on what may not be seen, softmax denominators included. The past
    stays as it is when the future changes, far-apart logits included, and when there is none. Of heads, those that need
    the past.
    """
    if isinstance(harness, HeadHarness) and "past" not in harness.part.needs:
        raise NotApplicableError("it may look ahead")
    if isinstance(harness, TokenHarness) and not isinstance(harness, HeadHarness):
        _check_past_of_tokens(harness)
        return

    def body(harness: Harness, example: Example) -> None:
        view, cut = example.view, _cut(example.view, example.seed)
        past = torch.arange(cut)
        tensors = harness.draw(view, example.generator(), scale=(1.0, 100.0)[example.seed // 2 % 2])
        other = harness.draw(view, example.generator(1), scale=(1.0, 3e3)[example.seed % 2])
        future = (torch.arange(view.length) >= cut).expand(view.batch, -1)
        results = harness.once(tensors, view)
        check_past(harness.once(tensors.replaced_where(other, future), view), results, past, "another future")
        check_past(harness.once(tensors.pick(past), view.until(cut)), results, past, "no future")

    lengths = LENGTHS[:5] if harness.module else LENGTHS
    on_examples(harness, body, kinds=("causal", "prefix"), lengths=lengths, factor=2)


def _check_past_of_tokens(harness: TokenHarness) -> None:
    """Where an augmenter or a position takes causal scopes; the future may be another text, whose places begin anew."""
    if harness.part.check(harness.options, harness.dims, "causal") is not None:
        raise NotApplicableError("it refuses causal scopes")
    for seed, length in enumerate((2, 4, 5, 6)):
        view, past = plain_view("causal", 2, length), torch.arange(length // 2)
        tensors, other = harness.draw(view, seed), harness.draw(view, seed + 100)
        future = (torch.arange(length) >= len(past)).expand(2, -1)
        anew = attrs.evolve(view, places=view.index % max(1, len(past)) + 0 * future)
        for what, places in (("", view), (" that is another text", anew)):
            given = tensors.replace_named("token_type_ids", future.long()) if what else tensors
            results = harness.once(given, places)
            changed = tensors.replaced_where(other, future).replace_named(
                "token_type_ids", given.get("token_type_ids")
            )
            check_past(harness.once(changed, places), results, past, f"another future{what}")
            check_past(
                harness.once(given.pick(past), places.until(len(past))), results, past, f"no future{what}"
            )


def check_past(others: Tensors, results: Tensors, past: Tensor, what: str) -> None:
    """Compare the results of the first tokens; a pooled output may depend on the whole sequence."""
    new, old = (Tensors(each for each in found if each[0].tokens).pick(past) for found in (others, results))
    assert_all_equal(
        new, old, f"of the first {len(past)} tokens with {what}: it looks at the future", tolerance=1e-11
    )


def _cut(view: View, seed: int) -> int:
    """Where the future begins: after some token such that no token before it sees it or anything later."""
    allowed, cut = view.allowed(), 1 + seed % view.length
    while bool(allowed[:, :cut, cut:].any()):
        cut += 1
    return cut
