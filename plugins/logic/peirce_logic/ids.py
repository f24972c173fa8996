"""Ids of tokens: what each token is to the relations that it takes part in.

By level for the augmenter `logical`, and relation by relation for the position `logic_relations`.

Tokens are known by their characters alone, so that any tokenizer's will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from peirce_logic.detection.algorithm import Relation
from peirce_logic.relations import LOGICAL_IDS, NONE_ID


class Encoding(Protocol):
    """Tokens of one or several texts, as the package `tokenizers` gives them."""

    @property
    def offsets(self) -> Sequence[tuple[int, int]]:
        """Where each token begins and ends in its text."""

    @property
    def sequence_ids(self) -> Sequence[int | None]:
        """Which text each token is of; None for special tokens and padding."""


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
    for relation in sorted(relations, key=lambda each: (each.depth, -_reach(each), each.key)):
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


def row_ids(relations: Sequence[Sequence[Relation]], encoding: Encoding, depth: int) -> NDArray[np.int64]:
    """The ids of one row's tokens.

    Args:
        relations: of each of its texts.
        encoding: its tokens.
        depth: K, the number of levels.

    Returns:
        int64 [depth, length].
    """
    found = np.full((depth, len(encoding.offsets)), NONE_ID, np.int64)
    for number, found_in_text in enumerate(relations):
        if found_in_text:
            found += logical_ids(found_in_text, _offsets(encoding, number), depth)
    return found


def row_relations(relations: Sequence[Sequence[Relation]], encoding: Encoding) -> NDArray[np.int64]:
    """What one row's tokens are to each relation of its texts; what no token has part in is left out.

    Args:
        relations: of each of its texts.
        encoding: its tokens.

    Returns:
        int64 [relations, length].
    """
    rows = [np.empty((0, len(encoding.offsets)), np.int64)]
    for number, found_in_text in enumerate(relations):
        offsets = _offsets(encoding, number)
        rows += [logical_ids([relation], offsets, 1) for relation in found_in_text]
    found = np.concatenate(rows)
    return found[(found != NONE_ID).any(1)]


def stack_rows(rows: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Ids of rows as a batch: [relations, length] of each -> int64 [batch, relations, length].

    There are as many relations and tokens as the largest row has, and one relation at least; the others are zeros.
    """
    ids = np.zeros((len(rows), *np.max([(1, 0), *(row.shape for row in rows)], axis=0)), np.int64)
    for place, row in zip(ids, rows, strict=True):
        place[: row.shape[0], : row.shape[1]] = row
    return ids


def _offsets(encoding: Encoding, text: int) -> list[tuple[int, int]]:
    """Where each token stands in one text of its row; (0, 0) for those of another, special ones and padding."""
    pairs = zip(encoding.offsets, encoding.sequence_ids, strict=True)
    return [place if sequence == text else (0, 0) for place, sequence in pairs]


def _reach(relation: Relation) -> int:
    """How many characters a relation joins, its keyword included."""
    return sum(end - start for start, end in (relation.key, *relation.alpha, *relation.beta))
