"""Positions that look at the query graph: signed distances, neighbours and roles."""

from __future__ import annotations

import pytest
import torch

from peirce.parts import Dims, Tokens
from peirce_kg.parts.positions.adjacency import Adjacency
from peirce_kg.parts.positions.atoms import GraphAtoms
from peirce_kg.parts.positions.directed_distance import DirectedDistance
from peirce_kg.parts.positions.query_graph import APART, DISTANCES, FARTHEST, NODES, ROLE_SETS

DIMS = Dims(layers=3, unary=8, binary=5, heads=2, head_size=4, feedforward_unary=1, vocabulary=9)
LENGTH = 7


@pytest.fixture
def tokens() -> Tokens:
    """Two queries whose tokens stand for nodes 0 to 5; some for none."""
    generator = torch.Generator().manual_seed(1)
    inputs = {
        "graph_nodes": torch.randint(0, 6, (2, LENGTH), generator=generator),
        "graph_distances": torch.randint(FARTHEST - 3, FARTHEST + 4, (2, LENGTH, NODES), generator=generator),
        "graph_roles": torch.randint(0, ROLE_SETS, (2, LENGTH, NODES), generator=generator),
    }
    unrelated = torch.rand(2, LENGTH, NODES, generator=generator) < 0.3
    inputs["graph_distances"][unrelated] = APART
    inputs["graph_nodes"][:, 2] = 0
    assert int(inputs["graph_distances"].max()) < DISTANCES
    return Tokens(inputs, None, torch.arange(LENGTH).unsqueeze(0), LENGTH)


def test_new_tokens_bring_their_own_rows(tokens: Tokens) -> None:
    rows = Tokens(tokens.inputs, None, tokens.index, LENGTH, before=4)
    for position, give in (
        (Adjacency(Adjacency.Options(), DIMS), "scope"),
        (GraphAtoms(GraphAtoms.Options(), DIMS), "binary"),
    ):
        whole, last = (getattr(position, give)(each) for each in (tokens, rows))
        assert torch.equal(last, whole[:, 4:])
    position = DirectedDistance(DirectedDistance.Options(), DIMS)
    assert torch.equal(position.pairs(rows)[0].ids, position.pairs(tokens)[0].ids[:, 4:])
