"""What the strategies promise to the tests that use them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peirce.parts import Dims
from peirce.testing import strategies
from peirce.testing.check import holds
from peirce.testing.companions.attention import Score
from peirce.testing.subjects import OperatorSubject
from peirce.testing.views import SCOPE_KINDS, View


@given(strategies.views())
def test_every_real_token_sees_itself_and_none_sees_padding(view: View) -> None:
    allowed = view.allowed()
    real = torch.ones(view.batch, view.length, dtype=torch.bool) if view.real is None else view.real
    assert torch.equal(allowed.diagonal(dim1=1, dim2=2), real)
    assert not allowed[~real].any()
    assert not allowed.transpose(1, 2)[~real].any()
    assert real.any(1).all()


@given(strategies.views(("causal", "prefix")))
def test_a_view_cut_down_to_one_example_sees_what_it_saw(view: View) -> None:
    for i in range(view.batch):
        where = torch.arange(view.length) if view.real is None else view.real[i].nonzero().squeeze(1)
        alone = view.example(i, where)
        assert torch.equal(alone.allowed()[0], view.allowed()[i][where][:, where])


@given(st.data(), strategies.dims())
def test_atoms_are_zero_outside_the_scope(data: st.DataObject, sizes: Dims) -> None:
    view = data.draw(strategies.views())
    atoms = data.draw(strategies.predicates(sizes, view))
    assert atoms.binary is not None
    assert atoms.unary.shape == (view.batch, view.length, sizes.unary)
    assert atoms.binary.shape == (view.batch, view.length, view.length, sizes.binary)
    assert not atoms.binary[~view.allowed()].any()
    assert sizes.unary == sizes.heads * sizes.head_size


@pytest.mark.parametrize("padded", [None, True, False])
def test_each_kind_of_scope_is_always_tried_padded_and_not(padded: bool | None) -> None:
    found = strategies.certain(SCOPE_KINDS, padded)
    sides = {None: {True, False}, True: {True}, False: {False}}[padded]
    tried = {(example.view.kind, example.view.real is not None) for example, _ in found}
    assert tried == {(kind, side) for kind in SCOPE_KINDS for side in sides}
    for example, sizes in found:
        assert example.view.allowed().any(2).all() or example.view.real is not None
        assert sizes.unary == sizes.heads * sizes.head_size


def test_every_run_tries_the_same() -> None:
    """With CI set or not: what is drawn follows from the check alone."""
    subject = OperatorSubject(Score, Score.Options(), "its example options")

    def drawn() -> list[str]:
        found: list[str] = []
        holds(subject, lambda sized, example: found.append(f"{sized.sizes} {example}"))
        return found

    assert drawn() == drawn()


@given(strategies.scopes())
def test_scopes_are_of_every_kind_and_small(scope: object) -> None:
    assert len(SCOPE_KINDS) == 4
    pairs = getattr(scope, "pairs", None)
    assert pairs is None or pairs.shape[1] == pairs.shape[2] <= 5
