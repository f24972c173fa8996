"""How well classes are told apart, as numbers, as sentences and as a picture; and the spans that tags mark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path

import numpy as np
from attrs import frozen

from peirce.errors import TaskError
from peirce.files import write_whole
from peirce_text.tabular.columns import shown, sort_classes
from peirce_text.tabular.scores import class_sentences, f1_of
from peirce_text.text.encoding import Ints

MOST_DRAWN = 60
"""The most classes that are drawn."""


@frozen(eq=False)
class Confusion:
    """How often each class is predicted as which.

    Args:
        classes: the names of the classes.
        pairs: int64 [m], each pair of a class and what it was taken for that occurs: class * classes + taken for.
        counts: int64 [m], how often.
        spans: where the classes are tags that mark spans, what `span_counts` gives of all texts.
    """

    classes: Sequence[str]
    pairs: Ints
    counts: Ints
    spans: Ints | None = None

    @classmethod
    def of(cls, classes: Sequence[str], right: Ints, predicted: Ints, spans: Ints | None = None) -> Confusion:
        """Count right and predicted classes, int64 [n] each."""
        pairs, counts = np.unique(right * len(classes) + predicted, return_counts=True)
        return cls(classes, pairs, counts, spans)

    @classmethod
    def from_counts(cls, counts: Mapping[tuple[str, str], int], known: Sequence[str] = ()) -> Confusion:
        """From how often each right class was taken for another, by their names; and all that are known."""
        classes = sort_classes([*known, *(name for pair in counts for name in pair)])
        number = {name: i for i, name in enumerate(classes)}
        found = sorted((number[one] * len(classes) + number[other], n) for (one, other), n in counts.items())
        pairs, often = np.array(found, np.int64).reshape(-1, 2).T
        return cls(classes, pairs, often)

    def _class_counts(self) -> tuple[Ints, Ints, Ints]:
        """How many of each class there are, how many are predicted, and how many of these are right."""
        size = len(self.classes)
        one, other = np.divmod(self.pairs, size)
        hit = one == other
        three = ((one, self.counts), (other, self.counts), (one[hit], self.counts[hit]))
        there, predicted, right = (np.bincount(at, weights, size).astype(np.int64) for at, weights in three)
        return there, predicted, right

    @property
    def scores(self) -> dict[str, float]:
        """`accuracy`; and F1, precision and recall of spans, or `macro_f1`: the mean of the F1 of all classes, 0 of one
        that does not occur."""
        there, predicted, right = self._class_counts()
        accuracy = float(right.sum() / there.sum())
        if self.spans is None:
            return {"accuracy": accuracy, "macro_f1": float(f1_of(there, predicted, right).mean())}
        hits, spans, guessed = map(int, self.spans)
        return {
            "accuracy": accuracy,
            "span_f1": float(f1_of(spans, guessed, hits)),
            "span_precision": hits / max(1, guessed),
            "span_recall": hits / max(1, spans),
        }

    def sentences(self) -> Iterator[str]:
        """One for each class that occurs, the one that is told apart worst first; and one about those that do not."""
        one, other = np.divmod(self.pairs, len(self.classes))

        def mistaken(i: int) -> str:
            wrong = (one == i) & (other != i)
            if not wrong.any():
                return ""
            worst = np.flatnonzero(wrong)[self.counts[wrong].argmax()]
            return f"; most often taken for {shown(self.classes[other[worst]])} ({self.counts[worst]:,})"

        return class_sentences(self.classes, *self._class_counts(), mistaken)

    def draw(self, path: Path) -> None:
        """Draw the matrix, each row as shares of its class; of many classes the most frequent ones."""
        from matplotlib.figure import Figure

        there, _, _ = self._class_counts()
        chosen = np.sort(np.argsort(-there, kind="stable")[:MOST_DRAWN])
        one, other = np.divmod(self.pairs, len(self.classes))
        place = np.full(len(self.classes), -1)
        place[chosen] = np.arange(len(chosen))
        drawn = (place[one] >= 0) & (place[other] >= 0)
        counts = np.zeros((len(chosen), len(chosen)), np.int64)
        counts[place[one[drawn]], place[other[drawn]]] = self.counts[drawn]
        shares = counts / np.maximum(1, there[chosen])[:, None]
        side = 3 + 0.45 * len(chosen)
        figure = Figure(figsize=(side, side), layout="constrained")
        axes = figure.subplots()
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        names = [shown(self.classes[i]) for i in chosen]
        axes.set_xticks(range(len(names)), names, rotation=90, parse_math=False)
        axes.set_yticks(range(len(names)), names, parse_math=False)
        axes.set(xlabel="predicted", ylabel="right")
        for row, column in zip(*counts.nonzero(), strict=True):
            color = "white" if shares[row, column] > 0.5 else "black"
            axes.text(
                column, row, f"{counts[row, column]:,}", ha="center", va="center", color=color, fontsize=8
            )
        picture = BytesIO()
        figure.savefig(picture, format=path.suffix[1:].lower(), dpi=120)
        write_whole(path, picture.getvalue())


Span = tuple[int, int, str]
"""The first word, the one after the last, and the kind."""
_TAG = re.compile(r"(?i:([BIEMSLUW]))(?:[-_](.+))?|(.+)[-_]([BIEMSLUW])")
OUTSIDE = frozenset("Oo")


@lru_cache(4096)
def _parse_tag(tag: str) -> tuple[str, str | None]:
    """The letter of a tag and its kind, as in `B-person`, `b_person`, `person-B` and `B`; O and None outside."""
    match = _TAG.fullmatch(tag)
    return ((match[1] or match[4]).upper(), match[2] or match[3] or "") if match else ("O", None)


def marks_spans(tags: Iterable[str]) -> bool:
    """Whether tags mark spans, as `B-person` and `I-person` do."""
    parsed = [_parse_tag(tag) for tag in set(tags) - OUTSIDE]
    return all(kind is not None for _, kind in parsed) and any(letter in "BISU" for letter, _ in parsed)


def check_tags(tags: Iterable[str], where: str) -> None:
    """Refuse tags that are pieces of a list, or that mark spans in a scheme that is not read.

    Raises:
        TaskError: there is such a tag.
    """
    names = sorted(set(tags) - OUTSIDE)
    if piece := next(filter(_is_piece, names), None):
        raise TaskError(
            f"{where} holds the tag {piece!r:.60}, which looks like a piece of a list; save the table as .jsonl, with "
            "lists, or put spaces alone between tags"
        )
    odd = [name for name in names if _parse_tag(name)[1] is None]
    begun = any(re.match("[BI]-.", name) for name in names)
    prefixes = Counter(re.split("[-_]", name, maxsplit=1)[-1] for name in odd)
    own = {*tags} & OUTSIDE and odd == names and min(prefixes.values(), default=0) > 1
    if odd and (begun or own):
        raise TaskError(
            f"{where} holds the tag {odd[0]!r:.60}, which is of no scheme of spans that is read: B- begins one, I- or "
            "M- goes on, E- or L- ends one, S-, U- or W- is one by itself, and O is outside; rename the tags"
        )


def _is_piece(tag: str) -> bool:
    """Whether a tag is what a list becomes where it is cut at its spaces; tags of punctuation have no letter."""
    return (tag[0] in "[({'\"" or tag[-1] in ",'\"]") and any(map(str.isalnum, tag))


def spans(tags: Sequence[str]) -> set[Span]:
    """The spans that tags mark, in the schemes IOB, IOB2, IOBES, BILOU and BMES, as conlleval counts them.

    A span ends where another kind or another span begins, so that `I-a` after `O` begins one, too.
    """
    found: set[Span] = set()
    start, kind, ended = 0, None, True
    for i, tag in enumerate([*tags, "O"]):
        letter, tag_kind = _parse_tag(tag)
        if kind is not None and (tag_kind != kind or ended or letter in "BSUW"):
            found.add((start, i, kind))
            kind = None
        if tag_kind is not None and kind is None:
            start, kind = i, tag_kind
        ended = letter in "ESLUW"
    return found


def span_counts(right: Sequence[str], predicted: Sequence[str]) -> Ints:
    """Of the tags of one text, int64 [3]: spans whose words and kind are right, those there are, those predicted."""
    one, two = spans(right), spans(predicted)
    return np.array([len(one & two), len(one), len(two)], np.int64)
