"""Why a model of a table is bad: what it takes for what, how sure it is, which labels look wrong, what to try next."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from peirce.errors import TaskError
from peirce.files import read_json
from peirce_text.tabular.baseline import Floats, is_too_much, left_out_probabilities
from peirce_text.tabular.checks import Labelled, spelling_pairs
from peirce_text.tabular.columns import class_name, shown
from peirce_text.tabular.measures import Confusion, marks_spans, span_counts
from peirce_text.tabular.predictor import LocalPredictor
from peirce_text.text.encoding import Ints, softmax

MOST_CLASSES = 2000
"""The most classes of a model that is explained: 32 MB hold how often each is taken for which."""
LEAST_ROWS = 40
"""The fewest rows of which labels are doubted."""
SURE = 0.8
"""How probable another class must be, out of fold, for a label to be listed.

With 75 wrong labels planted in 1,500 rows each of TREC, CR and SUBJ, 35, 69 and 52 are listed, of which 26, 30 and 32
are planted, means of three draws; at 0.5 there are 157, 258 and 132, of which 51, 53 and 57 are.
"""
_FEW_ROWS, _POOR = 20, 0.5
"""Training rows and recall, below both of which a class is said to lack rows."""
BY_THE_MODEL = "this model, which was not trained on them"
BY_WORDS = "logistic regression on a bag of words, with a fifth of the rows left out at a time"


@frozen(kw_only=True)
class Finding:
    """A row, or a word of one, whose label a model contradicts.

    Args:
        row: the row.
        word: which word of it; None where rows have classes.
        label: its class.
        other: the class that is more probable.
        probability: how probable that is.
    """

    row: Labelled
    word: int | None
    label: str
    other: str
    probability: float


@frozen(eq=False, kw_only=True)
class Judged:
    """Rows, or words of rows with tags, and how probable a model finds each class of each; below, they are items.

    Args:
        rows: the rows.
        classes: the names of the model's classes.
        tags: whether items are words.
        owners: int64 [n], the row of each item.
        words: int64 [n], which word of its row an item is; 0 where it is a row.
        labels: int64 [n], the class of each.
        probabilities: float64 [n, classes].
        lengths: int64 [rows], the tokens of each row, or its words.
        longest: the most tokens that the model reads at once.
        unknown: how often each class occurs that the model does not know; items of them are left out.
    """

    rows: Sequence[Labelled]
    classes: Sequence[str]
    tags: bool
    owners: Ints
    words: Ints
    labels: Ints
    probabilities: Floats
    lengths: Ints
    longest: int
    unknown: Mapping[str, int] = field(factory=dict)

    @classmethod
    def of(cls, predictor: LocalPredictor, rows: Sequence[Labelled], batch_size: int = 32) -> Judged:
        """Predict rows that have labels."""
        tags, scorer = predictor.tags, predictor.scorer
        texts: list[Any] = [[list(row.texts) for row in rows]]
        if not tags:
            texts = list(zip(*(row.texts for row in rows), strict=True))
        found = predictor.score(texts, batch_size, softmax, [row.inputs for row in rows])
        counts = [len(row.labels) for row in rows]
        classes = [class_name(each, "the model") for each in predictor.classes]
        numbers = {name: number for number, name in enumerate(classes)}
        names = [name for row in rows for name in row.labels]
        known = np.array([name in numbers for name in names], np.bool_)
        if not known.any():
            few = ", ".join(map(shown, list(dict.fromkeys(names))[:10]))
            raise TaskError(
                f"the model has none of the classes {few}, which the rows have; name the column of the right classes "
                "with --label"
            )
        if len(classes) > MOST_CLASSES:
            raise TaskError(
                f"the model has {len(classes):,} classes, and one of at most {MOST_CLASSES:,} is explained; `peirce "
                "predict` measures its predictions"
            )
        pieces = [scorer.tokenizer.pieces_of(list(part)) for part in texts] if not tags else []
        specials = scorer.longest - scorer.tokenizer.room(scorer.longest, len(texts))
        lengths = counts if tags else [sum(map(len, row)) + specials for row in zip(*pieces, strict=True)]
        return cls(
            rows=rows,
            classes=tuple(map(str, classes)),
            tags=tags,
            owners=np.repeat(np.arange(len(rows)), counts)[known],
            words=np.concatenate([np.arange(count) for count in counts])[known],
            labels=np.array([numbers[name] for name in names if name in numbers], np.int64),
            probabilities=np.concatenate([np.atleast_2d(each) for each in found])[known],
            lengths=np.array(lengths, np.int64),
            longest=scorer.longest,
            unknown=Counter(name for name in names if name not in numbers),
        )

    @property
    def predicted(self) -> Ints:
        """int64 [n], the most probable class of each."""
        return self.probabilities.argmax(-1)

    @property
    def right(self) -> NDArray[np.bool_]:
        """bool [n]."""
        return self.predicted == self.labels

    @property
    def confusion(self) -> Confusion:
        """How often each class is taken for which."""
        spans = None
        if self.tags and marks_spans(self.classes):
            names = np.array(self.classes, np.object_)
            starts = np.flatnonzero(np.diff(self.owners, prepend=-1))[1:]
            both = (np.split(names[each], starts) for each in (self.labels, self.predicted))
            spans = sum((span_counts(*pair) for pair in zip(*both, strict=True)), np.zeros(3, np.int64))
        return Confusion.of(self.classes, self.labels, self.predicted, spans)

    @property
    def matrix(self) -> Ints:
        """int64 [classes, classes], how many items of the class of the row are taken for that of the column."""
        size = len(self.classes)
        return np.bincount(self.labels * size + self.predicted, minlength=size**2).reshape(size, size)

    def errors(self, most: int) -> list[Finding]:
        """The wrong items of which the model is surest, each text once."""
        wrong, best = np.flatnonzero(~self.right), self.probabilities.max(-1)
        found: dict[object, Finding] = {}
        for item in wrong[np.argsort(-best[wrong], kind="stable")].tolist():
            row, word = self.rows[self.owners[item]], int(self.words[item])
            error = Finding(
                row=row,
                word=word if self.tags else None,
                label=self.classes[self.labels[item]],
                other=self.classes[self.predicted[item]],
                probability=float(best[item]),
            )
            found.setdefault((row.texts, word), error)
        return list(found.values())[:most]

    def calibration(self) -> list[tuple[float, float, int, float, float]]:
        """Bands of probability: from, to, how many items, their mean probability, and the share that is right."""
        sure, right = self.probabilities.max(-1), self.right
        edges = np.linspace(0, 1, 11)
        bands = []
        for low, high in pairwise(edges.tolist()):
            inside = (sure > low) & (sure <= high)
            if inside.any():
                bands.append(
                    (low, high, int(inside.sum()), float(sure[inside].mean()), float(right[inside].mean()))
                )
        return bands

    def by_length(self) -> list[tuple[int, int, int, float]]:
        """Four bands of lengths with about as many items each: from, to, how many, and the share that is right."""
        lengths, right = self.lengths[self.owners], self.right
        edges = np.unique(np.quantile(lengths, [0.25, 0.5, 0.75, 1], method="nearest")).tolist()
        bands = []
        for low, high in pairwise([-1, *edges]):
            inside = (lengths > low) & (lengths <= high)
            bands.append((int(lengths[inside].min()), high, int(inside.sum()), float(right[inside].mean())))
        return bands


def doubt_labels(labels: Ints, probabilities: Floats) -> Ints:
    """The items whose labels look wrong, the most contradicted first.

    By confident learning (Northcutt et al., 2021), as the library cleanlab has it.

    Args:
        labels: int64 [n].
        probabilities: float64 [n, classes], of a model that has not seen the label of the item.
    """
    from cleanlab.filter import find_label_issues

    present = np.unique(labels)  # cleanlab takes no class that no item has
    if len(present) < 2 or len(labels) < LEAST_ROWS:
        return np.zeros(0, np.int64)
    shares = np.maximum(probabilities[:, present], 1e-12)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "May not flag all label issues", UserWarning
        )  # of very small classes
        found = np.asarray(
            find_label_issues(
                np.searchsorted(present, labels),
                shares / shares.sum(-1, keepdims=True),
                return_indices_ranked_by="normalized_margin",
                n_jobs=1,
            ),
            np.int64,
        )
    best = probabilities.argmax(-1)
    sure = probabilities.max(-1) >= SURE
    return found[((best != labels) & sure)[found]]


@frozen(eq=False, kw_only=True)
class Diagnosis:
    """What there is to say of a model on some rows.

    Args:
        judged: the rows that are measured, and what the model predicts of them.
        doubts: labels that look wrong, the most contradicted first.
        looked_at: among how many labels; 0 where there were too few, or none that the model has not seen.
        doubted_by: what gave the probabilities that contradict them.
        baseline: bool [n], whether a bag of words is right on each measured row; None where there is none.
        counts: how many rows of each class there are in training; empty where nothing says it.
        settings: the settings of the training, by dotted key; empty where nothing says them.
        losses: the validation loss of each evaluation in the training.
        unseen: whether the measured rows were kept out of the training for sure.
    """

    judged: Judged
    doubts: Sequence[Finding]
    looked_at: int
    doubted_by: str
    baseline: NDArray[np.bool_] | None
    counts: Mapping[str, int]
    settings: Mapping[str, Any]
    losses: Sequence[float]
    unseen: bool

    @property
    def is_behind(self) -> bool:
        """Whether a bag of words is right more often than the model, by McNemar's test at two standard errors."""
        if self.baseline is None or not self.unseen:
            return False
        better = int((self.baseline & ~self.judged.right).sum())
        worse = int((self.judged.right & ~self.baseline).sum())
        return better - worse > 2 * math.sqrt(better + worse)

    def next_steps(self) -> list[str]:
        """What to try, the most telling first; a step is there only where the figures support it."""
        return [
            *self._of_labels(),
            *self._of_learning(),
            *self._of_classes(),
            *self._of_texts(),
            *self._of_figures(),
        ]

    def _of_labels(self) -> Iterator[str]:
        if (count := len(self.doubts)) >= 3:
            yield (
                f"{count:,} of {self.looked_at:,} labels ({count / self.looked_at:.1%}) look wrong. Read them "
                "before anything else: a model is measured by its labels as much as it learns from them."
            )
        totals = Counter(self.judged.classes[label] for label in self.judged.labels) + Counter(self.counts)
        for one, other in spelling_pairs(totals):
            yield f"{shown(one)} and {shown(other)} look like two spellings of one class. Write it in one way."
        if self.judged.unknown:
            few = ", ".join(map(shown, list(self.judged.unknown)[:10]))
            yield f"The model does not know the classes {few}, whose rows are not measured. Train on rows of them too."

    def _of_learning(self) -> Iterator[str]:
        right, baseline = self.judged.right, self.baseline
        if baseline is not None and self.is_behind:
            yield (
                f"Logistic regression on a bag of words is right on {baseline.mean():.1%} of these rows, this model on "
                f"{right.mean():.1%}: it has not learnt what single words say. Train longer or with a higher train.lr, "
                "or begin with a pretrained model."
            )
        losses = [loss for loss in self.losses if math.isfinite(loss)]
        if len(losses) > 1:
            best = int(np.argmin(losses))
            if best == len(losses) - 1 and losses[-1] < 0.98 * losses[-2]:
                yield (
                    f"The validation loss still fell at the end, from {losses[-2]:.3f} to {losses[-1]:.3f}. Train "
                    "longer: raise train.epochs."
                )
            elif losses[-1] > 1.1 * losses[best]:
                yield (
                    f"The validation loss was least at evaluation {best + 1} of {len(losses)}, {losses[best]:.3f}, "
                    f"and rose to {losses[-1]:.3f}: the model learns rows by heart. More rows, a pretrained model or "
                    "a smaller one help; more epochs do not."
                )

    def _of_classes(self) -> Iterator[str]:
        judged = self.judged
        matrix = judged.matrix
        there, hit = matrix.sum(-1), matrix.diagonal()
        recall = hit / np.maximum(1, there)
        outside = {"O"} if judged.tags else set()
        rare = [
            i
            for i, name in enumerate(judged.classes)
            if there[i] >= 2
            and recall[i] < _POOR
            and self.counts.get(name, _FEW_ROWS) < _FEW_ROWS
            and name not in outside
        ]
        if rare:
            few = ", ".join(
                f"{shown(judged.classes[i])} ({self.counts[judged.classes[i]]})" for i in rare[:10]
            )
            yield f"These classes have few training rows and are mostly missed: {few}. Collect more rows of them."
        small = there < there.sum() / max(1, (there > 0).sum()) / 2
        one, other = there[small].sum(), there[~small].sum()
        plain = self.settings.get("task.weights") == "none"
        if plain and _lower(hit[small].sum(), one, hit[~small].sum(), other):
            yield (
                f"Rows of small classes are right in {hit[small].sum() / one:.1%}, of large ones in "
                f"{hit[~small].sum() / other:.1%}. Try --set weights=balanced."
            )
        mistakes, size = matrix - np.diag(hit), len(matrix)
        both = np.triu(mistakes + mistakes.T)
        most, wrong = int(both.max(initial=0)), int(mistakes.sum())
        # Twice as many as if all pairs were confused alike, and by no model that is still to learn.
        if most >= 5 and most >= wrong * max(0.4, 4 / (size * (size - 1))) and not self.is_behind:
            one, other = (shown(judged.classes[int(i)]) for i in np.unravel_index(both.argmax(), both.shape))
            yield (
                f"{most:,} of {wrong:,} errors are {one} taken for {other} or the other way round. Read them side by "
                "side: if people cannot tell either, say in the guide of the labels where one ends, or merge the two."
            )

    def _of_texts(self) -> Iterator[str]:
        judged = self.judged
        cut = (judged.lengths > judged.longest)[judged.owners]
        if not judged.tags and _lower(
            judged.right[cut].sum(), cut.sum(), judged.right[~cut].sum(), (~cut).sum()
        ):
            enough = math.ceil(np.quantile(judged.lengths, 0.95) / 32) * 32
            yield (
                f"Texts that are cut to {judged.longest} tokens are right in {judged.right[cut].mean():.1%}, others in "
                f"{judged.right[~cut].mean():.1%}. Raise --set length={enough}, which holds 19 of 20 texts, if the "
                "model can read as many."
            )

    def _of_figures(self) -> Iterator[str]:
        judged, count = self.judged, len(self.judged.labels)
        if not count:
            return
        sure, share = float(judged.probabilities.max(-1).mean()), float(judged.right.mean())
        error = math.sqrt(max(share * (1 - share), 1 / count) / count)
        if abs(sure - share) > max(0.05, 2 * error):
            what = "surer than it is right" if sure > share else "less sure than it is right"
            yield (
                f"The model is {what}: its probabilities are {sure:.1%} in the mean, and {share:.1%} are right. Choose "
                "thresholds by the table of calibration, not by the probabilities themselves."
            )
        if error > 0.01 and not judged.tags:
            yield (
                f"{count:,} rows measure accuracy to about ±{200 * error:.0f} points. Differences below that between "
                "two trainings are chance; more test rows would tell."
            )


def _lower(one: Any, of_one: Any, other: Any, of_other: Any) -> bool:
    """Whether a share is lower than another by more than two standard errors, with at least ten rows each."""
    if min(of_one, of_other) < 10:
        return False
    both = (one + other) / (of_one + of_other)
    error = math.sqrt(both * (1 - both) * (1 / of_one + 1 / of_other))
    return bool(other / of_other - one / of_one > 2 * error)


def diagnose(
    predictor: LocalPredictor,
    measured: Sequence[Labelled],
    others: Sequence[Labelled] = (),
    counts: Mapping[str, int] | None = None,
    *,
    folder: Path,
    unseen: bool,
    batch_size: int = 32,
) -> Diagnosis:
    """Look at what a model predicts of rows, and at their labels.

    Args:
        predictor: the model.
        measured: the rows that it is measured on.
        others: further rows, such as those of the training, whose labels are looked at too.
        counts: how many rows of each class there are in training, where that is known.
        folder: where the model is saved, with the records of its training if there are any.
        unseen: whether the measured rows were kept out of the training for sure.
        batch_size: how many rows are predicted at once.
    """
    judged = Judged.of(predictor, measured, batch_size)
    rows, baseline = list[tuple[Labelled, int | None]](), None
    if judged.tags and unseen:
        rows = [
            (judged.rows[owner], word)
            for owner, word in zip(judged.owners, judged.words.tolist(), strict=True)
        ]
        names, labels, shares = judged.classes, judged.labels, judged.probabilities
    elif not judged.tags and len(measured) + len(others) >= LEAST_ROWS:
        names = sorted({row.labels[0] for row in (*measured, *others)})
        texts = [row.texts for row in (*measured, *others)]
        few = others
        while few and is_too_much(texts, len(names)):
            few = few[::2]
            texts = texts[: len(measured)] + [row.texts for row in few]
        if not is_too_much(texts, len(names)):
            rows = [(row, None) for row in (*measured, *few)]
            numbers = {name: number for number, name in enumerate(names)}
            labels = np.array([numbers[row.labels[0]] for row, _ in rows])
            shares = left_out_probabilities(texts, labels, len(names))
            baseline = (shares.argmax(-1) == labels)[judged.owners]  # measured rows come first
    doubts = []
    alike = set(spelling_pairs(Counter(name for row in (*measured, *others) for name in row.labels)))
    for i in doubt_labels(labels, shares) if rows else ():
        label, suggested = names[labels[i]], names[shares[i].argmax()]
        if not {(label, suggested), (suggested, label)} & alike:  # which is said once, of the classes
            row, word = rows[i]
            probability = float(shares[i].max())
            doubts.append(Finding(row=row, word=word, label=label, other=suggested, probability=probability))
    record, metrics = (_read(folder / name) for name in ("training.json", "metrics.json"))
    options = {f"task.{k}": v for k, v in record.get("task", {}).get("options", {}).items()}
    evaluations = [each.get("metrics", {}) for each in metrics.get("during_training", ())]
    return Diagnosis(
        judged=judged,
        doubts=doubts,
        looked_at=len(rows),
        doubted_by=BY_THE_MODEL if judged.tags else BY_WORDS,
        baseline=baseline,
        counts=counts or {},
        settings=options,
        losses=[each["loss"] for each in evaluations if "loss" in each],
        unseen=unseen,
    )


def _read(path: Path) -> dict[str, Any]:
    """A record of a training; empty where there is none that can be read."""
    with suppress(OSError, ValueError):
        return dict(read_json(path))
    return {}
