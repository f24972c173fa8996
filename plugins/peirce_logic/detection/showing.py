"""Relations as JSON lines and as coloured HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from peirce_logic.detection.algorithm import Relation, Spans
from peirce_logic.relations import RELATIONS

BETWEEN = " ... "
"""Stands between the two pieces of a span."""
COLOURS: Mapping[str, str] = dict(
    zip(
        (name for name, _ in RELATIONS),
        (
            "#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948",
            "#b07aa1", "#ff9da7", "#9c755f", "#bab0ac", "#17becf", "#8c564b",
        ),
        strict=True,
    )
)  # fmt: skip
"""One colour a relation."""


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


def as_html(relations: Sequence[Relation], text: str) -> str:
    """The text with each keyword in the colour of its relation, its spans underlined, and a legend."""
    marks: dict[int, list[str]] = {}
    for relation in relations:
        colour = COLOURS[relation.relation]
        start, end = relation.key
        shown = f"{relation.relation}: {words_of(relation.alpha, text) or '-'} | {words_of(relation.beta, text) or '-'}"
        marks.setdefault(start, []).insert(
            0, f'<mark style="background:{colour}" title="{escape(shown, quote=True)}">'
        )
        marks.setdefault(end, []).append("</mark>")
    body, at = [], 0
    for place in sorted(marks):
        # What closes here stands before what opens here.
        body += [
            escape(text[at:place]),
            *sorted(marks[place], key=lambda mark: not mark.startswith("</")),
        ]
        at = place
    body.append(escape(text[at:]))
    used = [name for name, _ in RELATIONS if any(each.relation == name for each in relations)]
    legend = "".join(
        f'<li><mark style="background:{COLOURS[name]}">{name.replace("_", " ")}</mark></li>' for name in used
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Logical relations</title>'
        "<style>body{font:1.1em/1.6 serif;max-width:45em;margin:2em auto}mark{color:#fff;padding:0 .2em}"
        "ul{list-style:none;padding:0}li{display:inline-block;margin-right:.6em}</style>"
        f'<ul>{legend}</ul><p style="white-space:pre-wrap">{"".join(body)}</p></html>\n'
    )
