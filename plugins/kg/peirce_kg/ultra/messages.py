"""Messages along the edges of a graph: each entity sums, over its edges, a relation's vector times a neighbour's state.

out[v] = sum over edges (u, r) -> v of w[r] * x[u], elementwise, with w and x of each query of a batch.

All edges of one entity and one relation share w[r], so their states are summed before it multiplies them: of
FB15k-237's 544,230 edges in both directions that leaves 149,689 products. Entities are taken in blocks, whose sums stay
in a CPU's cache; neither a message for each edge nor a matrix of entities exists. For the edges

    receiver  relation  sender
    0         2         5  7      -> (x[5] + x[7]) * w[2]
    0         3         5         ->  x[5]         * w[3], and out[0] is the sum of both
    1         2         0         ->  x[0]         * w[2]

`senders` is [5, 7, 5, 0]; `starts` [0, 2, 3, 4] says where those of a pair of a receiver and a relation begin, and
`firsts` [0, 2, 3] where the pairs of a receiver do.

The graph has each triple both ways, r and its inverse r + R. An edge against its direction is the edge of the inverse
relation, so what sums messages sums their gradients too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from peirce.kernels import BLOCK_BYTES


@dataclass(frozen=True, eq=False)
class Edges:
    """A graph's edges in both directions, sorted by receiver and relation; int64 tensors.

    relations: of the graph, without inverses; senders: [edges]; starts: [pairs + 1]; firsts: [entities + 1];
    pair_relations, pair_receivers: [pairs].
    """

    relations: int
    senders: Tensor
    starts: Tensor
    firsts: Tensor
    pair_relations: Tensor
    pair_receivers: Tensor

    @classmethod
    def of(cls, triples: Tensor, entities: int, relations: int) -> Edges:
        """From triples int64 [n, 3] of head, relation and tail.

        One that stands there twice counts twice, and one that names something beyond these numbers not at all.
        """
        bounds = torch.tensor([entities, relations, entities], device=triples.device)
        head, relation, tail = triples[((triples >= 0) & (triples < bounds)).all(1)].unbind(1)
        senders = torch.cat([tail, head])
        keys = torch.cat([head, tail]) * (2 * relations) + torch.cat([relation, relation + relations])
        keys, order = keys.sort(stable=True)
        pairs, counts = keys.unique_consecutive(return_counts=True)
        receivers = pairs // (2 * relations)
        starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        firsts = torch.searchsorted(receivers, torch.arange(entities + 1, device=keys.device))
        return cls(relations, senders[order], starts, firsts, pairs % (2 * relations), receivers)

    def blocks(self, channels: int, item: int) -> list[tuple[slice, slice, slice]]:
        """Blocks of receivers, with their pairs and their edges, for sums of so many channels of `item` bytes."""
        pairs, entities = len(self.pair_relations), len(self.firsts) - 1
        if not self.senders.is_cpu:  # one block, for whose bounds nothing waits
            return [(slice(0, entities), slice(0, pairs), slice(0, len(self.senders)))]
        step = max(1, BLOCK_BYTES // (channels * item))
        ends = torch.arange(0, pairs + step, step, device=self.firsts.device)
        rows = torch.searchsorted(self.firsts, ends, right=True).clamp_max(entities)
        rows = torch.cat([rows.new_zeros(1), rows, rows.new_full((1,), entities)]).unique()
        at = self.firsts[rows]
        cuts = [bounds.tolist() for bounds in (rows, at, self.starts[at])]
        return [
            (slice(*bounds[0]), slice(*bounds[1]), slice(*bounds[2]))
            for bounds in zip(*(pairwise(each) for each in cuts), strict=True)
        ]

    def sums(self, states: Tensor, pairs: slice, edges: slice) -> Tensor:
        """The senders' states, summed for each of some pairs: [entities, c] -> [pairs, c]."""
        starts = self.starts[pairs.start : pairs.stop + 1] - edges.start
        return _sum_bags(states, self.senders[edges], starts)


def messages(states: Tensor, vectors: Tensor, edges: Edges) -> Tensor:
    """The sums of messages: [entities, b, d], vectors of relations [2 relations, b, d] -> [entities, b, d]."""
    result: Tensor = _Messages.apply(states.flatten(1), vectors.flatten(1), edges)  # type: ignore[no-untyped-call]
    return result.view_as(states)


class _Messages(Function):
    """[entities, c], [2 relations, c] -> [entities, c]."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, vectors: Tensor, edges: Edges) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(states, vectors)
        states, result = states.contiguous(), torch.zeros_like(states)
        for rows, pairs, edge_rows in edges.blocks(states.shape[1], states.element_size()):
            if edge_rows.start == edge_rows.stop:
                continue
            sums = edges.sums(states, pairs, edge_rows).mul_(vectors[edges.pair_relations[pairs]])
            firsts = edges.firsts[rows.start : rows.stop + 1] - pairs.start
            result[rows] = _sum_bags(sums, torch.arange(len(sums), device=sums.device), firsts)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        states, vectors = ctx.saved_tensors
        of_states = of_vectors = None
        if ctx.needs_input_grad[0]:
            of_states = _Messages.apply(grad, swap_inverses(vectors), ctx.edges)  # type: ignore[no-untyped-call]
        if ctx.needs_input_grad[1]:
            of_vectors = _Products.apply(states, grad, ctx.edges)  # type: ignore[no-untyped-call]
        return of_states, of_vectors, None


class _Products(Function):
    """What messages' sums change with relations: for each, the sum of senders' states times receivers' values.

    States and values [entities, c] -> [2 relations, c].
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, values: Tensor, edges: Edges) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(states, values)
        states, result = states.contiguous(), states.new_zeros(2 * edges.relations, states.shape[1])
        for _, pairs, edge_rows in edges.blocks(states.shape[1], states.element_size()):
            if edge_rows.start < edge_rows.stop:
                sums = edges.sums(states, pairs, edge_rows).mul_(values[edges.pair_receivers[pairs]])
                result.index_add_(0, edges.pair_relations[pairs], sums)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        states, values = ctx.saved_tensors
        of_states = _Messages.apply(values, swap_inverses(grad), ctx.edges)  # type: ignore[no-untyped-call]
        of_values = _Messages.apply(states, grad, ctx.edges)  # type: ignore[no-untyped-call]
        return of_states, of_values, None


def traced_messages(states: Tensor, vectors: Tensor, triples: Tensor) -> Tensor:
    """The same sums from triples [n, 3], a message for each edge, for graphs that are traced or have no values.

    Places are spread over all channels, since ONNX Runtime adds rows at equal places (ScatterND) in several threads at
    once and loses some.
    """
    entities, relations = states.shape[0], vectors.shape[0] // 2
    head, relation, tail = triples.unbind(1)
    known = (triples >= 0).all(1) & (head < entities) & (relation < relations) & (tail < entities)
    head, relation, tail = (torch.where(known, ids, 0) for ids in (head, relation, tail))
    result = torch.zeros_like(states)
    for receivers, senders, relations_of_edges in (
        (head, tail, relation),
        (tail, head, relation + relations),
    ):
        sent = states[senders] * vectors[relations_of_edges] * known[:, None, None]
        result = result.scatter_add(0, receivers[:, None, None].expand_as(sent), sent)
    return result


def swap_inverses(vectors: Tensor) -> Tensor:
    """The vectors of all relations' inverses: [2 relations, ...] -> [2 relations, ...]."""
    relations = vectors.shape[0] // 2
    return torch.cat([vectors[relations:], vectors[:relations]])


def _sum_bags(table: Tensor, rows: Tensor, starts: Tensor) -> Tensor:
    """The sums of a table's rows, those of each bag beginning at its start: [n, c] -> [bags, c]."""
    return F.embedding_bag(rows, table, starts, mode="sum", include_last_offset=True)
