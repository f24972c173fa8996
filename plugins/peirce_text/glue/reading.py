"""Reading GLUE: the published TSV files with all their quirks, or a data set of the library `datasets`."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from peirce.errors import TaskError
from peirce.files import open_file, read_lines, whole_number

from peirce_text.glue.subtasks import DIAGNOSTIC, TEST, TRAIN, VALID, Subtask
from peirce_text.tables import loading

MOST_BROKEN = 0.01
"""The share of broken rows above which a file is not what it should be; the published QQP has a few in 100,000."""
_MARKS_NONE = ("", "-")
"""Labels of rows on which the annotators did not agree."""


@frozen(eq=False)
class Examples:
    """The examples of one split.

    Args:
        texts: the sentences: one tuple for the first of each example, and one for the second where there are pairs.
        labels: the class or the number of each example; None where the split has none.
        index: how predictions name each example.
        skipped: how many rows of the file were left out, because they were broken or had no label.
    """

    texts: tuple[tuple[str, ...], ...]
    labels: tuple[float, ...] | None
    index: tuple[int, ...]
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.texts[0])


@frozen
class _Line:
    """A row as fields by column, or why it is none."""

    where: str
    fields: Mapping[str, str]
    broken: str = ""


def read_folder(task: Subtask, folder: Path) -> dict[str, Examples]:
    """The splits whose files are there.

    Args:
        task: which task.
        folder: holds the files, or a folder with the task's published name that does.

    Raises:
        TaskError: there are no files, or one is not in the published format.
    """
    own = folder / task.title if (folder / task.title).is_dir() else folder
    found = {
        split: _read(task, split, own / name) for split, name in task.files.items() if (own / name).is_file()
    }
    if not found:
        raise TaskError(
            f"{folder} holds no files of {task.title}: neither {', '.join(task.files.values())} nor a folder "
            f"{task.title} with them; task.folder is where GLUE was unpacked"
        )
    return found


def _read(task: Subtask, split: str, path: Path) -> Examples:
    texts: list[tuple[str, ...]] = []
    labels: list[float] = []
    index: list[int] = []
    broken: list[str] = []
    rows = 0
    columns = _columns(task, split, path)
    has_label = split != DIAGNOSTIC and task.label in columns
    needed = [*task.texts, *([task.label] if split == TRAIN or split.startswith(VALID) else [])]
    if missing := [name for name in needed if name not in columns]:
        raise TaskError(
            f"{path}: no column {' nor '.join(map(repr, missing))}, which the published {task.title} has; its header "
            f"reads {', '.join(columns)}"
        )
    for row in _rows(task, split, path, columns):
        rows += 1
        label = None
        problem = row.broken
        if not problem and has_label:
            text = row.fields[task.label]
            label = _label(task, text)
            if label is None and text not in _MARKS_NONE:
                expected = "a number from 0 to 5" if task.regression else f"one of {', '.join(task.labels)}"
                raise TaskError(
                    f"{row.where}: column {task.label!r} holds {text!r}, where {expected} must stand"
                )
            problem = "" if label is not None else "it has no label"
        if problem:
            if split.startswith(TEST) or split == DIAGNOSTIC:
                raise TaskError(
                    f"{row.where}: {problem}; a prediction is due for every row, so fetch the published file again"
                )
            broken.append(f"{row.where}: {problem}")
            continue
        texts.append(tuple(row.fields[name] for name in task.texts))
        if label is not None:
            labels.append(label)
        index.append(_index(row, len(index)))
    if not texts or len(broken) > max(1, MOST_BROKEN * rows):
        cause = (
            f"{len(broken)} of {rows} rows cannot be used, the first is {broken[0]}"
            if broken
            else "it has no rows"
        )
        raise TaskError(f"{path}: {cause}; fetch the published file again")
    return Examples(
        texts=tuple(zip(*texts, strict=True)),
        labels=tuple(labels) if has_label else None,
        index=tuple(index),
        skipped=len(broken),
    )


def _columns(task: Subtask, split: str, path: Path) -> tuple[str, ...]:
    """The names of the columns: those of the first row, but for files that have none."""
    if task.header and not split.startswith(TEST):
        return task.header
    first = next(_lines(path), None)
    if first is None:
        raise TaskError(f"{path}: empty, without so much as a header; fetch the published file again")
    return tuple(name.strip() for name in first[1].split("\t"))


def _rows(task: Subtask, split: str, path: Path, columns: Sequence[str]) -> Iterator[_Line]:
    headless = bool(task.header) and not split.startswith(TEST)
    for number, line in _lines(path):
        if number == 1 and not headless:
            continue
        where = f"{path}, line {number}"
        fields = line.split("\t")
        if len(fields) != len(columns):
            yield _Line(where, {}, f"it has {len(fields)} fields, and there are {len(columns)} columns")
            continue
        yield _Line(where, dict(zip(columns, fields, strict=True)))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with their numbers from 1, blank ones left out.

    Fields are not quoted, whatever quotes they hold, and only a line feed ends a line: texts hold other separators.
    """
    try:
        with io.TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(read_lines(file), 1):
                if text := line.rstrip("\r\n"):
                    yield number, text
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: not UTF-8 text: {error.reason}; fetch the published file again") from error
    except OSError as error:
        raise TaskError(f"{path}: cannot be read: {error.strerror or error}") from error


def _label(task: Subtask, text: str) -> float | None:
    if not task.regression:
        return float(task.labels.index(text)) if text in task.labels else None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= 5 else None


def _index(row: _Line, place: int) -> int:
    """How predictions name a row: by its column `index` or `id` if it has one, else by its place."""
    found = whole_number(row.fields.get("index", row.fields.get("id", "")))
    return place if found is None else found


def read_dataset(task: Subtask, name: str) -> dict[str, Examples]:
    """The splits of a data set of the library `datasets`.

    Args:
        task: which task.
        name: a data set of the hub, such as `nyu-mll/glue`; or a folder: one that `datasets` saved (itself, or below
            the task's name), or one that it can load.

    Raises:
        TaskError: it cannot be loaded, or its columns are not those of the task.
    """
    loaded = _load(task, name)
    found = {
        split: _converted(task, loaded[theirs], f"{name}, split {theirs}")
        for split, theirs in task.hub_splits.items()
        if theirs in loaded
    }
    if not found:
        raise TaskError(
            f"data set {name!r} has no split of {task.title}: it has {', '.join(loaded)}, and "
            f"{', '.join(task.hub_splits.values())} are looked for"
        )
    return found


def _load(task: Subtask, name: str) -> Mapping[str, Any]:
    folder = Path(name)
    with loading(name, task.title) as datasets:
        for saved in (folder, folder / task.name):
            if (saved / "dataset_dict.json").is_file():
                return datasets.load_from_disk(str(saved))
        if folder.is_dir() and task.name not in datasets.get_dataset_config_names(name):
            return datasets.load_dataset(name)
        return datasets.load_dataset(name, task.name)


def _converted(task: Subtask, rows: Any, where: str) -> Examples:
    columns = rows.column_names
    if missing := [column for column in task.hub_texts if column not in columns]:
        raise TaskError(
            f"{where}: no column {' nor '.join(map(repr, missing))}; it has {', '.join(columns)}, and {task.title} "
            f"has {', '.join(task.hub_texts)}"
        )
    texts = tuple(tuple(map(str, rows[column])) for column in task.hub_texts)
    index = tuple(rows["idx"]) if "idx" in columns else tuple(range(len(rows)))
    labels = None
    if "label" in columns:
        given = list(rows["label"])
        if not all(label is None or label == -1 for label in given):
            names = getattr(rows.features["label"], "names", None)
            labels = tuple(_class(task, names, label, where, i) for i, label in enumerate(given))
    return Examples(texts, labels, index)


def _class(task: Subtask, names: Sequence[str] | None, label: Any, where: str, row: int) -> float:
    """A label of a data set as ours: by name where classes have names, since their order may differ."""
    if task.regression:
        if isinstance(label, int | float) and math.isfinite(label):
            return float(label)
    else:
        name = names[label] if names and isinstance(label, int) and 0 <= label < len(names) else label
        for known in (task.classes, task.labels):
            if name in known:
                return float(known.index(name))
        if isinstance(label, int) and 0 <= label < len(task.labels) and not names:
            return float(label)
    expected = "a finite number" if task.regression else ", ".join(task.classes)
    raise TaskError(f"{where}, row {row}: the label is {label!r}, where {task.title} has {expected}")
