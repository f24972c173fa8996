"""Hypothesis strategies of what parts are run on: sizes, masks, scopes, tokens, channels, and specs of small models.

    @given(scopes(("causal", "relation")), dims())
    def test_my_operator(scope, dims): ...

Each shrinks to one example of one token, to small sizes and to no padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from attrs import evolve
from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from torch import Tensor

from peirce.algebra import Scope
from peirce.compose import resolve
from peirce.errors import PeirceError
from peirce.parts import Dims
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_testing.examples import SCOPE_KINDS, SHAPES, Example, View, dims_of, normal
from peirce_testing.options import choices, example_options
from peirce_testing.tiny_models import example_heads, fit_scope, spec_with_heads, tiny_spec

if TYPE_CHECKING:
    from peirce_queries import Formula

SEEDS = st.integers(0, 2**16 - 1)
"""Seeds of values. What fails seldom depends on single values, and a seed is drawn and shrunk at once."""


@st.composite
def dims(draw: DrawFn) -> Dims:
    """Sizes of a small network, different where nothing forces them to be equal; `unary` is `heads * head_size`."""
    heads, size = draw(st.sampled_from(SHAPES))
    small = st.integers(1, 5)
    return evolve(
        dims_of(heads, size, draw(st.sampled_from((1, 2, 3, 4, 6))), 1), feedforward_unary=draw(small),
        feedforward_binary=draw(small), recurrent=draw(st.integers(1, 4)), pooled=draw(st.integers(1, 8)),
    )  # fmt: skip


@st.composite
def masks(draw: DrawFn, batch: int, length: int) -> Tensor:
    """bool [b, x], which tokens are real: one or more in each row, padding on either side or anywhere."""
    rows = []
    for _ in range(batch):
        count = draw(st.integers(1, length))
        row = [True] * count + [False] * (length - count)
        rows.append(draw(st.sampled_from([row, row[::-1]]) | st.permutations(row)))
    return torch.tensor(rows)


@st.composite
def relations(draw: DrawFn, batch: int, length: int, *, empty_rows: bool = False) -> Tensor:
    """bool [b, x, a], which tokens x attend to a; each to itself, unless rows may be empty."""
    count = batch * length**2
    bits = draw(st.integers(0, 2**count - 1))
    pairs = torch.tensor([bits >> place & 1 for place in range(count)]).bool().view(batch, length, length)
    return pairs if empty_rows else pairs | torch.eye(length, dtype=torch.bool)


@st.composite
def views(
    draw: DrawFn,
    kinds: Sequence[str] = SCOPE_KINDS,
    *,
    lengths: Sequence[int] = (1, 2, 3, 4, 5),
    batches: Sequence[int] = (1, 2, 4),
    padded: bool | None = None,
    empty_rows: bool = False,
) -> View:
    """Who sees whom in a batch.

    Args:
        draw: given by hypothesis.
        kinds: the kinds of scope to choose from.
        lengths: numbers of tokens to choose from.
        batches: numbers of examples to choose from.
        padded: whether there is padding; either when it is None.
        empty_rows: whether a real token may attend to nothing, in the kind `relation`.
    """
    length, batch = draw(st.sampled_from(lengths)), draw(st.sampled_from(batches))
    kind = draw(st.sampled_from(kinds))
    real = draw(masks(batch, length)) if padded or (padded is None and draw(st.booleans())) else None
    prefix = (
        draw(st.lists(st.integers(0, length), min_size=batch, max_size=batch)) if kind == "prefix" else None
    )
    relation = draw(relations(batch, length, empty_rows=empty_rows)) if kind == "relation" else None
    return View(kind, batch, length, real, None if prefix is None else torch.tensor(prefix), relation)


def scopes(
    kinds: Sequence[str] = SCOPE_KINDS, *, lengths: Sequence[int] = (1, 2, 3, 4, 5)
) -> SearchStrategy[Scope]:
    """Scopes of these kinds as a network makes them, padded or not."""
    return views(kinds, lengths=lengths).map(View.scope)


def tokens(batch: int, length: int, vocabulary: int) -> SearchStrategy[Tensor]:
    """Token ids, int64 [b, x], from 0 to below `vocabulary`."""
    shape = batch, length
    return _seeded(lambda generator: torch.randint(vocabulary, shape, generator=generator))


def channels(*shape: int, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> SearchStrategy[Tensor]:
    """Normally distributed values of a shape."""
    return _seeded(lambda generator: normal(shape, generator, dtype) * scale)


def _seeded(make: Callable[[torch.Generator], Tensor]) -> SearchStrategy[Tensor]:
    return SEEDS.map(lambda seed: make(torch.Generator().manual_seed(seed)))


@st.composite
def specs(draw: DrawFn, registry: Registry) -> Spec:
    """Specs of small models of a registry: an architecture, its options, a kind of scope, and one head or none."""
    part = registry.get("architectures", draw(st.sampled_from(registry.names("architectures"))))
    example = example_options(part)
    options = draw(st.sampled_from([example, *(chosen for _, chosen in choices(example))]))
    spec = tiny_spec(part, options, scope=draw(st.sampled_from(SCOPE_KINDS)), layers=draw(st.integers(1, 2)))
    heads = [(), *((head,) for _, head in example_heads(registry))]
    try:
        spec = spec_with_heads(fit_scope(spec, registry), *draw(st.sampled_from(heads)))
        resolve(spec, registry)
    except PeirceError:
        reject()
    return spec


def examples(kinds: Sequence[str] = SCOPE_KINDS, **which: object) -> SearchStrategy[tuple[Example, Dims]]:
    """What a check runs on once: a view, as `views` draws it, a seed of the values, and sizes of the part."""
    one = st.builds(Example, views(kinds, **which), SEEDS)  # type: ignore[arg-type]
    return st.tuples(one, dims())


def queries(atoms: SearchStrategy[Formula] | None = None, most: int = 6) -> SearchStrategy[Formula]:
    """Formulas of queries, of at most so many atoms; those of peirce-queries, which must be installed."""
    from peirce_queries import FREE, And, Atom, Constant, Not, Or, Variable

    def grow(inner: SearchStrategy[Formula]) -> SearchStrategy[Formula]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(st.builds(Not, inner), st.builds(And, several), st.builds(Or, several))

    names, variables = st.text("abcdef", min_size=1, max_size=8), st.integers(1, 12)
    terms = st.just(FREE) | variables.map(lambda i: Variable(f"e{i}")) | names.map(Constant)
    given = st.builds(Atom, names, terms, terms) if atoms is None else atoms
    return st.recursive(given, grow, max_leaves=most)
