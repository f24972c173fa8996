"""Where limits lie: several hundred tokens, many heads, widths that are not multiples of eight, one of everything."""

from __future__ import annotations

import ast
import sys
from inspect import getsource
from typing import Any

import attrs
import torch

from peirce.parts import PureOperator, RecurrentOperator, StateOperator
from peirce_testing.check import NETWORK, check
from peirce_testing.checks.references import check_reference, states
from peirce_testing.checks.symmetry import check_permutation
from peirce_testing.compare import assert_all_equal, assert_finite, assert_gradients
from peirce_testing.examples import View, dims_of, plain_view
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import EXAMPLE, Harness
from peirce_testing.harness.sized import PositionHarness

LONG = 300
"""Tokens of a long text."""
WHERE = (0, 7, 131, 258, 299)
"""Where it has real tokens, in the half of the cases that has padding."""
MOST = 2100
"""The greatest number in a part's code beyond which a text is tried."""
FAR = 140
"""Tokens over which a position is held to its reference: distances beyond 128."""
CUBE = 48
"""Tokens of a long text where an operator may weigh every triple of them."""
WIDE = attrs.evolve(dims_of(17, 3, 13, 11), max_length=512, vocabulary=37)
NARROW = attrs.evolve(dims_of(1, 1, 1, 1), max_length=512)
UNEVEN = attrs.evolve(dims_of(3, 2, 4, 5), unary=7)
ONE = attrs.evolve(dims_of(1, 1, 1, 1), layers=1, token_types=1, vocabulary=2, max_length=1)


@check(*NETWORK)
def limits(harness: Harness) -> None:
    """A part works at every size: several hundred tokens, many heads, odd widths, one of everything. Few real tokens of
    many against these alone; many in another order; every size one, and every size odd.
    """
    kinds, wide, part = harness.kinds[:2], harness.resize(WIDE), harness.part
    typing = getattr(part, "typing", "")
    triples = (typing == "B <- B" and part.scope_rule == "reduce") or typing.startswith("B <- B x B x B")
    most = CUBE if triples else LONG
    cubic = typing.startswith("B <-") and getattr(part, "scope_rule", "") == "reduce"
    for kind in kinds:
        _finite(harness.resize(ONE), plain_view(kind, 1, 1), "with one of everything")
        _finite(harness.resize(UNEVEN), plain_view(kind, 2, 3), "of a width that is not that of its heads")
        _check_few_of_many(wide, kind, most, tuple(place * most // LONG for place in WHERE))
    _check_few_of_many(wide, kinds[-1], 6, (1, 2, 5))
    for beyond in _constants(part):
        sized = harness.resize(attrs.evolve(NARROW, max_length=beyond + 8))
        if sized.dims.max_length > beyond and not cubic:
            _check_few_of_many(sized, kinds[-1], beyond + 8, (0, 3, beyond - 1, beyond, beyond + 7))
    long = plain_view(kinds[0], 1, most)
    if issubclass(part, PureOperator | RecurrentOperator):
        view = plain_view(kinds[-1], 1, 3)
        check_reference(wide, view, wide.draw(view))
        # All of a long text: `reference` loops over pairs; over triples, that would take minutes.
        if not typing.startswith("B <- B x B"):
            narrow = harness.resize(NARROW)
            whole = long if harness.label == EXAMPLE else plain_view(kinds[0], 1, most // 4)
            check_reference(narrow, whole, narrow.draw(whole), maps=False)
        if issubclass(part, RecurrentOperator):
            _check_far_gradients(narrow)
    elif not isinstance(harness, ArchitectureHarness):
        _finite(wide, long, f"of {LONG} tokens")
        if states(part):
            view = plain_view(kinds[-1], 1, 3)
            check_reference(wide, view, wide.draw(view))
            if isinstance(harness, PositionHarness):
                narrow = harness.resize(NARROW)
                view = plain_view(kinds[0], 1, FAR if harness.label == EXAMPLE else FAR // 4)
                check_reference(narrow, view, narrow.draw(view))
    if issubclass(part, PureOperator | StateOperator) and "relation" in harness.kinds:
        small = harness.resize(attrs.evolve(dims_of(2, 2, 2, 2), max_length=512))
        length = min(most, 140 if typing.startswith("B <- B x B") else LONG)
        generator = torch.Generator().manual_seed(0)
        pairs = torch.rand(1, length, length, generator=generator) < 0.5
        view = View("relation", 1, length, relation=pairs | torch.eye(length, dtype=torch.bool))
        with torch.no_grad():
            order = torch.randperm(length, generator=generator)
            check_permutation(small, view, small.draw(view, generator), order)


def _check_far_gradients(harness: Harness) -> None:
    """Compare gradients through the steps of a long text with finite differences."""
    instance, view = harness.make(), plain_view(harness.kinds[0], 1, LONG)
    ((_, atoms),) = tensors = harness.draw(view).leaves()
    generator = torch.Generator().manual_seed(0)
    leaves = {f"the atoms of {LONG} tokens": atoms}
    assert_gradients(lambda: harness.run(instance, tensors, view)[0][1].sum(), leaves, generator)


def _constants(part: type[Any]) -> list[int]:
    """The greatest number in the code of a part's module that a text may be longer than, if one is beyond `LONG`."""
    try:
        tree = ast.parse(getsource(sys.modules[part.__module__]))
    except (OSError, TypeError, SyntaxError):
        return []  # a part that was not made from a file
    numbers = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return sorted(n for n in numbers if type(n) is int and LONG < n <= MOST)[-1:]


def _finite(harness: Harness, view: View, what: str) -> None:
    with torch.no_grad():
        for name, result in harness.once(harness.draw(view), view).floats().items():
            assert_finite(result, f"{name} {what}")


def _check_few_of_many(harness: Harness, kind: str, length: int, where: tuple[int, ...]) -> None:
    """Compare the results of few real tokens among much padding with those without it."""
    picked = torch.tensor(where)
    real = torch.zeros(1, length, dtype=torch.bool)
    real[0, picked] = True
    view = plain_view(kind, 1, length, real)
    if kind == "prefix":
        view = attrs.evolve(view, prefix=torch.tensor([2]))
    tensors, instance = harness.draw(view), harness.make()
    with torch.no_grad():
        results = harness.run(instance, tensors, view).example(0, picked)
        expected = harness.run(instance, tensors.example(0, picked), view.example(0, picked))
    assert_all_equal(
        results, expected, f"of the real tokens {list(where)} among {length}, against these alone"
    )
