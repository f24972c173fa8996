"""Sentences whose keywords are labelled with the relation that they show."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from peirce.errors import InputError, unknown
from peirce.files import parse_json, read_text
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
    file = ENGLISH if path is None else Path(path)
    try:
        lines = read_text(file).splitlines()
    except (OSError, ValueError) as error:
        raise InputError(
            f"sentences {file} cannot be read: {error}; it holds a JSON object a line"
        ) from error
    found = [_read_sentence(line, f"{file}, line {i}") for i, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise InputError(
            f"{file} holds no sentences; write a JSON object a line, with text, keyword and relation"
        )
    return found


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


def _find_keyword(text: str, keyword: str, where: str) -> int:
    """Where a keyword stands as whole words; a clitic such as `n't` ends one."""
    before = "" if "'" in keyword else r"(?<!\w)"
    found = re.finditer(rf"{before}{re.escape(keyword)}(?!\w)", text, re.IGNORECASE)
    places = [match.start() for match in found]
    if not keyword or not places:
        raise InputError(
            f"{where}: the text does not contain the keyword {keyword!r} as separate words; correct one of them"
        )
    if len(places) > 1:
        raise InputError(
            f"{where}: the keyword {keyword!r} occurs at the characters {', '.join(map(str, places))}; choose with "
            "`start` which is meant"
        )
    return places[0]


def _read_sentence(line: str, where: str) -> LabelledSentence:
    try:
        given: Any = parse_json(line)
        text, keyword = str(given["text"]), str(given["keyword"]).lower()
        start = int(given["start"]) if "start" in given else _find_keyword(text, keyword, where)
        passes = tuple(map(str, given.get("passes", ())))
        relation, source = str(given["relation"]), str(given.get("source", ""))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(
            f'{where}: it is not {{"text": ..., "keyword": ..., "relation": ...}} ({error}); write one object a line'
        ) from error
    for each in (relation, *passes):
        if each not in LABELS:
            raise InputError(f"{where}: {unknown('relation', each, LABELS)}")
    if not keyword or start < 0 or text[start : start + len(keyword)].lower() != keyword:
        raise InputError(f"{where}: {keyword!r} is not at character {start}; correct `start`")
    return LabelledSentence(
        text=text, keyword=keyword, start=start, relation=relation, passes=passes, source=source
    )
