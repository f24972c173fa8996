from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kgqa_reference import graphs

from peirce_queries.graphs.graph import SPLITS, Graph, Split, from_ids
from peirce_queries.graphs.index import Index, spans


def _triples(graph: Graph, split: Split) -> set[tuple[int, int, int]]:
    held = SPLITS[: SPLITS.index(split) + 1]
    return {(h, r, t) for s in held for h, r, t in graph.added[s].tolist()}


@given(graphs())
def test_every_split_finds_exactly_its_triples(graph: Graph) -> None:
    sizes = (graph.entities, graph.relations, graph.entities)
    h, r, t = (a.ravel() for a in np.meshgrid(*(np.arange(n) for n in sizes), indexing="ij"))
    for split in SPLITS:
        index, triples = graph.index(split), _triples(graph, split)
        assert len(index) == len(triples)
        assert index.contains(r, h, t).tolist() == [triple in triples for triple in zip(h, r, t, strict=True)]
        for heads, mine, other in ((True, 0, 2), (False, 2, 0)):
            for relation in range(graph.relations):
                for entity in range(graph.entities):
                    group = index.groups(np.array([relation]), np.array([entity]), heads=heads)
                    found = index.others(spans(*index.edges(group, heads=heads)), heads=heads).tolist()
                    assert sorted(found) == sorted(
                        x[other] for x in triples if (x[1], x[mine]) == (relation, entity)
                    )
            row, entity = index.ends(np.arange(graph.relations), heads=heads)
            found_ends = list(zip(row.tolist(), entity.tolist(), strict=True))
            assert found_ends == sorted({(x[1], x[mine]) for x in triples})


@given(graphs())
def test_triples_are_numbered_by_relation_and_head(graph: Graph) -> None:
    for split in SPLITS:
        index, triples = graph.index(split), _triples(graph, split)
        heads, relations, tails = (column.tolist() for column in index.triples())
        assert set(zip(heads, relations, tails, strict=True)) == triples
        assert list(zip(relations, heads, strict=True)) == sorted(zip(relations, heads, strict=True))
        if len(index):
            some = np.arange(len(index))[::-2]
            assert [c.tolist() for c in index.triples(some)] == [heads[::-2], relations[::-2], tails[::-2]]
        start, stop = index.of_relation(np.arange(graph.relations))
        for relation in range(graph.relations):
            assert relations[start[relation] : stop[relation]] == [relation] * relations.count(relation)


@settings(max_examples=60)
@given(st.data())
def test_entities_far_apart_and_close_together(data: st.DataObject) -> None:
    """Ids in clusters fill few of the buckets, so that a search goes on through many groups of one bucket."""
    count = 3_000_000
    anchors = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=4))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    near = np.concatenate([np.clip(each + random.integers(-40, 40, 60), 0, count - 1) for each in anchors])
    triples = np.stack([near, random.integers(0, 2, len(near)), random.permutation(near)], axis=1)
    triples = np.unique(triples, axis=0).astype(np.int32)
    index = Index.of(triples, count, 2)
    head, relation, tail = triples.astype(np.int64).T
    assert index.contains(relation, head, tail).all()
    held = {tuple(t) for t in triples.tolist()}
    others = np.concatenate([near, near + 1, random.integers(0, count, 50)]) % count
    asked = random.choice(others, 500), random.integers(0, 2, 500), random.choice(others, 500)
    found = index.contains(asked[1], asked[0], asked[2]).tolist()
    assert found == [t in held for t in zip(*(a.tolist() for a in asked), strict=True)]


def test_memory_where_hardly_two_triples_share_a_group() -> None:
    """The most that an index can need: nearly every triple is a group of its own in both directions."""
    random = np.random.default_rng(0)
    triples = np.stack([random.integers(0, high, 90_000) for high in (50_000, 20, 50_000)], axis=1)
    parts = np.split(triples.astype(np.int32), [70_000, 80_000])
    names = [str(i) for i in range(50_000)]
    graph = from_ids("sparse", names, names[:20], dict(zip(SPLITS, parts, strict=True)))
    assert graph.index("test").nbytes <= 3 * 12 * len(graph.index("test"))
