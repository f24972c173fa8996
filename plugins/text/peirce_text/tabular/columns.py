"""Tables: where their splits are, the roles of their columns, and the class that a value names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn
from unicodedata import normalize

import numpy as np
from attrs import frozen

from peirce.errors import TaskError, escape_controls, unknown
from peirce_text.reading import Row, parquet_files, parquet_folder, read_rows, read_splits
from peirce_text.tabular.lists import list_in_text
from peirce_text.text.encoding import Ints

PAIRS = (
    ("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"), ("text1", "text2"),
    ("text_a", "text_b"),
)  # fmt: skip
"""What the columns of two texts are usually called."""
TEXTS = (
    "text", "sentence", "review", "content", "comment", "message", "document", "body", "question", "title",
)  # fmt: skip
LABELS = ("label", "labels", "class", "category", "target", "sentiment", "intent", "gold_label", "topic")
TOKENS = ("tokens", "words", "token", "word", "form")
IDS = ("id", "ids", "idx", "index", "uid", "guid", "unnamed: 0", "")
TAGS = ("tags", "ner_tags", "pos_tags", "labels", "tag", "ner_tag", "ner", "upos")
SENTENCES = ("sentence #", "sentence_id", "sentence id", "sent_id", "sentence_idx", "sentence")
LISTS = ("labels", "tags", "topics", "categories", "classes", "genres", "emotions")
NUMBERS = ("score", "rating", "stars", "similarity", "grade", "price", "year")
QUERIES = ("query", "question", "search")
DOCUMENTS = ("document", "documents", "passage", "passages", "answer", "answers", "product", "text", "texts")
SCORES = ("score", "scores", "relevance", "relevances", "label", "labels")
ROLES: Mapping[str, Sequence[str]] = {
    "text": TEXTS, "label": LABELS, "tokens": TOKENS, "tags": TAGS, "sentence": SENTENCES, "list": LISTS,
    "number": (*NUMBERS, *LABELS), "query": QUERIES, "document": DOCUMENTS, "score": SCORES,
}  # fmt: skip
"""What a column is usually called, by the option that names it."""
FEW = 5
"""Examples of a class, below which a remark is made."""
LONGEST_SHOWN = 40
"""Characters of a class's name in lines and pictures."""
_WHOLE = re.compile(r"(-?(?:0|[1-9]\d*))\.0*")
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INVISIBLE = "\ufeff\u200b\u200c\u200d\u2060"


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
        raise TaskError(f"{where}: there are no rows below its first line, which names the columns")
    return first, chain([first], rows)


def first_row(data: str) -> Mapping[str, Any]:
    """The first row of a file, or of the training split of a data set.

    Raises:
        TaskError: there is none.
    """
    files = {"train": Path(data)} if is_file(data) else {}
    if (folder := parquet_folder(data)) is not None:
        return peek((row for name in parquet_files(folder) for row in read_rows(folder / name)), data)[
            0
        ].values
    return peek(rows_of("" if files else data, files)["train"], data)[0].values


def usual_column(columns: Iterable[str], role: str) -> str:
    """The column that plays a role by its name; of two columns, the one beside a column that plays another role.

    Empty where no name tells it, and where the other column numbers the rows.

    Raises:
        TaskError: two columns are called so, but for capitals.
    """
    known: dict[str, str] = {}
    for name in columns:
        if name.lower() in ROLES[role] and name.lower() in known:
            raise TaskError(
                f"columns {known[name.lower()]!r} and {name!r} may both hold the {role}; rename one of them"
            )
        known[name.lower()] = name
    for name in ROLES[role]:
        if name in known:
            return known[name]
    beside = {"text": "label", "label": "text", "number": "text", "list": "text"}.get(role, "")
    if beside and len(known) == 2:
        taken = [name for name in ROLES[beside] if name in known]
        return (
            next((name for low, name in known.items() if low not in (*taken[:1], *IDS)), "") if taken else ""
        )
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
    if role == "tokens" and str(row.file).endswith((".txt", ".tsv")):
        hint = "; if it has no header and a word a line, as CoNLL's files have, end its name in .conll"
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
        if not (text or pair or tags or known) and (both := usual_pair(row.values)):
            return cls(both, there)
        trained, second = known.get(first, ""), pair or known.get("pair", "")
        if (
            not text
            and trained
            and trained not in row.values
            and (second or not usual_column(row.values, first))
        ):
            _refuse_untrained(row, trained, "--text")
        one = column(row, first, text or (trained if trained in row.values else ""), "--text COLUMN")
        if second and not pair and second not in row.values:
            _refuse_untrained(row, second, "--second")
        if second:
            row.value(second)
        return cls((one, second) if second else (one,), there)

    def untrained(self, known: Mapping[str, str]) -> str:
        """Which columns of texts were taken though the model was not trained on them, as a line; empty if none."""
        trained = tuple(known[role] for role in ("text", "tokens", "pair") if role in known)
        if self.texts == trained:
            return ""
        taken = " and ".join(map(repr, self.texts))
        than = f"; the model was trained on {' and '.join(map(repr, trained))}" if trained else ""
        return f"texts from column{'s' if len(self.texts) > 1 else ''} {taken}{than}"


def _refuse_untrained(row: Row, name: str, option: str) -> NoReturn:
    """Say that a column of the training is missing."""
    raise TaskError(
        f"{row.where}: {unknown('column', name, map(str, row.values))}. The model was trained on it; name another with "
        f"{option} COLUMN"
    )


def class_name(value: Any, where: str) -> str | None:
    """The class that a value names, `1` for 1, 1.0 and the text `1.0`; None for what is empty, or no number."""
    if isinstance(value, float):
        return None if math.isnan(value) else str(int(value)) if value.is_integer() else str(value)
    if value is None or isinstance(value, bool | int):
        return None if value is None else str(value)
    if isinstance(value, str) and list_in_text(value) is None:
        name = " ".join(value.split()).strip(_INVISIBLE)
        whole = _WHOLE.fullmatch(name)
        return None if name in ("", "nan", "NaN") else whole[1] if whole else name
    raise TaskError(f"{where} holds {value!r:.80}, and must hold the name or the number of a class")


def sort_classes(names: Iterable[str]) -> tuple[str, ...]:
    """The names of classes, sorted, numbers by their size."""

    def key(name: str) -> tuple[int, float, str]:
        number = _number(name)
        return (1, 0.0, name) if number is None else (0, number, name)

    return tuple(sorted(set(names), key=key))


def check_classes(classes: Iterable[str], where: str) -> None:
    """Refuse two names of one class; those that differ in capitals alone may be two.

    Raises:
        TaskError: two names are one number, as `1` and `01` are, or look the same.
    """
    seen: dict[object, str] = {}
    for name in classes:
        plain = normalize("NFKC", name)
        number = _number(plain)
        other = seen.setdefault(plain.casefold() if number is None else number, name)
        if other != name and (number is not None or normalize("NFKC", other) == plain):
            what = "look the same" if number is None else "are one number"
            raise TaskError(
                f"{where}: the classes {other!r} and {name!r} {what}; write each class in one way"
            )


def list_classes(classes: Sequence[str], what: str, count: int) -> str:
    """How many classes or tags there are, the first ten, and a remark where training has few of each.

    Args:
        classes: their names.
        what: what they are.
        count: how many rows or words have one.
    """
    few = ", ".join(map(shown, classes[:10])) + (", ..." if len(classes) > 10 else "")
    each = count / len(classes)
    remark = f"; about {each:.0f} examples of each, from which little can be learned" if each < FEW else ""
    return f"{len(classes):,} {what}: {few}{remark}"


def _number(name: str) -> float | None:
    """The number that a name is."""
    return float(name) if _DECIMAL.fullmatch(name) else None


def number_in(value: Any) -> float | None:
    """The finite number that a value of a table is, 1 and 0 for `true` and `false`; None where it is none."""
    if isinstance(value, str):
        text = value.strip()
        value = {"true": 1.0, "false": 0.0}.get(text.lower(), _number(text))
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def shown(name: str) -> str:
    """The name of a class as a line or a picture shows it."""
    name = escape_controls(name)
    return name if len(name) <= LONGEST_SHOWN else f"{name[: LONGEST_SHOWN - 1]}…"


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
        classes: the class of each row, int64 [n], of which each split gets its share too, and `train` one row at least.

    Raises:
        TaskError: nothing is left to train on.
    """
    order = np.random.default_rng(seed).permutation(count)
    too_few = TaskError(
        f"{count} rows are too few to take {' and '.join(shares)} from them; name files with task.valid_data "
        "and task.test_data, or lower task.valid_share and task.test_share, to 0 for none"
    )
    if classes is not None:
        order = order[np.argsort(classes[order], kind="stable")]
    found: dict[str, Ints] = {}
    for split, share in shares.items():
        taken = max(1, round(share * count))
        if taken >= len(order):
            raise too_few
        at = ((np.arange(taken) + 0.5) * len(order) / taken).astype(np.int64)  # evenly, over the classes too
        found[split], order = np.sort(order[at]), np.delete(order, at)
    if classes is not None:
        for split, rows in found.items():
            unseen = ~np.isin(classes[rows], classes[order])
            if unseen.all():
                raise too_few
            found[split], order = rows[~unseen], np.append(order, rows[unseen])
    return {"train": np.sort(order), **found}
