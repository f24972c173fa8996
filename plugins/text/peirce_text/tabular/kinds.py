"""What models predict of the rows of a table, by kind: the columns that are added, and how predictions are measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from attrs import evolve, frozen

from peirce.errors import TaskError
from peirce_text.reading import Row
from peirce_text.tabular.columns import Roles, class_name, number_in, sort_classes
from peirce_text.tabular.lists import items
from peirce_text.tabular.measures import OUTSIDE, Confusion, marks_spans, span_counts, spans
from peirce_text.tabular.scores import Errors, LabelCounts, Measures, Ranking

Holds = Literal["text", "number", "texts", "numbers", "spans"]
"""What an added column holds in a row: `spans` are objects with `start`, `end`, `tag` and `text`."""


class Measurement(ABC):
    """Holds predictions against what a column of the table says, row by row.

    Args:
        classes: those of the model; empty where they are not known.
    """

    def __init__(self, classes: Sequence[str] = ()) -> None:
        self.classes = tuple(str(class_name(each, "the model")) for each in classes)

    @abstractmethod
    def add(self, row: Row, roles: Roles, predicted: Any) -> None:
        """Count the prediction of a row, if the column says what is right.

        Raises:
            TaskError: the column holds something of another kind.
        """

    @property
    @abstractmethod
    def found(self) -> Measures | None:
        """What predictions are measured by; None where nothing was counted."""


class _Classes(Measurement):
    """Classes of texts, or tags of words."""

    def __init__(self, classes: Sequence[str] = ()) -> None:
        super().__init__(classes)
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._spans = np.zeros(3, np.int64)

    def add(self, row: Row, roles: Roles, predicted: Any) -> None:
        value, where = row.value(roles.label), f"{row.where}: column {roles.label!r}"
        tags = isinstance(predicted, list)
        right = [class_name(each, where) for each in (items(value, where) if tags else [value])]
        # Models of older versions have classes such as `1.0`, which is `1` in a table.
        guesses = [str(class_name(each, where)) for each in (predicted if tags else [predicted])]
        if len(right) != len(guesses):
            raise TaskError(
                f"{where} has {len(right)} tags for {len(guesses)} words; give every word one tag"
            )
        known = [each for each in right if each is not None]
        if len(known) < len(right):
            return
        self._pairs.update(zip(known, guesses, strict=True))
        if tags:
            self._spans += span_counts(known, guesses)

    @property
    def found(self) -> Confusion | None:
        if not self._pairs:
            return None
        found = Confusion.from_counts(self._pairs, self.classes)
        return evolve(found, spans=self._spans) if self._spans.any() and marks_spans(found.classes) else found


class _Labels(Measurement):
    """Several labels of a text."""

    def __init__(self, classes: Sequence[str] = ()) -> None:
        super().__init__(classes)
        self._counts: list[Counter[str]] = [Counter(), Counter(), Counter()]
        self._rows = self._whole = 0

    def add(self, row: Row, roles: Roles, predicted: Any) -> None:
        value, where = row.value(roles.label), f"{row.where}: column {roles.label!r}"
        right = {name for each in items(value, where) if (name := class_name(each, where)) is not None}
        guessed = set(predicted)
        for counter, names in zip(self._counts, (right, guessed, right & guessed), strict=True):
            counter.update(names)
        self._rows, self._whole = self._rows + 1, self._whole + (right == guessed)

    @property
    def found(self) -> LabelCounts | None:
        if not self._rows:
            return None
        classes = sort_classes([*self.classes, *(name for each in self._counts for name in each)])
        there, predicted, right = (
            np.array([each[name] for name in classes], np.int64) for each in self._counts
        )
        return LabelCounts(classes, there, predicted, right, self._rows, self._whole)


class _Numbers(Measurement):
    """Numbers of texts."""

    def __init__(self, classes: Sequence[str] = ()) -> None:
        super().__init__(classes)
        self._right, self._predicted = array("d"), array("d")

    def add(self, row: Row, roles: Roles, predicted: Any) -> None:
        if (right := number_in(row.value(roles.label))) is not None:
            self._right.append(right)
            self._predicted.append(predicted)

    @property
    def found(self) -> Measures | None:
        return Errors(np.array(self._right), np.array(self._predicted)) if self._right else None


class _Ranks(_Numbers):
    """The scores of texts for a query."""

    def __init__(self, classes: Sequence[str] = ()) -> None:
        super().__init__(classes)
        self._queries, self._numbers = array("q"), dict[str, int]()

    def add(self, row: Row, roles: Roles, predicted: Any) -> None:
        right, query = number_in(row.value(roles.label)), row.value(roles.texts[0])
        if right is not None and right >= 0:
            super().add(row, roles, predicted)
            self._queries.append(self._numbers.setdefault(query, len(self._numbers)))

    @property
    def found(self) -> Measures | None:
        numbers = (np.array(each) for each in (self._queries, self._right, self._predicted))
        return Ranking(*numbers) if self._right else None


@frozen(kw_only=True)
class Kind:
    """What is predicted of the rows of a table.

    Args:
        added: the columns that are added, and what each holds.
        measurement: what measures predictions, made of the classes of the model.
    """

    added: Mapping[str, Holds]
    measurement: type[Measurement]


KINDS: Mapping[str, Kind] = {
    "classify": Kind(added={"prediction": "text", "probability": "number"}, measurement=_Classes),
    "multilabel": Kind(added={"prediction": "texts", "probability": "numbers"}, measurement=_Labels),
    "score": Kind(added={"prediction": "number"}, measurement=_Numbers),
    "rank": Kind(added={"prediction": "number"}, measurement=_Ranks),
    "tag": Kind(
        added={"prediction": "texts", "probability": "numbers", "spans": "spans"}, measurement=_Classes
    ),
}
"""The kinds by name."""


def character_spans(
    words: Sequence[str], tags: Sequence[str], value: Any, classes: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The characters of each span that tags mark, or else of each word: `start`, `end`, `tag` and `text`.

    Args:
        words: the words.
        tags: the tag of each.
        value: what they stand in: a text with spaces, whose characters are counted, or a list, which is counted as its
            words with one space between them.
        classes: all tags that there are; empty where they are not known.
    """
    plain = isinstance(value, str) and value.split() == list(words)
    text = value if plain else " ".join(words)
    ends = list(_places(words, text))
    marked = marks_spans(classes or tags) or set(tags) <= OUTSIDE
    found = sorted(spans(tags)) if marked else [(i, i + 1, tag) for i, tag in enumerate(tags)]
    cut = [(ends[first][0], ends[last - 1][1], tag) for first, last, tag in found]
    return [{"start": start, "end": end, "tag": tag, "text": text[start:end]} for start, end, tag in cut]


def _places(words: Sequence[str], text: str) -> Iterator[tuple[int, int]]:
    """Where each word begins in a text that has all of them in their order, and where it ends."""
    at = 0
    for word in words:
        start = text.index(word, at)
        at = start + len(word)
        yield start, at
