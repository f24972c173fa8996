"""Messages by blocks against a message for each edge, their gradients against finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from peirce_kg.ultra import messages as kernel
from peirce_kg.ultra.messages import Edges, messages, traced_messages

ENTITIES, RELATIONS = 7, 3


def drawn(triples: int = 30, batch: int = 2, width: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Triples, some of them twice and some of them padding, with states and vectors."""
    generator = torch.Generator().manual_seed(triples)
    bounds = torch.tensor([ENTITIES, RELATIONS, ENTITIES])
    graph = (torch.rand(triples, 3, generator=generator) * (bounds - 1)).long()  # the last entity has no edge
    graph = torch.cat([graph, graph[:4], torch.tensor([[ENTITIES, 0, 1], [0, RELATIONS, 1], [0, 0, -1]])])
    shapes = (ENTITIES, batch, width), (2 * RELATIONS, batch, width)
    states, vectors = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return graph, states, vectors


@pytest.mark.parametrize("block", [1, 100, 1 << 20])
def test_sums_are_those_of_a_loop_over_edges(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(kernel, "BLOCK_BYTES", block)
    graph, states, vectors = drawn()
    expected = torch.zeros_like(states)
    for head, relation, tail in graph.tolist():
        if head < ENTITIES and relation < RELATIONS and tail >= 0:
            expected[head] += vectors[relation] * states[tail]
            expected[tail] += vectors[relation + RELATIONS] * states[head]
    edges = Edges.of(graph, ENTITIES, RELATIONS)
    torch.testing.assert_close(messages(states, vectors, edges), expected)
    torch.testing.assert_close(traced_messages(states, vectors, graph), expected)
    blocks = edges.blocks(6, 8)
    assert [rows.start for rows, _, _ in blocks] == [0, *(rows.stop for rows, _, _ in blocks[:-1])]
    assert blocks[-1][0].stop == ENTITIES
    assert len(blocks) > 3 or block > 100


def test_gradients_are_those_of_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "BLOCK_BYTES", 200)
    graph, states, vectors = drawn(12, 1, 2)
    edges = Edges.of(graph, ENTITIES, RELATIONS)
    leaves = states.requires_grad_(), vectors.requires_grad_()
    assert torch.autograd.gradcheck(lambda *given: messages(*given, edges), leaves)
    assert torch.autograd.gradgradcheck(lambda *given: messages(*given, edges), leaves)


def test_a_graph_without_edges_sends_nothing() -> None:
    _, states, vectors = drawn()
    edges = Edges.of(torch.full((2, 3), -1), ENTITIES, RELATIONS)
    assert not messages(states, vectors, edges).any()
