"""Ids of tokens: what each token is to the relations that it takes part in.

By level for the augmenter `logical`, and relation by relation for the position `logic_relations`.

Tokens are known by their characters alone, so that any tokenizer's will do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from peirce_logic.detection.algorithm import Relation, Span
from peirce_logic.relations import LOGICAL_IDS, NONE_ID


def logical_ids(
    relations: Sequence[Relation], offsets: Sequence[tuple[int, int]], depth: int
) -> NDArray[np.int64]:
    """The ids of a text's tokens.

    A token's relations are sorted by the depth of their keywords in the tree, the outermost first; of keywords at one
    depth, the one whose relation reaches over more text. What a token has beyond `depth` relations is cut.

    Args:
        relations: of the text.
        offsets: [start, end) of each token in the text; an empty one, as special tokens and padding have, has no part
            in any relation. A token that was cut off by truncation is simply not there.
        depth: K, the number of levels.

    Returns:
        int64 [depth, tokens].

    Source: Logical Transformers, Section 4.1 and 4.2, Table 1.
    """
    ids = np.full((depth, len(offsets)), NONE_ID, np.int64)
    levels = np.zeros(len(offsets), np.int64)
    starts, ends = np.array(offsets, np.int64).reshape(-1, 2).T
    for relation in sorted(relations, key=lambda each: (each.depth, -reach(each), each.key)):
        taken = np.zeros(len(offsets), bool)
        roles = {"key": (relation.key,), "alpha": relation.alpha, "beta": relation.beta}
        for role, spans in roles.items():
            for span in spans:
                # A token that spans touch in part, such as a sub-word over a clitic, belongs to the first of them.
                inside = (
                    (starts < span.end) & (ends > span.start) & (ends > starts) & ~taken & (levels < depth)
                )
                (places,) = inside.nonzero()
                ids[levels[places], places] = LOGICAL_IDS[relation.relation, role]
                taken |= inside
        levels += taken
    return ids


def relation_ids(relations: Sequence[Relation], offsets: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """What a text's tokens are to each of its relations.

    Args:
        relations: of the text.
        offsets: as `logical_ids` takes them.

    Returns:
        int64 [relations, tokens]; a relation that no token has part in is left out.
    """
    rows = [logical_ids([relation], offsets, 1) for relation in relations]
    found = np.concatenate([np.empty((0, len(offsets)), np.int64), *rows])
    return found[(found != NONE_ID).any(1)]


def reach(relation: Relation) -> int:
    """How many characters a relation joins, its keyword included."""
    spans: tuple[Span, ...] = (relation.key, *relation.alpha, *relation.beta)
    return sum(end - start for start, end in spans)
