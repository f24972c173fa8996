"""The products of pair biases, each with its derivatives: by bucket or by blocked gather, whichever is smaller.

The vector of a pair is looked up in a table, so two ways lead to a score. *By bucket*: multiply each query by
the whole table, r numbers a row and head, and look up each pair's number. *By gather*: look up each pair's
vector and multiply. Neither way ever holds a whole [b, x, y, s] tensor: rows are gathered in blocks, also in the
backward pass. A traced graph has no blocks: where buckets are many, its sums hold such a tensor
for one group of heads at a time.

Heads come first and rows are flat, so that both ways are plain batched products: `q` [g, n, m, s] queries, `w`
[g, n, m, y] scores or weights, `ids` [n, y], `rows` [n], `table` [k, g, r, s].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from peirce.algebra import at_least_float32
from peirce.kernels import sizes
from peirce.kernels.blocks import on_cpu

# --- three products of one trilinear form: each one's derivatives are the other two ---------------


def score(q: Tensor, table: Tensor, ids: Tensor, rows: Tensor | None) -> Tensor:
    """w[g, n, m, y] = sum_s q[g, n, m, s] table[rows[n], g, ids[n, y], s]."""
    if _is_traced(table):
        return _score_traced(q, table, ids, rows)
    return _product("w", q, None, table, ids, rows)


def mix(w: Tensor, table: Tensor, ids: Tensor, rows: Tensor | None) -> Tensor:
    """q[g, n, m, s] = sum_y w[g, n, m, y] table[rows[n], g, ids[n, y], s]."""
    if _is_traced(table):
        return _mix_traced(w, table, ids, rows)
    return _product("q", None, w, table, ids, rows)


def _is_traced(table: Tensor) -> bool:
    return torch.compiler.is_compiling() or table.is_meta


Third = Literal["q", "w", "table"]
"""Which of the three a product gives, from the other two. table[k, g, r, s] is the sum of q[g, n, m, s] w[g, n, m, y]
over the pairs of kind k and bucket r."""


def _product(
    third: Third, q: Tensor | None, w: Tensor | None, table: Tensor, ids: Tensor, rows: Tensor | None
) -> Tensor:
    order = None
    if rows is not None and not on_cpu(
        table
    ):  # one kind with all buckets: nothing waits until rows are counted
        ids, rows = ids + rows.unsqueeze(1) * table.shape[2], None
        table = table.transpose(0, 1).flatten(1, 2).unsqueeze(0)
    if rows is not None:
        # Rows of one kind come together, and among them those whose buckets have the lowest numbers come first.
        order = (rows * table.shape[2] + ids.amax(1)).argsort(stable=True)
    return _products([third], q, w, table, ids, rows, order, table.shape)[0]


def _products(wanted: Sequence[Third], *args: Any) -> tuple[Tensor, ...]:
    return _Products.apply(wanted, *args)  # type: ignore[no-untyped-call]  # torch leaves it untyped


class _Products(Function):
    """Computes each wanted tensor from the other two; `order` sorts rows so that those of one kind are adjacent."""

    @staticmethod
    def forward(
        ctx: Any,
        wanted: Sequence[Third],
        q: Tensor | None,
        w: Tensor | None,
        table: Tensor | None,
        ids: Tensor,
        rows: Tensor | None,
        order: Tensor | None,
        shape: torch.Size,
    ) -> tuple[Tensor, ...]:
        ctx.wanted, ctx.shape = wanted, shape
        ctx.save_for_backward(q, w, table, ids, rows, order)
        return _compute_in_blocks(wanted, q, w, table, ids, rows, order, shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, w, table, *index = ctx.saved_tensors
        needs: dict[Third, bool] = {
            "q": ctx.needs_input_grad[1],
            "w": ctx.needs_input_grad[2],
            "table": ctx.needs_input_grad[3],
        }
        totals: dict[Third, Tensor | None] = dict.fromkeys(needs)
        for name, grad in zip(ctx.wanted, grads, strict=True):
            others = [other for other, needed in needs.items() if needed and other != name]
            three = {"q": q, "w": w, "table": table, name: grad}
            for other, part in zip(
                others, _products(others, *three.values(), *index, ctx.shape), strict=True
            ):
                total = totals[other]
                totals[other] = part if total is None else total + part
        return (None, *totals.values(), None, None, None, None)


# --- blocks of rows -------------------------------------------------------------------------------


def by_bucket(shared: int, buckets: int, length: int, head_size: int) -> bool:
    """Whether buckets hold fewer numbers a row than gathered vectors do.

    Args:
        shared: m, how many queries of a row share a table.
        buckets: r. length: y. head_size: s.
    """
    return shared * buckets <= length * head_size


def _compute_in_blocks(
    wanted: Sequence[Third],
    q: Tensor | None,
    w: Tensor | None,
    table: Tensor | None,
    ids: Tensor,
    rows: Tensor | None,
    order: Tensor | None,
    shape: torch.Size,
) -> tuple[Tensor, ...]:
    """The products, in blocks of rows of one kind; `shape` is the table's."""
    given = w if q is None else q
    assert given is not None
    groups, count, shared, _ = given.shape
    kinds, _, buckets, head_size = shape
    length = ids.shape[1]
    bucketed = by_bucket(shared, buckets, length, head_size)
    row = groups * (shared * buckets if bucketed else length * head_size)
    size = max(1, sizes.PAIR_BLOCK.get(given.device.type, sizes.LARGE_PAIR_BLOCK) // max(1, row))
    if not bucketed:
        size = min(size, max(1, count // sizes.FEWEST_PAIR_BLOCKS))
    results = {
        # Sums over a whole batch: not in half precision.
        name: given.new_zeros(shape, dtype=at_least_float32(given[:0]).dtype)
        if name == "table"
        else given.new_empty(count, groups, shared, length if name == "w" else head_size).transpose(0, 1)
        for name in wanted
    }
    bucket_counts = [buckets] * count if order is None or not bucketed else (ids.amax(1)[order] + 1).tolist()
    for kind, block in _blocks(rows, count, kinds, size):
        last = bucket_counts[block.stop - 1]
        part = _Block(
            ids[block] if order is None else ids.index_select(0, order[block]), last if bucketed else None
        )
        some_q, some_w = (None if each is None else _rows(each, block, order) for each in (q, w))
        part_table = None if table is None else table[kind, :, :last]
        if "w" in results:
            assert some_q is not None
            assert part_table is not None
            results["w"][:, block] = part.score(some_q, part_table)
        if some_w is None:
            continue
        weights = part.weights(some_w)
        if "q" in results:
            assert part_table is not None
            results["q"][:, block] = part.mix(weights, part_table)
        if "table" in results:
            assert some_q is not None
            part.add_to_table(results["table"][kind, :, :last], some_q, weights)
    if order is not None:
        back = order.argsort()
        whole = slice(None)
        results = {name: v if name == "table" else _rows(v, whole, back) for name, v in results.items()}
    return tuple(value.to(given.dtype) for value in results.values())


def _rows(values: Tensor, block: slice, order: Tensor | None) -> Tensor:
    """A block of rows n of [g, n, m, c], in an order; what belongs to a row lies together in memory."""
    if order is None:
        return values[:, block]
    return values.transpose(0, 1).index_select(0, order[block]).transpose(0, 1)


def _blocks(rows: Tensor | None, count: int, kinds: int, size: int) -> Iterator[tuple[int, slice]]:
    """Blocks of at most `size` rows of one kind, each with that kind."""
    members = [count] if rows is None else torch.bincount(rows, minlength=kinds).tolist()
    start = 0
    for kind, stop in enumerate(accumulate(members)):
        for first in range(start, stop, size):
            yield kind, slice(first, min(first + size, stop))
        start = stop


class _Block(NamedTuple):
    """Some rows of one kind, ids [n, y]; the three products by its first buckets, or by gather where that is None."""

    ids: Tensor
    buckets: int | None

    def score(self, q: Tensor, table: Tensor) -> Tensor:
        """[g, n, m, s], [g, r, s] -> [g, n, m, y]."""
        if self.buckets is None:
            return torch.matmul(q, self._vectors(table).transpose(2, 3))
        groups, count, shared, _ = q.shape
        buckets = torch.bmm(q.flatten(1, 2), table.transpose(1, 2)).view(groups, count, shared, -1)
        return buckets.gather(3, _broadcast_ids(self.ids, groups, shared))

    def weights(self, w: Tensor) -> Tensor:
        """[g, n, m, y], or by bucket their sums [g, n, m, r] in at least float32."""
        if self.buckets is None:
            return w
        exact = at_least_float32(w)
        groups, count, shared, _ = w.shape
        sums = exact.new_zeros(groups, count, shared, self.buckets)
        return sums.scatter_add_(3, _broadcast_ids(self.ids, groups, shared), exact)

    def mix(self, weights: Tensor, table: Tensor) -> Tensor:
        """[g, r, s] -> [g, n, m, s]."""
        if self.buckets is None:
            return torch.matmul(weights, self._vectors(table))
        _, count, shared, _ = weights.shape
        # The narrow axis, s, first: a third faster with MKL than last.
        mixed = torch.bmm(table.transpose(1, 2), weights.flatten(1, 2).to(table.dtype).transpose(1, 2))
        return mixed.transpose(1, 2).unflatten(1, (count, shared))

    def add_to_table(self, table: Tensor, q: Tensor, weights: Tensor) -> None:
        """Add the outer products of weights and q [g, n, m, s] to the table [g, r, s] in place."""
        if self.buckets is not None:
            sums = weights.flatten(1, 2)
            table.add_(torch.bmm(q.flatten(1, 2).to(sums.dtype).transpose(1, 2), sums).transpose(1, 2))
            return
        vectors = torch.matmul(weights.transpose(2, 3), q).flatten(1, 2)
        groups, buckets, size = table.shape
        first = torch.arange(groups, device=self.ids.device).unsqueeze(1) * buckets
        # scatter_add_ over leading rows is many times faster than index_add_ here.
        rows = (self.ids.flatten() + first).view(-1, 1).expand(-1, size)
        table.view(-1, size).scatter_add_(0, rows, vectors.view(-1, size).to(table.dtype))

    def _vectors(self, table: Tensor) -> Tensor:
        """[g, r, s] -> [g, n, y, s]."""
        groups, _, size = table.shape
        return table.index_select(1, self.ids.flatten()).view(groups, *self.ids.shape, size)


def _broadcast_ids(ids: Tensor, groups: int, shared: int) -> Tensor:
    """[n, y] -> [g, n, m, y], a view."""
    return ids[None, :, None, :].expand(groups, -1, shared, -1)


# --- under torch.export and torch.compile: without a loop over the symbolic length ----------------


def _score_traced(q: Tensor, table: Tensor, ids: Tensor, rows: Tensor | None) -> Tensor:
    kinds, groups, _, _ = table.shape
    if rows is None:
        wide, tables = q, table[0].transpose(1, 2)
    else:
        wide, tables = _expand_by_kind(q, rows, kinds), table.permute(1, 0, 3, 2).flatten(1, 2)
    buckets = _multiply_groups(wide, tables)
    return buckets.gather(3, _broadcast_ids(ids, groups, q.shape[2]))


def _mix_traced(w: Tensor, table: Tensor, ids: Tensor, rows: Tensor | None) -> Tensor:
    """Without a sum by index, which TensorRT does not take, and which ONNX Runtime computes on one thread.

    Few buckets are summed by a product with rows of the identity, which all groups share. Of many, the vectors of the
    pairs are looked up, for one group after the other.
    """
    kinds, _, buckets, size = table.shape
    tables = table.transpose(0, 1).flatten(1, 2)
    if kinds * buckets > 4 * size:
        if rows is not None:
            ids = ids + rows.unsqueeze(1) * buckets
        return torch.stack(
            [torch.matmul(weights, F.embedding(ids, each)) for weights, each in zip(w, tables, strict=True)]
        )
    exact = at_least_float32(w)
    places = F.embedding(ids, torch.eye(buckets, dtype=exact.dtype, device=w.device))
    sums = torch.matmul(exact, places).to(w.dtype)
    return _multiply_groups(sums if rows is None else _expand_by_kind(sums, rows, kinds), tables)


def _expand_by_kind(values: Tensor, rows: Tensor, kinds: int) -> Tensor:
    """[g, n, m, c] as [g, n, m, k * c], zero but for the place of each row's kind: so buckets stay r a row."""
    kind_mask = F.one_hot(rows, kinds).to(values.dtype)[None, :, None, :, None]
    return (values.unsqueeze(3) * kind_mask).flatten(3)


def _multiply_groups(values: Tensor, tables: Tensor) -> Tensor:
    """[g, n, m, c] times [g, c, e], without a copy of the tables for each row."""
    if tables.shape[0] == 1:
        return torch.matmul(values, tables[0])
    groups, count, shared, _ = values.shape
    return torch.bmm(values.flatten(1, 2), tables).view(groups, count, shared, tables.shape[2])
