"""What a table shows before the first step: rows by class and split, rare classes, spellings, texts that repeat."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from attrs import frozen

from peirce_text.tabular.columns import FEW, shown
from peirce_text.tabular.inputs import Numbers
from peirce_text.tasks import TEST, TRAIN, VALID

MOST_NAMED = 20
"""The most classes, and the most remarks of one kind, that are listed by name."""
_SEPARATORS = re.compile(r"[\s._/'-]+(?=\D|$)")
_SIMILAR, _RARER = 0.85, 10
"""How alike two names are that may be one misspelt (one letter of seven), and how much rarer the misspelt one is."""

Counts = Mapping[str, Mapping[str, int]]
"""How many rows, or words, a split has of each class, by split; the training split has every class."""


@frozen(kw_only=True)
class Labelled:
    """A row of a table.

    Args:
        texts: its texts; of a row with tags, its words.
        labels: its class; of a row with tags, the tag of each word.
        number: which row of its file it is, from 1; 0 where nothing says it.
        inputs: the numbers of further inputs of the model.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    number: int = 0
    inputs: tuple[Numbers, ...] = ()


def count_lines(counts: Counts, noun: str) -> Iterator[str]:
    """The rows of each class by split, as lines of a table; of many classes the rarest."""
    totals = _totals(counts)
    names = sorted(totals, key=lambda name: (-totals[name], name))
    rows = [
        (shown(name), *(f"{found.get(name, 0):,}" for found in counts.values()))
        for name in names[-MOST_NAMED:]
    ]
    head = (f"{noun} of each class" if len(names) == len(rows) else f"{noun} of the rarest classes", *counts)
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for first, *numbers in (head, *rows):
        cells = (cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))
        yield "  ".join((first.ljust(widths[0]), *cells))


def class_remarks(counts: Counts, noun: str) -> Iterator[str]:
    """A sentence for each class that is not measured or can hardly be learned, and for each that two names may share.

    Args:
        counts: how many rows of each class there are in each split.
        noun: what is counted.
    """
    totals = _totals(counts)
    rare = sorted(totals, key=lambda name: (totals[name], name))
    measured = TEST if TEST in counts else VALID
    sentences = []
    for name in rare:
        rows = f"{shown(name)} has {totals[name]:,} {noun if totals[name] > 1 else noun.removesuffix('s')}"
        few = counts[TRAIN].get(name, 0) < FEW
        if measured in counts and not counts[measured].get(name):
            sentences.append(f"{rows}, none in {measured}, and is not measured")
        elif few:
            sentences.append(
                f"{rows}, {counts[TRAIN].get(name, 0)} in train, from which little can be learned"
            )
    yield from sentences[:MOST_NAMED]
    if len(sentences) > MOST_NAMED:
        yield f"and {len(sentences) - MOST_NAMED:,} further classes are as rare"
    for one, other in spelling_pairs(totals):
        yield (
            f"the classes {shown(one)} ({totals[one]:,}) and {shown(other)} ({totals[other]:,}) look like two "
            "spellings of one; write each class in one way, or they are learned apart"
        )


def spelling_pairs(totals: Mapping[str, int]) -> list[tuple[str, str]]:
    """Names of classes that look like two spellings of one, the rarer one first.

    They are the same but for capitals, spaces and signs between words, or but for a letter where one is rare.
    """
    names = sorted(totals, key=lambda name: (-totals[name], name))[
        :1000
    ]  # each is held against more frequent ones
    plain = {name: _SEPARATORS.sub("", name.casefold()) or name for name in names}
    frequent: dict[str, str] = {}
    found = []
    for name in names:
        other = frequent.setdefault(plain[name], name)
        if other == name:
            like = (each for each in frequent.values() if totals[each] >= _RARER * totals[name])
            other = next((each for each in like if _misspelt(plain[name], plain[each])), name)
        if other != name:
            found.append((name, other))
    return found[:MOST_NAMED]


def _misspelt(name: str, other: str) -> bool:
    """Whether a name is another but for a letter; `class 1` and `class 2`, `incomplete` and `complete` are not."""
    if min(len(name), len(other)) < 5 or name.endswith(other) or other.endswith(name):
        return False
    digits = [[letter for letter in each if letter.isdigit()] for each in (name, other)]
    alike = SequenceMatcher(None, name, other, autojunk=False)
    return digits[0] == digits[1] and alike.quick_ratio() >= _SIMILAR and alike.ratio() >= _SIMILAR


def text_remarks(read: Mapping[str, Iterable[Labelled]]) -> Iterator[str]:
    """Sentences about texts that repeat: over splits, and with two labels.

    Args:
        read: the rows of each split, the training split first.
    """
    known: dict[int, Sequence[str]] = {}  # digests, since there may be millions of texts
    training: frozenset[int] = frozenset()
    twice: dict[int, str] = {}
    for split, rows in read.items():
        count = repeated = 0
        for row in rows:
            text = " ".join(" ".join(row.texts).casefold().split())
            key = hash((text, repr(row.inputs)))  # one text with other numbers is another row
            if known.setdefault(key, row.labels) != row.labels:
                one, other = (" ".join(each)[:60] for each in (known[key], row.labels))
                twice.setdefault(key, f"{text[:60]!r}: {one} and {other}")
            count, repeated = count + 1, repeated + (key in training)
        training = training or frozenset(known)
        if repeated:
            yield (
                f"{repeated:,} of {count:,} {split} rows have the text of a training row, so their scores are too "
                "good; keep every text once"
            )
    if twice:
        several = f"{len(twice):,} texts have" if len(twice) > 1 else "a text has"
        yield f"{several} two labels, such as {next(iter(twice.values()))}; decide on one"


def _totals(counts: Counts) -> dict[str, int]:
    names = dict.fromkeys(name for found in counts.values() for name in found)
    return {name: sum(found.get(name, 0) for found in counts.values()) for name in names}
