"""Positions that look at the query graph: signed distances, neighbours and roles."""

from __future__ import annotations

import itertools

import pytest
import torch

from peirce.parts import Dims, Tokens
from peirce_kg.parts.positions.adjacency import Adjacency
from peirce_kg.parts.positions.atoms import GraphAtoms
from peirce_kg.parts.positions.directed_distance import DirectedDistance
from peirce_kg.parts.positions.query_graph import APART, DISTANCES, FARTHEST, NODES, ROLE_SETS, ROLES

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


def pairs() -> itertools.product[tuple[int, int, int]]:
    return itertools.product(range(2), range(LENGTH), range(LENGTH))


def code(tokens: Tokens, b: int, x: int, y: int) -> int:
    return int(tokens.inputs["graph_distances"][b, x, tokens.inputs["graph_nodes"][b, y]])


@pytest.mark.parametrize("share_layers", [True, False])
@pytest.mark.parametrize("clip", [2, 11])
def test_each_distance_has_a_number_for_each_head(tokens: Tokens, clip: int, share_layers: bool) -> None:
    position = DirectedDistance(DirectedDistance.Options(clip=clip, share_layers=share_layers), DIMS)
    biases = position.pairs(tokens)
    assert len(biases) == 3
    assert {len(table.weight) for table in position.tables} == {2 * clip + 2}
    for layer, bias in enumerate(biases):
        table = position.tables[0 if share_layers else layer].weight
        assert bias.key is bias.value is bias.query is None
        for b, x, y in pairs():
            found = code(tokens, b, x, y)
            place = 2 * clip + 1 if found == APART else max(-clip, min(clip, found - FARTHEST)) + clip
            assert torch.equal(bias.score[0, bias.ids[b, x, y]], table[place])


@pytest.mark.parametrize("outside", ["looks", "both"])
@pytest.mark.parametrize("hops", [1, 2])
def test_nodes_look_at_their_neighbours(tokens: Tokens, hops: int, outside: str) -> None:
    allowed = Adjacency(Adjacency.Options(hops=hops, outside=outside), DIMS).scope(tokens)
    nodes = tokens.inputs["graph_nodes"]
    for b, x, y in pairs():
        near = code(tokens, b, x, y) != APART and abs(code(tokens, b, x, y) - FARTHEST) <= hops
        wanted = near or x == y or nodes[b, x] == 0 or (outside == "both" and nodes[b, y] == 0)
        assert bool(allowed[b, x, y]) == bool(wanted)


@pytest.mark.parametrize("distances", [True, False])
def test_roles_add_up_both_ways(tokens: Tokens, distances: bool) -> None:
    torch.manual_seed(0)
    position = GraphAtoms(GraphAtoms.Options(distances=distances), DIMS).double()
    atoms = position.binary(tokens)
    nodes, sets = tokens.inputs["graph_nodes"], tokens.inputs["graph_roles"]
    for b, x, y in pairs():
        wanted = torch.zeros(5, dtype=torch.float64)
        for place in range(len(ROLES)):
            if sets[b, x, nodes[b, y]] >> place & 1:
                wanted += position.roles.weight[place]
            if sets[b, y, nodes[b, x]] >> place & 1:
                wanted += position.converse_roles.weight[place]
        if distances and code(tokens, b, x, y) != APART:
            wanted += position.distances.weight[code(tokens, b, x, y)]
        torch.testing.assert_close(atoms[b, x, y], wanted)


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
