"""Pair biases: position terms inside attention, computed by bucket or by blocked gather, whichever is smaller."""

from __future__ import annotations

from attrs import frozen
from torch import Tensor


@frozen(eq=False)
class PairBias:
    """A table of vectors indexed by what two tokens are to each other.

    The vector of the pair (x, y) and head h is `table[rows[x], ids[x, y], h]`.

    Args:
        ids: int64 [b or 1, x, y] in [0, r): the pair's bucket.
        rows: int64 [b or 1, x] in [0, k): the row's kind; None when k is 1.
        key: [k, r, g, s], added to the keys that x's query meets; g is the number of heads, or 1 to share.
        value: [k, r, g, s], added to the values that x sums.
        score: [k, r, h], added to the score itself.
    """

    ids: Tensor
    rows: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    score: Tensor | None = None
