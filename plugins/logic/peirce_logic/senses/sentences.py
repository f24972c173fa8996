"""Sentences whose keywords are labelled with the relation that they show."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from peirce.errors import unknown
from peirce_logic.json_lines import read_json_lines
from peirce_logic.relations import RELATIONS

ENGLISH = Path(__file__).with_name("english.jsonl")
NONE = "none"
"""What a keyword shows that shows no relation, such as "as" in "as tall as he" and "while" in "for a while"."""
LABELS = (*(name for name, _ in RELATIONS), NONE)


@frozen(kw_only=True)
class LabelledSentence:
    """A sentence with one keyword that has a label.

    Args:
        text: the sentence.
        keyword: in lower case.
        start: where the keyword begins in the text.
        relation: what it shows there, one of `LABELS`.
        passes: what each reading of the sentence said; empty if that is not known.
        source: where the sentence stands.
    """

    text: str
    keyword: str
    start: int
    relation: str
    passes: tuple[str, ...] = ()
    source: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """The characters of the keyword, [start, end)."""
        return self.start, self.start + len(self.keyword)


def read_sentences(path: str | os.PathLike[str] | None = None) -> list[LabelledSentence]:
    """Labelled sentences of a file.

    Args:
        path: JSON lines, as `peirce_logic/senses/english.jsonl`; that file if None.

    Raises:
        InputError: the file cannot be read, or a line is not a labelled sentence.
    """
    return read_json_lines(
        ENGLISH if path is None else Path(path),
        _labelled,
        '{"text": ..., "keyword": ..., "relation": ...}, and `start` where the keyword stands more than once',
    )


def agreement(sentences: Sequence[LabelledSentence]) -> dict[str, float] | None:
    """How far two readings agree: the `share` of sentences, and Cohen's `kappa`; None where there are not two of each.

    Args:
        sentences: of one keyword, or of several.
    """
    if not sentences or any(len(each.passes) != 2 for each in sentences):
        return None
    first, second = zip(*(each.passes for each in sentences), strict=True)
    same = sum(a == b for a, b in zip(first, second, strict=True)) / len(sentences)
    chance = sum(first.count(label) * second.count(label) for label in LABELS) / len(sentences) ** 2
    return {"share": same, "kappa": 1.0 if chance == 1.0 else (same - chance) / (1.0 - chance)}


def _find_keyword(text: str, keyword: str) -> int:
    """Where a keyword stands as whole words; a clitic such as `n't` ends one."""
    before = "" if "'" in keyword else r"(?<!\w)"
    found = re.finditer(rf"{before}{re.escape(keyword)}(?!\w)", text, re.IGNORECASE)
    places = [match.start() for match in found]
    if not keyword or not places:
        raise ValueError(f"the text does not contain the keyword {keyword!r} as separate words")
    if len(places) > 1:
        places_text = ", ".join(map(str, places))
        raise ValueError(f"the keyword {keyword!r} occurs at the characters {places_text}")
    return places[0]


def _labelled(given: Any) -> LabelledSentence:
    text, keyword = str(given["text"]), str(given["keyword"]).lower()
    start = int(given["start"]) if "start" in given else _find_keyword(text, keyword)
    passes = tuple(map(str, given.get("passes", ())))
    relation, source = str(given["relation"]), str(given.get("source", ""))
    for each in (relation, *passes):
        if each not in LABELS:
            raise ValueError(unknown("relation", each, LABELS))
    if not keyword or start < 0 or text[start : start + len(keyword)].lower() != keyword:
        raise ValueError(f"{keyword!r} is not at character {start}, its `start`")
    return LabelledSentence(
        text=text, keyword=keyword, start=start, relation=relation, passes=passes, source=source
    )
