"""Messages along edges: the kernel of `ultra` beside one message an edge, gathered, multiplied and scattered by torch.

That is how the published code computes where its compiled kernel is missing, on the graph of entities and on the graph
of relations. Memory is the largest rise of live bytes. `--graphs fb15k-237` takes 8 GB.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import SHARED, beside, parsed, peak_bytes, record, spread, turns
from torch import Tensor

import peirce
from peirce_kg.ultra.messages import Edges, messages
from peirce_kg.ultra.network import Ultra
from peirce_kg.ultra.relations import shared_heads
from peirce_queries.graphs.graph import Graph, load_graph


class Plain:
    """A graph's edges, those of its inverses, and those of its relations, one message each."""

    def __init__(self, triples: Tensor, shared: Tensor) -> None:
        head, relation, tail = triples.unbind(1)
        relations = shared.shape[0] // 2
        self.receivers, self.senders = torch.cat([head, tail]), torch.cat([tail, head])
        self.kinds = torch.cat([relation, relation + relations])
        turned = torch.arange(2 * relations).roll(relations)
        four = shared, shared[turned][:, turned], shared[:, turned], shared[turned]
        found = [(each.nonzero(), kind) for kind, each in enumerate(four)]
        self.met = torch.cat(
            [torch.cat([ends, torch.full_like(ends[:, :1], kind)], 1) for ends, kind in found]
        )

    def entities(self, states: Tensor, vectors: Tensor) -> Tensor:
        return _scattered(states, vectors, self.receivers, self.senders, self.kinds)

    def relations(self, states: Tensor, kinds: Tensor) -> Tensor:
        vectors = kinds.unsqueeze(1).expand(-1, states.shape[1], -1)
        return _scattered(states, vectors, *self.met.unbind(1))


def _scattered(states: Tensor, vectors: Tensor, receivers: Tensor, senders: Tensor, kinds: Tensor) -> Tensor:
    return torch.zeros_like(states).index_add(0, receivers, states[senders] * vectors[kinds])


def link(network: Ultra, plain: Plain, sets: Tensor, asked: Tensor, relations: int) -> Tensor:
    """What `network.vectors` and `network.states` compute, by plain messages."""
    first = torch.zeros(2 * relations, len(asked), network.width)
    first[asked, torch.arange(len(asked))] = 1
    states = first
    for layer in network.relations:
        states = layer.update(states, first, plain.relations(states, layer.kinds))  # type: ignore[operator, arg-type]
    vectors = states
    query = vectors[asked, torch.arange(len(asked))]
    states = first = sets.T.unsqueeze(2) * query
    for layer in network.entities:
        own = layer.project(vectors)  # type: ignore[operator]
        states = layer.update(states, first, plain.entities(states, own))  # type: ignore[operator]
    return states.transpose(0, 1)


def measured(
    name: str, what: str, batch: int, ways: dict[str, Callable[[], Any]], repeats: int
) -> dict[str, Any]:
    times = turns(ways, repeats)
    peaks = {way: peak_bytes(run) / 2**20 for way, run in ways.items()}
    return {
        "graph": name, "what": what, "queries": batch,
        **spread("ms", [1e3 * each for each in times["kernel"]]),
        **spread("ms, plain", [1e3 * each for each in times["plain"]]),
        **beside("time / plain", times["kernel"], times["plain"]),
        "MiB": peaks["kernel"], "MiB, plain": peaks["plain"], "memory": peaks["kernel"] / peaks["plain"],
    }  # fmt: skip


def compared(graph: Graph, batch: int, repeats: int) -> list[dict[str, Any]]:
    network: Any = peirce.build("ultra", seed=0).eval().network
    triples, entities, relations = (
        np.stack(graph.index("train").triples(), 1),
        graph.entities,
        graph.relations,
    )
    shared = torch.from_numpy(shared_heads(triples, entities, relations)).flatten(2, 3).flatten(0, 1)
    edges, plain = (
        Edges.of(torch.from_numpy(triples), entities, relations),
        Plain(torch.from_numpy(triples), shared),
    )
    random = torch.Generator().manual_seed(0)
    states, vectors = (torch.randn(n, batch, 64, generator=random) for n in (entities, 2 * relations))
    asked, sets, exact = torch.arange(batch) % relations, torch.eye(entities)[:batch], shared.float()

    def train(sums: Callable[[Tensor, Tensor], Tensor]) -> None:
        leaves = states.clone().requires_grad_(), vectors.clone().requires_grad_()
        sums(*leaves).sum().backward()

    def ours(states: Tensor, vectors: Tensor) -> Tensor:
        return messages(states, vectors, edges)

    def network_of_ours() -> Tensor:
        found: Tensor = network.states(edges, sets, network.vectors(exact, asked), asked)[0]
        return found

    def network_of_plain() -> Tensor:
        return link(network, plain, sets, asked, relations)

    one, other = ours(states, vectors), plain.entities(states, vectors)
    assert float((one - other).abs().max() / other.abs().max()) < 1e-4
    rows = []
    with torch.no_grad():
        ways = {"kernel": lambda: ours(states, vectors), "plain": lambda: plain.entities(states, vectors)}
        rows.append(measured(graph.name, "messages", batch, ways, repeats))
        ways = {"kernel": network_of_ours, "plain": network_of_plain}
        one, other = (way() for way in ways.values())
        assert float((one - other).abs().max() / other.abs().max()) < 1e-4
        rows.append(measured(graph.name, "link", batch, ways, repeats))
    ways = {"kernel": lambda: train(ours), "plain": lambda: train(plain.entities)}
    rows.append(measured(graph.name, "messages, gradients", batch, ways, repeats))
    return rows


def main() -> None:
    default = SHARED / "data" / "kg"
    args = parsed(
        __doc__, 3,
        ("--data", {"type": Path, "default": default, "help": "folder of the graphs' folders"}),
        ("--graphs", {"nargs": "*", "default": ["umls", "wn18rr"]}),
        ("--batches", {"nargs": "*", "type": int, "default": [1], "help": "queries at once"}),
    )  # fmt: skip
    if not args.data.is_dir():
        print(f"no folder {args.data}; give one by --data")
        sys.exit(args.data != default)  # whoever runs all benchmarks need not have the graphs
    rows = []
    for name in args.graphs:
        for batch in args.batches:
            rows += compared(load_graph(str(args.data / name)), batch, args.repeats)
            print(rows[-3:], flush=True)
    record("messages", rows)


if __name__ == "__main__":
    main()
