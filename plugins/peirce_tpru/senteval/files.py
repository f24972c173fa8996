"""The files of SentEval's tasks, gzipped or not: sentences or pairs of them, with classes or scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from peirce.errors import TaskError, unknown
from peirce.files import open_file, read_lines
from peirce_text import read_rows

TRAIN, VALID, TEST = "train", "valid", "test"


@frozen(eq=False)
class Examples:
    """Sentences with their labels.

    Args:
        texts: the first text of each example, and the second where examples are pairs.
        labels: int64 [n], a class each; or float64 [n], a score each.
    """

    texts: tuple[tuple[str, ...], ...]
    labels: NDArray[np.int64] | NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.labels)

    def first(self, count: int) -> Examples:
        """As many examples, at even distances, since some files are sorted by label; all if 0 or if there are fewer."""
        if not 0 < count < len(self):
            return self
        chosen = np.linspace(0, len(self) - 1, count).round().astype(int)
        return Examples(tuple(tuple(column[i] for i in chosen) for column in self.texts), self.labels[chosen])


Read = Mapping[str, Examples]
"""The examples of each split, or of each of several sets that a task is a mean over."""

STS_SETS: Mapping[str, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "OnWN", "SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""The sets of each year that SentEval has. SMT of 2013 is not published."""


SICK = {TRAIN: ("SICK_train",), VALID: ("SICK_trial",), TEST: ("SICK_test_annotated",)}
MRPC = {TRAIN: ("msr-para-train", "msr-para-val"), TEST: ("msr-para-test",)}
"""The tables of each split; those of MRPC for training and choosing are one training set, as it is published."""


def _labelled(folder: Path, names: Mapping[str, str], classes: int) -> Read:
    """Files with a class and a sentence a line, by split."""
    found = {}
    for split, name in names.items():
        path = _there(folder, name)
        labels, texts = [], []
        for number, line in enumerate(_lines(path), 1):
            label, _, text = line.strip().partition(" ")
            if not label.isdecimal() or int(label) >= classes:  # the sentence may be empty; one of CR is
                raise TaskError(
                    f"{path}, line {number}: {line.strip()[:40]!r}, where a class from 0 to {classes - 1}, a "
                    "space and a sentence must stand"
                )
            labels.append(int(label))
            texts.append(text.strip())
        found[split] = _examples(path, [texts], np.array(labels, np.int64))
    return found


CLASSES: Mapping[str, Sequence[str]] = {
    "Quality": ("0", "1"),
    "entailment_judgment": ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"),
}
"""The classes of columns that hold some, in the order of their numbers; other columns hold scores from 1 to 5."""


def _tables(folder: Path, names: Mapping[str, Sequence[str]], texts: tuple[str, str], label: str) -> Read:
    """Pairs in tables with a header; the files of a split follow one another."""
    found = {}
    for split, own in names.items():
        paths = [_there(folder, f"{name}.tsv", f"{name}.txt") for name in own]
        rows = [row for path in paths for row in read_rows(path, (*texts, label), quotes=False)]
        columns = [[row.text(name) for row in rows] for name in texts]
        if label in CLASSES:
            labels = np.array([_of(row.where, row.text(label), CLASSES[label]) for row in rows], np.int64)
        else:
            labels = np.array([_score(row.where, row.text(label), 1) for row in rows])
        found[split] = _examples(paths[0], columns, labels)
    return found


def _scored(path: Path, score: int) -> Examples:
    """Pairs between tabs without a header: in field `score` a score, and the two sentences in the fields after it. What
    has no score does not count."""
    scores: list[float] = []
    texts: list[list[str]] = [[], []]
    for number, line in enumerate(_lines(path), 1):
        fields = line.rstrip("\r\n").split("\t")
        if len(fields) < score + 3:
            raise TaskError(
                f"{path}, line {number}: {len(fields)} fields between tabs, where a score and two sentences must stand"
            )
        if fields[score].strip():
            scores.append(_score(f"{path}, line {number}", fields[score], 0))
            for column, text in zip(texts, fields[score + 1 :], strict=False):
                column.append(text)
    return _examples(path, texts, np.array(scores))


def _sts(folder: Path, task: str) -> Read:
    """The sets of a year that are there, each `YEAR.SET.test.tsv`."""
    names = {name: _sts_paths(folder, task, name) for name in STS_SETS[task]}
    found = {name: _scored(path, 0) for name, path in names.items() if path is not None}
    if not found:
        raise TaskError(
            f"{folder} has none of the files of {task}, such as 20{task[3:]}.{STS_SETS[task][0]}.test.tsv"
        )
    return found


def _sts_paths(folder: Path, task: str, name: str) -> Path | None:
    """The file of a set, which lies in the folder or in its folder `sts`."""
    file = f"20{task[3:]}.{name}.test.tsv"
    return _path(folder / "sts", file) or _path(folder, file)


def _sts_benchmark(folder: Path) -> Read:
    """STS-B as it is published, `sts-train.csv` with tabs and no header."""
    names = {TRAIN: "train", VALID: "dev", TEST: "test"}
    return {split: _scored(_there(folder, f"sts-{name}.csv"), 4) for split, name in names.items()}


def _binary(name: str) -> Callable[[Path], Read]:
    return partial(_labelled, names={TRAIN: f"{name}.all"}, classes=2)


def _split(name: str, classes: int) -> Callable[[Path], Read]:
    return partial(
        _labelled,
        names={TRAIN: f"{name}.train", VALID: f"{name}.dev", TEST: f"{name}.test"},
        classes=classes,
    )


READERS: Mapping[str, Callable[[Path], Read]] = {
    "MR": _binary("rt-polarity"),
    "CR": _binary("custrev"),
    "SUBJ": _binary("subj"),
    "MPQA": _binary("mpqa"),
    "SST-2": _split("stsa.binary", 2),
    "SST-5": _split("stsa.fine", 5),
    "TREC": partial(_labelled, names={TRAIN: "TREC.train.all", TEST: "TREC.test.all"}, classes=6),
    "MRPC": partial(_tables, names=MRPC, texts=("#1 String", "#2 String"), label="Quality"),
    "SICK-E": partial(_tables, names=SICK, texts=("sentence_A", "sentence_B"), label="entailment_judgment"),
    "SICK-R": partial(_tables, names=SICK, texts=("sentence_A", "sentence_B"), label="relatedness_score"),
    **{task: partial(_sts, task=task) for task in STS_SETS},
    "STS-B": _sts_benchmark,
}
"""What reads each task from a folder."""


def read_task(folder: Path, task: str) -> Read:
    """The examples of a task.

    Args:
        folder: of the files.
        task: one of `READERS`.

    Raises:
        TaskError: there is no such task, a file is missing, or is not in its format.
    """
    if task not in READERS:
        raise TaskError(unknown("task of SentEval", task, READERS))
    return READERS[task](folder)


def tasks_in(folder: Path) -> list[str]:
    """The tasks whose first file is in a folder.

    Raises:
        TaskError: there is none.
    """
    firsts = {
        "MR": "rt-polarity.all", "CR": "custrev.all", "SUBJ": "subj.all", "MPQA": "mpqa.all",
        "SST-2": "stsa.binary.train", "SST-5": "stsa.fine.train", "TREC": "TREC.train.all",
        "MRPC": "msr-para-train.tsv", "SICK-E": "SICK_train.tsv", "SICK-R": "SICK_train.tsv",
        "STS-B": "sts-train.csv",
    }  # fmt: skip
    found = [
        task
        for task in READERS
        if any(_sts_paths(folder, task, name) for name in STS_SETS.get(task, ()))
        or (
            task in firsts
            and any(_path(folder, firsts[task].replace(".tsv", end)) for end in (".tsv", ".txt"))
        )
    ]
    if not found:
        raise TaskError(
            f"{folder} has no files of SentEval's tasks, such as {', '.join(firsts.values())}, gzipped or not"
        )
    return found


def _path(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _there(folder: Path, *names: str) -> Path:
    for name in names:
        if (path := _path(folder, name)) is not None:
            return path
    raise TaskError(f"{folder} has no file {' or '.join(names)}, gzipped or not")


def _lines(path: Path) -> list[str]:
    """The lines of a file in UTF-8, or else in Latin-1, as the older of these sets are."""
    try:
        with open_file(path) as file:
            content = list(read_lines(file))
    except (OSError, EOFError) as error:
        raise TaskError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    for encoding in ("utf-8-sig", "latin-1"):
        try:
            return [text for line in content if (text := line.decode(encoding)).strip()]
        except UnicodeDecodeError:
            continue
    raise AssertionError("Latin-1 decodes every byte")


def _examples(
    path: Path, texts: Sequence[Sequence[str]], labels: NDArray[np.int64] | NDArray[np.float64]
) -> Examples:
    if not len(labels):
        raise TaskError(f"{path}: it has no examples; fetch the file again")
    return Examples(tuple(map(tuple, texts)), labels)


def _score(where: str, text: str, low: float, high: float = 5) -> float:
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not low <= score <= high:
        raise TaskError(f"{where}: {text[:40]!r}, where a score from {low} to {high} must stand")
    return score


def _of(where: str, text: str, names: Sequence[str]) -> int:
    if text not in names:
        raise TaskError(f"{where}: {text[:40]!r}, where one of {', '.join(names)} must stand")
    return names.index(text)
