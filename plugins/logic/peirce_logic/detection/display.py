"""Relations as JSON objects, and as marks in the text that they were found in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from peirce.model import Mark
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


def marks_of(relations: Sequence[Relation], text: str, start: int = 0) -> Iterator[Mark]:
    """The keyword of each relation and its spans, in a text that begins at `start` of what is shown."""
    for group, relation in enumerate(relations):
        label, key = relation.relation.replace("_", " "), relation.key
        spans = f"{words_of(relation.alpha, text) or '-'} | {words_of(relation.beta, text) or '-'}"
        yield Mark(start=start + key.start, end=start + key.end, label=label, meaning=f"{label}: {spans}")
        for role, sign, role_spans in (("alpha", "α", relation.alpha), ("beta", "β", relation.beta)):
            meaning = f"{label}: {role} of {relation.keyword}"
            for span in role_spans:
                place = {"start": start + span.start, "end": start + span.end}
                yield Mark(label=label, meaning=meaning, sign=sign, group=group, **place)
