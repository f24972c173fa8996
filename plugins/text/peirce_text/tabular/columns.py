"""Tables: where their splits are, the roles of their columns, and the class that a value names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from peirce.errors import TaskError, unknown
from peirce_text.reading import Row, read_rows, read_splits
from peirce_text.text.encoding import Ints

PAIRS = (
    ("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"), ("text1", "text2"),
    ("text_a", "text_b"),
)  # fmt: skip
"""What the columns of two texts are usually called."""
TEXTS = (
    "text",
    "sentence",
    "review",
    "content",
    "comment",
    "message",
    "document",
    "body",
    "question",
    "title",
)
LABELS = ("label", "labels", "class", "category", "target", "sentiment", "intent", "gold_label", "topic")
TOKENS = ("tokens", "words")
TAGS = ("tags", "ner_tags", "pos_tags", "labels")
ROLES: Mapping[str, Sequence[str]] = {"text": TEXTS, "label": LABELS, "tokens": TOKENS, "tags": TAGS}
"""What a column is usually called, by the option that names it."""


def is_file(data: str) -> bool:
    """Whether data are a file, and no data set of the library `datasets`: a folder, or a name of its hub."""
    return Path(data).is_file() or (Path(data).suffix != "" and not Path(data).is_dir())


def rows_of(data: str, files: Mapping[str, Path]) -> dict[str, Iterator[Row]]:
    """The rows of each split that there is, the training split first.

    Args:
        data: a data set of the library `datasets`; empty where there are files.
        files: a file by split.

    Raises:
        TaskError: there are none to train on.
    """
    if not data:
        return {split: read_rows(file) for split, file in files.items()}
    found = read_splits(data, ("train",))
    return {split: found[split] for split in ("train", "valid", "test") if split in found}


def peek(rows: Iterator[Row], where: str) -> tuple[Row, Iterator[Row]]:
    """The first of some rows, and all of them.

    Raises:
        TaskError: there is none.
    """
    first = next(rows, None)
    if first is None:
        raise TaskError(f"{where}: there are no rows")
    return first, chain([first], rows)


def first_row(data: str) -> Mapping[str, Any]:
    """The first row of a file, or of the training split of a data set.

    Raises:
        TaskError: there is none.
    """
    files = {"train": Path(data)} if is_file(data) else {}
    return peek(rows_of("" if files else data, files)["train"], data)[0].values


def usual_column(columns: Iterable[str], role: str) -> str:
    """The column that plays a role by its name; of two columns, the one beside a column that plays another role.

    Empty where no name tells it.
    """
    known = {name.lower(): name for name in columns}
    for name in ROLES[role]:
        if name in known:
            return known[name]
    beside = {"text": "label", "label": "text"}.get(role, "")
    if beside and len(known) == 2:
        taken = [name for name in ROLES[beside] if name in known]
        return next((name for low, name in known.items() if low != taken[0]), "") if taken else ""
    return ""


def usual_pair(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns of two texts by their names; empty where there are none."""
    known = {name.lower(): name for name in columns}
    return next((tuple(known[name] for name in pair) for pair in PAIRS if set(pair) <= known.keys()), ())


def column(row: Row, role: str, given: str, how: str = "") -> str:
    """The column for a role: as it is given, or as its name tells.

    Args:
        row: the first row.
        role: what the column holds.
        given: its name; empty for the one that is usual.
        how: how another is named, for errors; by a setting if empty.

    Raises:
        TaskError: there is no such column, or no name tells which one it is.
    """
    if given:
        row.value(given)
        return given
    if found := usual_column(row.values, role):
        return found
    names = [str(name) for name in row.values]
    hint = ""
    if len(names) == 1 and any(sign in names[0] for sign in ";\t|"):
        hint = "; it seems to have another delimiter: save it with commas, or with tabs as .tsv"
    raise TaskError(
        f"{row.file}: none of its columns {', '.join(names)} is called {' or '.join(ROLES[role][:3])}, so name the one "
        f"that holds the {role}: {how or f'--set {role}=COLUMN'}{hint}"
    )


@frozen
class Roles:
    """The columns of a table of which something is predicted.

    Args:
        texts: the text and the second text, or the words.
        label: the right class, or the right tags; empty where there is none.
    """

    texts: tuple[str, ...]
    label: str

    @classmethod
    def of(
        cls,
        row: Row,
        known: Mapping[str, str],
        *,
        tags: bool,
        text: str | None = None,
        pair: str | None = None,
        label: str | None = None,
    ) -> Roles:
        """The columns that are named, or that a model was trained on, or that are usual.

        Args:
            row: the first row.
            known: the columns that the model was trained on, by role.
            tags: whether words are tagged.
            text, pair, label: the columns that are named.

        Raises:
            TaskError: there is no such column.
        """
        first = "tokens" if tags else "text"
        right = label or known.get("tags" if tags else "label", "")
        there = right if label or right in row.values else ""
        if there:
            row.value(there)
        trained = known.get(first, "") if known.get(first) in row.values else ""
        if not (text or pair or tags or known) and (both := usual_pair(row.values)):
            return cls(both, there)
        one = column(row, first, text or trained, "--text COLUMN")
        second = pair or known.get("pair", "")
        if second:
            row.value(second)
        return cls((one, second) if second else (one,), there)


def items(value: Any) -> list[Any]:
    """The items of a list, or of a text with spaces between them."""
    return value.split() if isinstance(value, str) else list(value or ())


def class_in_column(row: Row, name: str) -> str | None:
    """The class that a column names; None where it is empty, or no number.

    Raises:
        TaskError: it holds neither a text nor a number.
    """
    return class_name(row.value(name), f"{row.where}: column {name!r}")


def class_name(value: Any, where: str) -> str | None:
    """The class that a value names, `1` for 1 and 1.0; None for what is empty, or no number."""
    if isinstance(value, float):
        return None if math.isnan(value) else str(int(value)) if value.is_integer() else str(value)
    if value is None or isinstance(value, bool | int):
        return None if value is None else str(value)
    if isinstance(value, str):
        return None if value.strip() in ("", "nan", "NaN") else " ".join(value.split())
    raise TaskError(f"{where} holds {value!r:.80}, and must hold the name or the number of a class")


def sort_classes(names: Iterable[str]) -> tuple[str, ...]:
    """The names of classes, sorted, numbers by their size."""

    def key(name: str) -> tuple[int, float, str]:
        try:
            return 0, float(name), name
        except ValueError:
            return 1, 0.0, name

    return tuple(sorted(set(names), key=key))


def class_number(name: str, numbers: Mapping[str, int], where: str) -> int:
    """The number of a class.

    Raises:
        TaskError: none of the training data has it.
    """
    if name not in numbers:
        raise TaskError(f"{where}: {unknown('class', name, numbers)}; the training data have no such class")
    return numbers[name]


def split_rows(
    count: int, shares: Mapping[str, float], seed: int, classes: Ints | None = None
) -> dict[str, Ints]:
    """The rows of `train` and of each split that gets a share of them, all that there are, each once.

    Args:
        count: how many rows there are.
        shares: the share of each split; it gets one row at least.
        seed: what is drawn depends on it.
        classes: the class of each row, int64 [n], of which each split gets its share too.

    Raises:
        TaskError: nothing is left to train on.
    """
    order = np.random.default_rng(seed).permutation(count)
    if classes is not None:
        order = order[np.argsort(classes[order], kind="stable")]
    found: dict[str, Ints] = {}
    for split, share in shares.items():
        taken = max(1, round(share * count))
        if taken >= len(order):
            raise TaskError(
                f"{count} rows are too few to take {' and '.join(shares)} from them; name files with task.valid_data "
                "and task.test_data, or set task.valid_share and task.test_share to 0"
            )
        at = ((np.arange(taken) + 0.5) * len(order) / taken).astype(np.int64)  # evenly, over the classes too
        found[split], order = np.sort(order[at]), np.delete(order, at)
    return {"train": np.sort(order), **found}
