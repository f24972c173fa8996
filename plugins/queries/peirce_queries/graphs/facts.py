"""What `peirce kg info` says of a graph: sizes, splits, duplicates, late entities, memory, relations."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from peirce_queries.graphs.graph import SPLITS, Graph


def split_facts(graph: Graph) -> list[dict[str, Any]]:
    """What each split has, in order.

    added: the distinct triples that it adds; cumulative: those of its graph; duplicates: those that were dropped;
    new_entities, new_relations: how many no earlier split has.
    """
    seen, found, added = 0, [], graph.added
    for split in SPLITS:
        index = graph.index(split)
        before, seen = seen, len(np.unique(index.triples()[1]))
        facts = {"split": split, "added": len(added[split]), "cumulative": len(index)}
        facts |= {"duplicates": graph.duplicates[split], "new_entities": graph.first_seen[split]}
        found.append({**facts, "new_relations": seen - before})
    return found


def relation_facts(graph: Graph) -> list[dict[str, Any]]:
    """What each relation has, those with most triples first.

    added: its triples by split; heads, tails: how many entities stand there.
    """
    index, every, count = graph.index("test"), np.arange(graph.relations), graph.relations
    heads, tails = (np.bincount(index.ends(every, heads=end)[0], minlength=count) for end in (True, False))
    added = {s: np.bincount(t[:, 1], minlength=count).tolist() for s, t in graph.added.items()}
    found = [
        {
            "relation": name,
            "added": {s: counts[i] for s, counts in added.items()},
            "heads": int(heads[i]),
            "tails": int(tails[i]),
        }
        for i, name in enumerate(graph.relation_names)
    ]
    return sorted(found, key=lambda facts: -sum(facts["added"].values()))


def memory(graph: Graph) -> dict[str, float]:
    """What the graph takes in bytes, without the dictionaries that look names up.

    index: the triples as the graph holds them; raw: three int32 each; names: of entities and relations; ratio: the
    index by the raw triples.
    """
    index, tables = graph.index("test"), (graph.entity_names, graph.relation_names)
    names = sum(sys.getsizeof(table) + sum(map(sys.getsizeof, table)) for table in tables)
    raw = 12 * len(index)
    return {"index": index.nbytes, "raw": raw, "names": names, "ratio": index.nbytes / raw if raw else 0.0}
