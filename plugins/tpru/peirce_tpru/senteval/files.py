"""The files of SentEval's tasks, gzipped or not: sentences or pairs of them, with classes or scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from peirce.errors import TaskError, check_known
from peirce.files import open_file, read_lines
from peirce_text import read_rows

TRAIN, VALID, TEST = "train", "valid", "test"
Line = tuple[Any, ...]
"""A label, a class or a score, and one text or two."""


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


@frozen
class Source:
    """Where a task lies.

    Args:
        files: by split, or by set, the files that follow one another; a table's name may end in .txt as well.
        read: gives the lines of a file.
        measure: what means over tasks are of.
    """

    files: Mapping[str, Sequence[str]]
    read: Callable[[Path], Iterator[Line]]
    measure: str = "accuracy"


def _class_lines(path: Path, classes: int) -> Iterator[Line]:
    """A class, a space and a sentence a line."""
    for number, line in enumerate(_lines(path), 1):
        label, _, text = line.strip().partition(" ")
        if not label.isdecimal() or int(label) >= classes:  # the sentence may be empty; one of CR is
            raise TaskError(
                f"{path}, line {number}: {line.strip()[:40]!r}, where a class from 0 to {classes - 1}, a space and a "
                "sentence must stand"
            )
        yield int(label), text.strip()


def _table(path: Path, one: str, other: str, label: str, classes: Sequence[str] = ()) -> Iterator[Line]:
    """Pairs in a table with a header, with one of the classes, or with a score from 1 to 5."""
    for row in read_rows(path, (one, other, label), quotes=False):
        name = row.text(label)
        if classes and name not in classes:
            raise TaskError(f"{row.where}: {name[:40]!r} is not one of {', '.join(classes)}")
        yield classes.index(name) if classes else _score(row.where, name, 1), row.text(one), row.text(other)


def _score_lines(path: Path, score: int) -> Iterator[Line]:
    """Pairs between tabs without a header: in field `score` a score, and the two sentences in the fields after it. What
    has no score does not count."""
    for number, line in enumerate(_lines(path), 1):
        fields = line.rstrip("\r\n").split("\t")
        if len(fields) < score + 3:
            raise TaskError(
                f"{path}, line {number}: {len(fields)} fields; give a score and two sentences, with tabs between them"
            )
        if fields[score].strip():
            yield _score(f"{path}, line {number}", fields[score], 0), *fields[score + 1 : score + 3]


def _score(where: str, text: str, low: int) -> float:
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not low <= score <= 5:
        raise TaskError(f"{where}: {text[:40]!r} is not a score from {low} to 5")
    return score


def _split(name: str, classes: int) -> Source:
    ends = {TRAIN: "train", VALID: "dev", TEST: "test"}
    return Source(
        {split: [f"{name}.{end}"] for split, end in ends.items()}, partial(_class_lines, classes=classes)
    )


STS_SETS: Mapping[str, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "OnWN", "SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""The sets of each year that SentEval has. SMT of 2013 is not published."""
FOLDED = {"MR": "rt-polarity", "CR": "custrev", "SUBJ": "subj", "MPQA": "mpqa"}
"""Sets without parts for training and testing, and their files."""
_MRPC = {TRAIN: ["msr-para-train.tsv", "msr-para-val.tsv"], TEST: ["msr-para-test.tsv"]}
_SICK = {TRAIN: ["SICK_train.tsv"], VALID: ["SICK_trial.tsv"], TEST: ["SICK_test_annotated.tsv"]}
_STS_B = {TRAIN: ["sts-train.csv"], VALID: ["sts-dev.csv"], TEST: ["sts-test.csv"]}
_SICK_TABLE = partial(_table, one="sentence_A", other="sentence_B")
_JUDGMENTS = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
TASKS: Mapping[str, Source] = {
    **{
        task: Source({TRAIN: [f"{name}.all"]}, partial(_class_lines, classes=2))
        for task, name in FOLDED.items()
    },
    "SST-2": _split("stsa.binary", 2),
    "SST-5": _split("stsa.fine", 5),
    "TREC": Source({TRAIN: ["TREC.train.all"], TEST: ["TREC.test.all"]}, partial(_class_lines, classes=6)),
    # Its tables for training and choosing are one training set, as it is published.
    "MRPC": Source(
        _MRPC, partial(_table, one="#1 String", other="#2 String", label="Quality", classes=("0", "1"))
    ),
    "SICK-E": Source(_SICK, partial(_SICK_TABLE, label="entailment_judgment", classes=_JUDGMENTS)),
    "SICK-R": Source(_SICK, partial(_SICK_TABLE, label="relatedness_score"), "pearson"),
    **{
        task: Source(
            {name: [f"20{task[3:]}.{name}.test.tsv"] for name in names},
            partial(_score_lines, score=0),
            "pearson",
        )
        for task, names in STS_SETS.items()
    },
    "STS-B": Source(_STS_B, partial(_score_lines, score=4), "pearson"),
}
"""All tasks; the sets of a year may lie in a folder `sts`, and some of them may lack."""


def read_task(folder: Path, task: str) -> Read:
    """The examples of a task.

    Args:
        folder: of the files.
        task: one of `TASKS`.

    Raises:
        TaskError: there is no such task, a file is missing, or is not in its format.
    """
    check_known("task of SentEval", task, TASKS, TaskError)
    found: dict[str, Examples] = {}
    for split, names in TASKS[task].files.items():
        paths = {name: path for name in names if (path := _path(folder, name)) is not None}
        if len(paths) == len(names):
            found[split] = _examples(list(paths.values()), TASKS[task].read)
        elif task not in STS_SETS:
            missing = next(name for name in names if name not in paths)
            raise TaskError(f"{folder} has no file {' or '.join(_forms(missing))}, gzipped or not")
    if not found:
        raise TaskError(f"{folder} has none of the files of {task}, such as {names[0]}")
    return found


def tasks_in(folder: Path) -> list[str]:
    """The tasks whose first file is in a folder.

    Raises:
        TaskError: there is none.
    """
    firsts = {
        task: [names[0] for names in source.files.values()][: None if task in STS_SETS else 1]
        for task, source in TASKS.items()
    }
    found = [task for task, names in firsts.items() if any(_path(folder, name) for name in names)]
    if not found:
        such = dict.fromkeys(names[0] for names in firsts.values())
        raise TaskError(
            f"{folder} has no files of SentEval's tasks, such as {', '.join(such)}, gzipped or not"
        )
    return found


def _forms(name: str) -> list[str]:
    return [name, name.replace(".tsv", ".txt")] if name.endswith(".tsv") else [name]


def _path(folder: Path, name: str) -> Path | None:
    forms = [each for form in _forms(name) for each in (form, f"{form}.gz")]
    return next((path for at in (folder / "sts", folder) for f in forms if (path := at / f).is_file()), None)


def _examples(paths: Sequence[Path], read: Callable[[Path], Iterator[Line]]) -> Examples:
    lines = [line for path in paths for line in read(path)]
    if not lines:
        raise TaskError(f"{paths[0]}: no examples; fetch the file again")
    labels, *texts = zip(*lines, strict=True)
    return Examples(tuple(texts), np.array(labels))


def _lines(path: Path) -> list[str]:
    """The lines of a file in UTF-8, or else in Latin-1, as the older of these sets are."""
    try:
        with open_file(path) as file:
            content = list(read_lines(file))
    except (OSError, EOFError) as error:
        raise TaskError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        lines = [line.decode("utf-8-sig") for line in content]
    except UnicodeDecodeError:
        lines = [line.decode("latin-1") for line in content]
    return [line for line in lines if line.strip()]
