"""Which relations of a graph share entities, the input of ULTRA's network on relations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peirce_queries import spans

EXPANDED = 1 << 22
"""Pairs of relations that are looked at at once where a graph of relations is made."""


def shared_heads(triples: NDArray[np.integer], entities: int, relations: int) -> NDArray[np.bool_]:
    """The input of the network on relations: which of them, inverses included, have a head in common.

    Args:
        triples: [n, 3] of head, relation and tail.
        entities, relations: how many there are.

    Returns:
        bool [2, relations, 2, relations]; the axes of 2 are a relation and its inverse.
    """
    head, relation, tail = np.asarray(triples, np.int64).T
    keys = np.concatenate([head * 2 * relations + relation, tail * 2 * relations + relation + relations])
    entity, relation = np.divmod(np.unique(keys), 2 * relations)
    start = np.searchsorted(entity, entity)
    counts = np.searchsorted(entity, entity, side="right") - start
    found = np.zeros((2 * relations, 2 * relations), np.bool_)
    cuts = np.searchsorted(np.cumsum(counts), np.arange(0, counts.sum() + EXPANDED, EXPANDED))
    for some in (slice(*cut) for cut in zip(cuts, [*cuts[1:], len(relation)], strict=True)):
        found[np.repeat(relation[some], counts[some]), relation[spans(start[some], counts[some])]] = True
    return found.reshape(2, relations, 2, relations)
