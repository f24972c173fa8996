"""Relations as JSON objects."""

from __future__ import annotations

from typing import Any

from peirce_logic.detection.algorithm import Relation, Spans

BETWEEN = " ... "
"""Stands between the two pieces of a span."""


def as_object(relation: Relation, text: str) -> dict[str, Any]:
    """A relation as one JSON object, its spans as text; null where there is none."""
    return {
        "sentence": relation.sentence,
        "relation": relation.relation,
        "keyword": relation.keyword,
        "alpha": words_of(relation.alpha, text),
        "beta": words_of(relation.beta, text),
    }


def words_of(spans: Spans, text: str) -> str | None:
    """The text of a span, its pieces joined by " ... "; None for an empty one."""
    return BETWEEN.join(text[start:end] for start, end in spans) or None
