"""What the strategies promise to checks and to authors: scopes, masks, sizes, tokens, channels and specs."""

from __future__ import annotations

import torch
from hypothesis import find, given
from hypothesis import strategies as st

from peirce.algebra import Scope
from peirce.compose import build
from peirce.parts import Dims
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_testing import examples, strategies
from peirce_testing.check import on_examples
from peirce_testing.examples import SCOPE_KINDS, Example, View
from peirce_testing.harness.base import Harness
from peirce_testing.harness.sized import OperatorHarness
from peirce_testing.stub_parts import Sum, with_stub_parts


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
        where = view.real_places(i)
        assert torch.equal(view.example(i, where).allowed()[0], view.allowed()[i][where][:, where])


@given(strategies.dims(), strategies.scopes(("causal",)), st.data())
def test_authors_draw_sizes_scopes_tokens_and_channels(dims: Dims, scope: Scope, data: st.DataObject) -> None:
    assert dims.unary == dims.heads * dims.head_size
    assert scope.causal
    ids = data.draw(strategies.tokens(2, 3, dims.vocabulary))
    assert (ids.shape, ids.dtype) == ((2, 3), torch.int64)
    assert int(ids.max()) < dims.vocabulary
    values = data.draw(strategies.channels(2, dims.unary, dtype=torch.float32))
    assert (values.shape, values.dtype) == ((2, dims.unary), torch.float32)


@given(st.from_type(Dims), st.from_type(Scope))
def test_hypothesis_finds_them_by_the_types(dims: Dims, scope: Scope) -> None:
    assert dims.unary == dims.heads * dims.head_size
    assert scope.pairs is None or scope.pairs.dim() == 3


@given(strategies.specs(with_stub_parts(Registry.of())))
def test_specs_are_models(spec: Spec) -> None:
    build(spec, registry=with_stub_parts(Registry.of()))


def test_the_smallest_example_is_one_token_at_the_smallest_sizes() -> None:
    example, dims = find(strategies.examples(), lambda drawn: True)
    assert (example.view.batch, example.view.length, example.view.real) == (1, 1, None)
    assert (dims.heads, dims.head_size, dims.binary) == (1, 1, 1)


def test_each_kind_of_scope_is_always_tried_padded_and_not() -> None:
    for padded, sides in ((None, {True, False}), (True, {True}), (False, {False})):
        found = examples.certain(SCOPE_KINDS, padded)
        tried = {(example.view.kind, example.view.real is not None) for example, _ in found}
        assert tried == {(kind, side) for kind in SCOPE_KINDS for side in sides}
        for example, sizes in found:
            assert example.view.allowed().any(2).all() or example.view.real is not None
            assert sizes.unary == sizes.heads * sizes.head_size


def test_every_run_tries_the_same() -> None:
    harness = OperatorHarness(Sum, Sum.Options(), "its example options")

    def tried() -> list[str]:
        names: list[str] = []

        def body(sized: Harness, example: Example) -> None:
            names.append(f"{sized.sizes} {example}")

        on_examples(harness, body)
        return names

    assert len(tried()) >= 10
    assert tried() == tried()
