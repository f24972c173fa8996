"""What `peirce kg info` says of a graph: sizes, splits, duplicates, late entities, memory, relations."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from peirce_kg.graphs.graph import SPLITS, Graph


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
    index, every = graph.index("test"), np.arange(graph.relations)
    heads, tails = (
        np.bincount(index.ends(every, heads=end)[0], minlength=graph.relations) for end in (True, False)
    )
    counts = {s: np.bincount(t[:, 1], minlength=graph.relations) for s, t in graph.added.items()}
    added = [{split: int(counts[split][i]) for split in SPLITS} for i in range(graph.relations)]
    rows = zip(graph.relation_names, added, heads.tolist(), tails.tolist(), strict=True)
    found = [{"relation": name, "added": by, "heads": h, "tails": t} for name, by, h, t in rows]
    return sorted(found, key=lambda facts: -sum(facts["added"].values()))


def memory(graph: Graph) -> dict[str, float]:
    """What the graph takes in bytes, without the dictionaries that look names up.

    index: the triples as the graph holds them; raw: three int32 each; names: of entities and relations; ratio: the
    index by the raw triples.
    """
    index = graph.index("test")
    names = (*graph.entity_names, *graph.relation_names)
    tables = sys.getsizeof(graph.entity_names) + sys.getsizeof(graph.relation_names)
    bytes_of_names, raw = tables + sum(map(sys.getsizeof, names)), 12 * len(index)
    return {
        "index": index.nbytes,
        "raw": raw,
        "names": bytes_of_names,
        "ratio": index.nbytes / raw if raw else 0.0,
    }
