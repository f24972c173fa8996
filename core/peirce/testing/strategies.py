"""Hypothesis strategies: sizes, atoms, and scopes with the views that they come from.

Hypothesis chooses the structure (sizes, padding, who sees whom), which shrinks well; values come from a seed that it
chooses. Everything is tiny: a contract that breaks, breaks at length 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import evolve, frozen
from hypothesis import strategies as st
from torch import Tensor

from peirce.algebra import Predicates, Scope
from peirce.parts import Dims
from peirce.testing.views import SCOPE_KINDS, View

BASE = Dims(
    layers=2, unary=4, binary=3, heads=2, head_size=2, feedforward_unary=5, feedforward_binary=5,
    recurrent=3, pooled=7, vocabulary=11, token_types=2, max_length=40, pad_id=0,
)  # fmt: skip
"""The sizes that checks begin with: small, and different where nothing forces them to be equal."""


@frozen
class Example:
    """What one example of a property runs on: who sees whom, and the seed of the values."""

    view: View
    seed: int

    def generator(self, salt: int = 0) -> torch.Generator:
        """A generator of the example's values; another salt gives other values."""
        return torch.Generator().manual_seed(self.seed * 1009 + salt)

    def __repr__(self) -> str:
        return f"<{self.view}, seed {self.seed}>"


def sized(heads: int, size: int, binary: int, other: int) -> Dims:
    """Sizes of a network whose unary width is its heads times their size, as tied attention heads need."""
    return evolve(
        BASE, heads=heads, head_size=size, unary=heads * size, binary=binary, feedforward_unary=other,
        feedforward_binary=other, recurrent=other, pooled=other + 1,
    )  # fmt: skip


SHAPES = ((2, 2), (1, 3), (3, 2), (2, 3), (1, 1))
"""Heads and their sizes."""


def certain(
    kinds: Sequence[str], padded: bool | None = None, *, empty_rows: bool = False
) -> list[tuple[Example, Dims]]:
    """An example of each kind of scope, without padding and with it on both sides, each at other sizes.

    Args:
        kinds: the kinds of scope.
        padded: whether there are padding tokens; both when it is absent.
        empty_rows: whether a real token may see nothing, in the kind `relation`.
    """
    pads = torch.tensor([[True, True, True, False], [False, True, True, True]])
    related = torch.tensor([[1, 1, 0, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 1, 1]]).bool()
    if empty_rows:
        related = related & ~torch.tensor([[False], [True], [False], [False]])
    found: list[tuple[Example, Dims]] = []
    for kind in kinds:
        for real in (None, pads):
            if padded is not None and padded is (real is None):
                continue
            view = View(
                kind=kind, batch=2, length=4, real=real,
                prefix=torch.tensor([1, 2]) if kind == "prefix" else None,
                relation=torch.stack([related, related.T]) if kind == "relation" else None,
            )  # fmt: skip
            place = len(found)
            heads, size = SHAPES[place % len(SHAPES)]
            found.append((Example(view, place), sized(heads, size, 1 + place % 4, 1 + (place + 2) % 5)))
    return found


def seeds() -> st.SearchStrategy[int]:
    """A seed for the values of an example."""
    return st.integers(0, 2**16)


@st.composite
def dims(draw: st.DrawFn) -> Dims:
    """Sizes of a small network whose unary width is its heads times their size, as tied attention heads need."""
    heads, size = draw(st.sampled_from(SHAPES))
    return evolve(
        BASE, heads=heads, head_size=size, unary=heads * size, binary=draw(st.integers(1, 4)),
        feedforward_unary=draw(st.integers(1, 5)), feedforward_binary=draw(st.integers(1, 5)),
        recurrent=draw(st.integers(1, 4)), pooled=draw(st.integers(1, 8)),
    )  # fmt: skip


@st.composite
def views(
    draw: st.DrawFn,
    kinds: Sequence[str] = SCOPE_KINDS,
    *,
    lengths: st.SearchStrategy[int] | None = None,
    batches: st.SearchStrategy[int] | None = None,
    padded: bool | None = None,
    empty_rows: bool = False,
) -> View:
    """Who sees whom in a small batch.

    Args:
        draw: hypothesis's own.
        kinds: the kinds of scope to choose from.
        lengths: the number of tokens; 1 to 5 when it is absent.
        batches: the number of examples; 1 or 2 when it is absent.
        padded: whether there are padding tokens; either when it is absent.
        empty_rows: whether real tokens may see nothing, in the kind `relation`.
    """
    kind = draw(st.sampled_from(list(kinds)))
    length = draw(st.integers(1, 5) if lengths is None else lengths)
    batch = draw(st.integers(1, 2) if batches is None else batches)
    real = None
    if padded or (padded is None and draw(st.booleans())):
        rows = [draw(_real(length)) for _ in range(batch)]
        real = torch.tensor(rows)
    prefix = relation = None
    if kind == "prefix":
        prefix = torch.tensor([draw(st.integers(0, length)) for _ in range(batch)])
    if kind == "relation":
        bits = draw(st.lists(st.booleans(), min_size=batch * length**2, max_size=batch * length**2))
        relation = torch.tensor(bits).reshape(batch, length, length)
        if not empty_rows:
            relation = relation | torch.eye(length, dtype=torch.bool)
    return View(kind=kind, batch=batch, length=length, real=real, prefix=prefix, relation=relation)


@st.composite
def _real(draw: st.DrawFn, length: int) -> list[bool]:
    """Which tokens of one example are real: at least one; the padding to the right, to the left, or anywhere."""
    count = draw(st.integers(1, length))
    side = draw(st.sampled_from(["right", "left", "anywhere"]))
    row = [True] * count + [False] * (length - count)
    return row if side == "right" else row[::-1] if side == "left" else draw(st.permutations(row))


@st.composite
def examples(
    draw: st.DrawFn,
    kinds: Sequence[str] = SCOPE_KINDS,
    *,
    lengths: st.SearchStrategy[int] | None = None,
    batches: st.SearchStrategy[int] | None = None,
    padded: bool | None = None,
    empty_rows: bool = False,
) -> Example:
    """A view and a seed; arguments as `views` takes them."""
    drawn = views(kinds, lengths=lengths, batches=batches, padded=padded, empty_rows=empty_rows)
    return Example(view=draw(drawn), seed=draw(seeds()))


@st.composite
def scopes(draw: st.DrawFn, kinds: Sequence[str] = SCOPE_KINDS, *, padded: bool | None = None) -> Scope:
    """A scope over a small batch, in the form that the composer gives it."""
    return draw(views(kinds, padded=padded)).scope()


@st.composite
def predicates(draw: st.DrawFn, sizes: Dims, view: View, dtype: torch.dtype = torch.float64) -> Predicates:
    """Atoms as operators meet them: of order one, zero outside the scope."""
    generator = torch.Generator().manual_seed(draw(seeds()))
    scope = view.scope()
    unary = normal((view.batch, view.length, sizes.unary), generator, dtype)
    binary = None
    if sizes.binary:
        binary = normal((view.batch, view.length, view.length, sizes.binary), generator, dtype)
    return Predicates(scope.zero_unary(unary), None if binary is None else scope.zero_binary(binary))


def normal(shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normally distributed values, the same numbers in every dtype but for rounding."""
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64).to(dtype)
