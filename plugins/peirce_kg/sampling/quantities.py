"""How many queries a benchmark has of each type: TEGA's Table 9."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from peirce.errors import TaskError

from peirce_kg.graphs.graph import Graph, Split
from peirce_kg.queries.types import QueryType

TABLE_9 = {
    "fb15k": (273_710, 547_420, 8_000),
    "fb15k237": (149_689, 299_378, 5_000),
    "nell995": (107_982, 215_964, 4_000),
}
"""By graph: training queries of the type 1p, of any other type, and validation or test queries of each type."""
MOST_EVALUATED = 5_000


def quantities(types: Sequence[QueryType], graph: Graph, split: Split) -> dict[str, int]:
    """How many queries of each type to sample, by the type's name.

    Table 9 for the graphs in it, however their names are spelt. Elsewhere its rule: every one-hop query of the training
    graph and twice as many of each other type; to evaluate, as many as there are one-hop queries, at most 5,000.

    Raises:
        TaskError: the training graph has no triples to count by.
    """
    single, several, evaluated = TABLE_9.get(re.sub("[^a-z0-9]", "", graph.name.lower()), (0, 0, 0))
    if not single:
        triples = graph.added["train"]
        single = len(np.unique(triples[:, :2], axis=0))
        if not single:
            raise TaskError(
                f"the train split of {graph.name!r} has no triples to count queries by; "
                "say how many with --count"
            )
        several, evaluated = 2 * single, min(single, MOST_EVALUATED)
    if split != "train":
        return {kind.name: evaluated for kind in types}
    return {kind.name: single if len(kind.query.atoms) == 1 else several for kind in types}
