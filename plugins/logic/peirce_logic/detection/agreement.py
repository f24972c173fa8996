"""How far what is found in sentences agrees with what was annotated in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from peirce.errors import unknown
from peirce_logic.detection.algorithm import Relation, Span, Spans
from peirce_logic.detection.lexicon import Lexicon
from peirce_logic.json_lines import read_json_lines
from peirce_logic.relations import RELATIONS

ENGLISH = Path(__file__).with_name("sentences.jsonl")
_WORD = re.compile(r"can(?=not)|\w+(?=n['\u2019]t)|n['\u2019]t|[\w']+", re.IGNORECASE)


@frozen
class Annotation:
    """A relation that was annotated: its name, where its keyword stands, and its spans."""

    relation: str
    key: Span
    alpha: Spans
    beta: Spans


@frozen
class AnnotatedSentence:
    """A sentence with its relations, and what each of two readings of it said where it says something else."""

    text: str
    source: str
    relations: tuple[Annotation, ...]
    passes: tuple[tuple[Annotation, ...], ...] = ()


@frozen(kw_only=True)
class Agreement:
    """How many relations were annotated and found, and agree in keyword and relation, or in the spans as well."""

    annotated: int = 0
    found: int = 0
    named: int = 0
    spanned: int = 0

    def __add__(self, other: Agreement) -> Agreement:
        """Of two groups together."""
        return Agreement(
            annotated=self.annotated + other.annotated,
            found=self.found + other.found,
            named=self.named + other.named,
            spanned=self.spanned + other.spanned,
        )

    @property
    def shares(self) -> dict[str, float]:
        """Precision and recall, by keyword and relation, and with spans."""
        found, annotated = max(self.found, 1), max(self.annotated, 1)
        return {
            "precision": self.named / found, "recall": self.named / annotated,
            "precision with spans": self.spanned / found, "recall with spans": self.spanned / annotated,
        }  # fmt: skip


def read_annotated(path: str | os.PathLike[str] | None = None) -> list[AnnotatedSentence]:
    """Annotated sentences of a file.

    Args:
        path: JSON lines, as `peirce_logic/detection/sentences.jsonl`; that file if None.

    Raises:
        InputError: the file cannot be read, or a line is not an annotated sentence.
    """
    return read_json_lines(
        ENGLISH if path is None else Path(path),
        _annotated,
        '{"text": ..., "relations": [[RELATION, KEY, ALPHA, BETA], ...]}, a key as [start, end) in characters, and '
        "spans as lists of such",
    )


def _annotated(given: Any) -> AnnotatedSentence:
    passes = tuple(tuple(_annotations(each)) for each in given.get("passes", ()))
    relations = tuple(_annotations(given["relations"]))
    return AnnotatedSentence(str(given["text"]), str(given.get("source", "")), relations, passes)


def _annotations(given: Any) -> Iterator[Annotation]:
    for relation, key, alpha, beta in given:
        if relation not in dict(RELATIONS):
            raise ValueError(unknown("relation", relation, dict(RELATIONS)))
        left, right = (tuple(Span(int(start), int(end)) for start, end in spans) for spans in (alpha, beta))
        yield Annotation(str(relation), Span(*map(int, key)), left, right)


def agreements(
    sentences: Sequence[AnnotatedSentence], found: Sequence[Sequence[Relation]], lexicon: Lexicon
) -> dict[str, Agreement]:
    """The agreement of each relation.

    A relation that was found agrees with one that was annotated if both have the name, and their keywords overlap; with
    spans, if these have the same letters and digits, but for those of the annotated keyword. What is annotated for a
    keyword that the lexicon lacks does not count; of "even if" the lexicon may have "if".

    Args:
        sentences: with annotations.
        found: the relations of each of them.
        lexicon: what they were found by.
    """
    counts = {name: Agreement() for name, _ in RELATIONS}
    for sentence, relations in zip(sentences, found, strict=True):
        left = [each for each in sentence.relations if _has_keyword(lexicon, sentence.text, each)]
        for annotation in left:
            counts[annotation.relation] += Agreement(annotated=1)
        for relation in relations:
            match = next((each for each in left if _is_same(each, relation)), None)
            spanned = False
            if match is not None:
                left.remove(match)
                spanned = all(
                    _letters(sentence.text, own, match.key) == _letters(sentence.text, other, match.key)
                    for own, other in ((match.alpha, relation.alpha), (match.beta, relation.beta))
                )
            counts[relation.relation] += Agreement(found=1, named=match is not None, spanned=spanned)
    return counts


def _has_keyword(lexicon: Lexicon, text: str, annotation: Annotation) -> bool:
    matches = lexicon.matches(_WORD.findall(text[slice(*annotation.key)]))
    return any(sense.relation == annotation.relation for match in matches for sense in match.senses)


def _is_same(annotation: Annotation, relation: Relation) -> bool:
    overlap = annotation.key.start < relation.key.end and relation.key.start < annotation.key.end
    return annotation.relation == relation.relation and overlap


def _letters(text: str, spans: Spans, key: Span) -> set[int]:
    """Where the letters and digits of spans stand, without those of a keyword."""
    inside = {i for start, end in spans for i in range(start, end) if text[i].isalnum()}
    return inside - set(range(*key))
