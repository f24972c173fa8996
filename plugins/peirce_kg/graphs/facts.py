"""What `peirce kg info` says of a graph: sizes, splits, duplicates, late entities, memory, relations."""

from __future__ import annotations

import sys

import numpy as np
from attrs import frozen

from peirce_kg.graphs.graph import SPLITS, Graph, Split


@frozen
class SplitFacts:
    """One split. added: the distinct triples that it adds; cumulative: those of its graph; duplicates: those that were
    dropped; new_entities, new_relations: those that no earlier split has."""

    split: Split
    added: int
    cumulative: int
    duplicates: int
    new_entities: int
    new_relations: int


@frozen
class RelationFacts:
    """One relation on all splits. added: its triples by split; heads, tails: how many entities stand there."""

    relation: str
    added: dict[Split, int]
    heads: int
    tails: int

    @property
    def triples(self) -> int:
        """Its triples in all splits."""
        return sum(self.added.values())


@frozen
class Memory:
    """In bytes. index: the triples as the graph holds them; raw: three int32 each; names: of entities and relations."""

    index: int
    raw: int
    names: int

    @property
    def ratio(self) -> float:
        """The index by the raw triples."""
        return self.index / self.raw if self.raw else 0.0


def split_facts(graph: Graph) -> list[SplitFacts]:
    """What each split has, in order."""
    seen, found, added = 0, [], graph.added
    for split in SPLITS:
        index = graph.index(split)
        before, seen = seen, len(np.unique(index.triples()[1]))
        new = graph.first_seen[split], seen - before
        found.append(SplitFacts(split, len(added[split]), len(index), graph.duplicates[split], *new))
    return found


def relation_facts(graph: Graph) -> list[RelationFacts]:
    """What each relation has, those with most triples first."""
    index, every = graph.index("test"), np.arange(graph.relations)
    heads, tails = (
        np.bincount(index.ends(every, heads=end)[0], minlength=graph.relations) for end in (True, False)
    )
    counts = {s: np.bincount(t[:, 1], minlength=graph.relations) for s, t in graph.added.items()}
    found = [
        RelationFacts(name, {s: int(counts[s][i]) for s in SPLITS}, int(heads[i]), int(tails[i]))
        for i, name in enumerate(graph.relation_names)
    ]
    return sorted(found, key=lambda facts: -facts.triples)


def memory(graph: Graph) -> Memory:
    """What the graph takes, without the dictionaries that look names up."""
    index = graph.index("test")
    names = (*graph.entity_names, *graph.relation_names)
    tables = sys.getsizeof(graph.entity_names) + sys.getsizeof(graph.relation_names)
    return Memory(index.nbytes, 12 * len(index), tables + sum(sys.getsizeof(name) for name in names))
