"""Pair terms: what positions add to the scores and the values of attention; most are tables of vectors.

`pair_products` multiplies: heads come first and rows are flat, `q` [g, n, m, s] queries, `w` [g, n, m, y] scores or
weights. n is batch times length and m the heads that share a table; where a whole batch shares its ids, n is the
length and m counts the batch as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import torch.nn.functional as F
from torch import Tensor

from peirce.algebra import Scope, at_least_float32
from peirce.kernels import pair_products

Map = Callable[[Tensor], Tensor]


class PairTerm(Protocol):
    """What a position adds to the attention of one layer; a NamedTuple of tensors, or of such tuples.

    `PairBias` takes it from tables, `AtomBias` from atoms that the operator's own maps read, `DenseBias` has it for
    each pair, and a position may bring a term of its own.
    """

    def __iter__(self) -> Iterator[Any]:
        """The tensors that it is made of."""

    def part(self, items: slice, rows: slice) -> PairTerm:
        """The term of some rows x of some examples, for work on those rows alone."""

    def score_term(self, query: Tensor, key: Tensor, scores: Tensor, scope: Scope) -> Tensor | None:
        """What is added to the attention scores; None where it adds nothing.

        Args:
            query: [b, x, h, s], scaled as the attention scales it.
            key: [b, a, h, s], scaled likewise.
            scores: [b, x, a, h], of the operator itself; those outside the scope are arbitrary.
            scope: of the rows x.

        Returns:
            [b or 1, x, a, h or 1]; values outside the scope are not used.
        """

    def value_term(self, weights: Tensor) -> Tensor | None:
        """What is added to the values that each row sums, [b, x, h, s]; None where it adds nothing.

        Args:
            weights: [b, x, a, h], the attention weights.
        """


class PairBias(NamedTuple):
    """A table of vectors indexed by what two tokens are to each other.

    The vector of the pair (x, y) and head h is `table[rows[x], ids[x, y], h]`.

    Args:
        ids: int64 [b or 1, x, y] in [0, r): the pair's bucket.
        rows: int64 [b or 1, x] in [0, k): the row's kind; None when k is 1.
        key: [k, r, g, s], added to the keys that x's query meets; g is the number of heads, or 1 to share.
        query: [1, r, g, s], added to the query that meets y's key.
        value: [k, r, g, s], added to the values that x sums.
        score: [k, r, h], added to the score itself.
    """

    ids: Tensor
    rows: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    score: Tensor | None = None
    query: Tensor | None = None

    def part(self, items: slice, rows: slice) -> PairBias:
        """The bias of some rows x of some examples."""

        kinds = None if self.rows is None else rows_of(self.rows, items, rows)
        return self._replace(ids=rows_of(self.ids, items, rows), rows=kinds)

    def score_term(self, query: Tensor, key: Tensor, scores: Tensor, scope: Scope) -> Tensor | None:
        """As `pair_scores` gives it."""
        if self.key is None and self.query is None and self.score is None:
            return None
        return pair_scores(query, self, key)

    def value_term(self, weights: Tensor) -> Tensor | None:
        """As `pair_values` gives it."""
        return None if self.value is None else pair_values(weights, self)


class AtomBias(NamedTuple):
    """A pair bias before its vectors are made, by the maps of queries and keys of the operator that scores pairs.

    Args:
        ids: int64 [b or 1, x, y] in [0, r): the pair's bucket.
        key: atoms [r, d1] that the map of keys reads; None where no query meets anything.
        query: atoms [r, d1] that the map of queries reads; None where no key meets anything.
    """

    ids: Tensor
    key: Tensor | None = None
    query: Tensor | None = None

    def read(self, query_map: Map, key_map: Map, heads: int, size: int) -> PairBias:
        """The bias, by maps [r, d1] -> [r, h * s]; with fewer heads of keys, each serves a group of queries."""
        found = []
        for atoms, each in ((self.key, key_map), (self.query, query_map)):
            vectors = None if atoms is None else each(atoms).view(1, len(atoms), -1, size)
            if vectors is not None and vectors.shape[2] != heads:
                vectors = vectors.repeat_interleave(heads // vectors.shape[2], 2)
            found.append(vectors)
        return PairBias(self.ids, key=found[0], query=found[1])

    def part(self, items: slice, rows: slice) -> AtomBias:
        """The bias of some rows x of some examples."""
        return self._replace(ids=rows_of(self.ids, items, rows))

    def score_term(self, query: Tensor, key: Tensor, scores: Tensor, scope: Scope) -> Tensor | None:
        """That of what `read` returns."""
        raise AssertionError("an AtomBias is read before it is added")

    def value_term(self, weights: Tensor) -> Tensor | None:
        """Nothing."""
        return None


class DenseBias(NamedTuple):
    """A number for each pair, which is added to its score.

    Args:
        scores: [b or 1, x, a, h or 1].
    """

    scores: Tensor

    def part(self, items: slice, rows: slice) -> DenseBias:
        """The bias of some rows x of some examples."""
        return DenseBias(rows_of(self.scores, items, rows))

    def score_term(self, query: Tensor, key: Tensor, scores: Tensor, scope: Scope) -> Tensor | None:
        """The numbers themselves, in the dtype of the queries."""
        return self.scores.to(query.dtype)

    def value_term(self, weights: Tensor) -> Tensor | None:
        """Nothing."""
        return None


def rows_of(values: Tensor, items: slice, rows: slice) -> Tensor:
    """What values [b or 1, x, ...] have of some rows x of some examples."""
    return values[items if len(values) > 1 else slice(None), rows]


def pair_scores(query: Tensor, bias: PairBias, key: Tensor | None = None) -> Tensor:
    """What a pair bias adds to attention scores: queries and keys times their pairs' vectors, and its own score.

    Args:
        query: [b, x, h, s], scaled as the attention scales it.
        bias: its `key`, `query` and `score` are used; what is None adds nothing.
        key: [b, y, h, s], scaled likewise; a bias with `query` needs it.

    Returns:
        [b, x, y, h], in the dtype of `query`; it may be a view with any strides.
    """
    batch, length, heads, _ = query.shape
    total = None
    if bias.key is not None:
        layout = _Layout.of(bias, bias.key, batch, length, heads)
        table = _head_first(bias.key, query)
        total = layout.unpack(
            pair_products.score(layout.pack(query), table, layout.ids, layout.rows)
        ).transpose(2, 3)
    if bias.query is not None:
        # The same product with the parts of x and y exchanged.
        assert key is not None, "a pair bias with `query` needs the keys [b, y, h, s]"
        assert len(bias.query) == 1, "a pair bias with `query` has one kind of rows"
        term = pair_scores(key, PairBias(bias.ids.transpose(1, 2), key=bias.query)).transpose(1, 2)
        total = term if total is None else total + term
    if bias.score is not None:
        kinds, buckets, _ = bias.score.shape
        ids = bias.ids if kinds == 1 else bias.ids + _rows(bias).unsqueeze(2) * buckets
        # The gradient adds up over a whole batch: not in half precision.
        numbers = at_least_float32(bias.score.reshape(kinds * buckets, heads))
        term = F.embedding(ids, numbers).to(query.dtype)
        total = term.expand(batch, -1, -1, -1) if total is None else total + term
    if total is None:
        return query.new_zeros(batch, length, bias.ids.shape[2], heads)
    return total


def pair_values(weights: Tensor, bias: PairBias) -> Tensor:
    """What a pair bias adds to the values that attention sums: each row's weighted value vectors.

    Args:
        weights: [b, x, y, h], the attention weights.
        bias: its `value` is used.

    Returns:
        [b, x, h, s], in the dtype of `weights`; it may be a view with any strides.
    """
    assert bias.value is not None, "this pair bias has no value table"
    batch, length, _, heads = weights.shape
    layout = _Layout.of(bias, bias.value, batch, length, heads)
    table = _head_first(bias.value, weights)
    return layout.unpack(
        pair_products.mix(layout.pack(weights.transpose(2, 3)), table, layout.ids, layout.rows)
    )


def _head_first(table: Tensor, like: Tensor) -> Tensor:
    """[k, r, g, s] -> [k, g, r, s], in the dtype that the attention computes in."""
    return table.to(like.dtype).transpose(1, 2)


def _rows(bias: PairBias) -> Tensor:
    assert bias.rows is not None, "a pair bias with several kinds of rows needs `rows`, int64 [b or 1, x]"
    return bias.rows


class _Layout(NamedTuple):
    """How [b, x, h, c] maps to [g, n, m, c] and back, and the ids and kinds of the flat rows."""

    ids: Tensor
    rows: Tensor | None
    batch: int
    length: int
    heads: int
    groups: int
    shared: bool

    @classmethod
    def of(cls, bias: PairBias, table: Tensor, batch: int, length: int, heads: int) -> _Layout:
        rows = None if table.shape[0] == 1 else _rows(bias)
        ids = bias.ids
        shared = ids.shape[0] == 1 and (rows is None or rows.shape[0] == 1)
        if not shared:
            ids = ids.expand(batch, -1, -1)
            rows = None if rows is None else rows.expand(batch, -1)
        ids = ids[0] if shared else ids.reshape(batch * length, ids.shape[2])
        flat = None if rows is None else rows.flatten()
        return cls(ids, flat, batch, length, heads, table.shape[2], shared)

    def pack(self, values: Tensor) -> Tensor:
        """[b, x, h, c] -> [g, n, m, c]."""
        channels = values.shape[3]
        if self.shared:
            flat = values.transpose(0, 1)
        else:
            flat = values.reshape(self.batch * self.length, 1, self.heads, channels)
        if self.groups > 1:
            return flat.permute(2, 0, 1, 3)
        return flat.reshape(1, flat.shape[0], flat.shape[1] * self.heads, channels)

    def unpack(self, values: Tensor) -> Tensor:
        """[g, n, m, c] -> [b, x, h, c]."""
        channels = values.shape[3]
        if self.groups > 1:
            flat = values.permute(1, 2, 0, 3)
        else:
            each = self.batch if self.shared else 1
            flat = values.reshape(values.shape[1], each, self.heads, channels)
        if self.shared:
            return flat.transpose(0, 1)
        return flat.reshape(self.batch, self.length, self.heads, channels)
