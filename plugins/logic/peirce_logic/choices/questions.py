"""Questions with options: the published files of ReClor, LogiQA, DREAM and LSAT, and their columns on the hub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from peirce.errors import TaskError
from peirce.files import parse_integer, parse_json, read_text
from peirce_text import SPLIT_NAMES as PUBLISHED_NAMES
from peirce_text import Row

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "context": ("context", "text", "passage", "dialogue"),
    "question": ("question", "query"),
    "options": ("options", "answers", "choices", "choice"),
    "answer": ("label", "answer", "correct_option"),
    "types": ("type", "question_type", "types"),
}
"""What each data set calls the columns; the first that a row has is taken."""
SPLIT_NAMES = {**PUBLISHED_NAMES, "val": "valid", "eval": "valid"}
DREAM_TYPES = {"m": "matching", "s": "summary", "l": "logic", "a": "arithmetic", "c": "commonsense"}
"""The letters of DREAM's `annotator1_dev.txt`."""
_FILE = re.compile(
    rf"(?:(.+)[-_.])?({'|'.join(SPLIT_NAMES)})(?:[-_.](.+?))?\.(?:jsonl?|txt)(?:\.gz)?", re.IGNORECASE
)
_ANNOTATED = re.compile(rf"annotator\d+_({'|'.join(SPLIT_NAMES)})\.txt(?:\.gz)?", re.IGNORECASE)
_LETTERS = "ABCDEFGH"
_LINES = 8
"""Lines of a question in LogiQA's first version: an empty one, the answer, context, question, four options."""


@frozen
class Question:
    """A question about a context.

    Args:
        where: its place, for errors.
        context: a text; the turns of a dialogue are lines.
        text: what is asked.
        options: two or more.
        answer: which option is right, from 0; None where that was not published.
        types: what the question is counted under besides all.
    """

    where: str
    context: str
    text: str
    options: tuple[str, ...]
    answer: int | None
    types: tuple[str, ...] = ()


def read_folder(folder: Path, part: str = "") -> dict[str, list[Question]]:
    """The questions of the files of a folder by split, such as `train.json`, `Eval.txt`, `val_lr.json.gz`.

    Of several files of one split, the rest of the name is a type of their questions, such as `lr`.

    Args:
        folder: the folder.
        part: that rest of the name, for the files of one part alone.

    Raises:
        TaskError: there are no such files, or one is not in a published format.
    """
    if not folder.is_dir():
        raise TaskError(f"there is no folder {folder}; set task.folder to that of the published files")
    there = sorted(folder.iterdir())
    files: dict[str, dict[str, Path]] = {}
    for path in there:
        match = None if _ANNOTATED.fullmatch(path.name) else _FILE.fullmatch(path.name)
        if match is None or not path.is_file():
            continue
        rest = "_".join(filter(None, (match[1], match[3]))).lower()
        if part and rest != part.lower():
            continue
        of_split = files.setdefault(SPLIT_NAMES[match[2].lower()], {})
        first = of_split.setdefault(rest, path)
        if first is not path and path.name != f"{first.name}.gz":
            raise TaskError(f"{first} and {path} are both the {match[2]} split; remove one of them")
    if not files:
        names = ", ".join(path.name for path in there[:12]) or "nothing"
        what = f"of the part {part!r} " if part else ""
        raise TaskError(
            f"{folder} holds no file {what}such as train.json, dev.json or test.txt, gzipped or not; it holds {names}"
        )
    annotated = _annotations(path for path in there if _ANNOTATED.fullmatch(path.name))
    found: dict[str, list[Question]] = {split: [] for split in files}
    for split, of_split in files.items():
        for rest, path in of_split.items():
            more = (rest,) if rest and len(of_split) > 1 else ()
            questions = read_questions(_rows(path, annotated))
            found[split] += [evolve(question, types=(*question.types, *more)) for question in questions]
    return found


def read_questions(rows: Iterable[Row]) -> list[Question]:
    """The questions of some rows.

    Raises:
        TaskError: a row lacks a column, or a value is invalid.
    """
    return [_question(row) for row in rows]


def _question(row: Row) -> Question:
    options = _value(row, "options")
    if not isinstance(options, Sequence) or isinstance(options, str) or len(options) < 2:
        raise TaskError(f"{row.where}: there must be a list of two options or more, not {_shorten(options)}")
    texts = tuple(_text(row, "options", option) for option in options)
    return Question(
        row.where,
        _text(row, "context", _value(row, "context")),
        _text(row, "question", _value(row, "question")),
        texts,
        _answer(row, texts),
        tuple(re.sub(r"\s+", "_", name.strip().lower()) for name in _types(row)),
    )


def _value(row: Row, what: str) -> Any:
    for name in COLUMNS[what]:
        if name in row.values:
            return row.values[name]
    if what in ("answer", "types"):
        return None
    raise TaskError(
        f"{row.where}: no column holds the {what} ({' or '.join(COLUMNS[what])}); the columns are "
        f"{', '.join(map(str, row.values)) or 'none'}"
    )


def _text(row: Row, what: str, value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(v, str) for v in value):
        value = "\n".join(value)
    if not isinstance(value, str) or not value.strip():
        raise TaskError(f"{row.where}: the {what} must be a text, not {_shorten(value)}")
    return value.strip()


def _answer(row: Row, options: Sequence[str]) -> int | None:
    value = _value(row, "answer")
    if isinstance(value, str):
        value = value.strip()
        if value in options:
            return options.index(value)
        if (counted := parse_integer(value)) is not None:
            value = counted
        elif len(value) == 1 and value.upper() in _LETTERS:
            value = _LETTERS.index(value.upper())
    if value is None or value == "":
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < len(options):
        raise TaskError(
            f"{row.where}: the answer {_shorten(value)} is not one of {len(options)} options; give a number from 0, a "
            "letter from A, or an option's text"
        )
    return value


def _types(row: Row) -> list[str]:
    value = _value(row, "types")
    if isinstance(value, Mapping):
        return [str(name) for name, holds in value.items() if holds]
    if isinstance(value, str | int):
        return [str(value)] if str(value).strip() else []
    return list(map(str, value)) if isinstance(value, Sequence) else []


def _rows(path: Path, annotated: Mapping[tuple[str, int], Sequence[str]]) -> Iterator[Row]:
    """The questions of a file as named columns; its content tells which format it has."""
    content = _read(path)
    try:
        objects: list[Any] = []
        if content.lstrip().startswith("["):
            objects = [each for item in parse_json(content) for each in _flatten(item, annotated)]
        elif content.lstrip().startswith("{"):
            objects = [parse_json(line) for line in content.split("\n") if line.strip()]
        elif content.strip():
            objects = list(_read_blocks(path, content))
    except ValueError as error:
        raise TaskError(f"{path}: not JSON: {error}; fetch the file again") from error
    if not objects:
        raise TaskError(f"{path} has no questions; fetch the file again")
    for number, values in enumerate(objects, 1):
        if not isinstance(values, dict):
            raise TaskError(f"{path}, question {number}: it must be a JSON object, not {_shorten(values)}")
        yield Row(path, number, values)


def _flatten(item: Any, annotated: Mapping[tuple[str, int], Sequence[str]]) -> list[Any]:
    """The questions of an item of a list: DREAM's are [turns, questions, id], others' are questions."""
    if not (isinstance(item, list) and len(item) == 3 and isinstance(item[1], list)):
        return [item]
    turns, questions, id = item
    return [
        {"dialogue": turns, **each, "types": annotated.get((str(id), number), ())}
        if isinstance(each, dict)
        else each
        for number, each in enumerate(questions, 1)
    ]


def _read_blocks(path: Path, content: str) -> Iterator[dict[str, Any]]:
    lines = content.strip("\n").split("\n")
    lines.insert(0, "")  # which stands before each question
    for begin in range(0, len(lines), _LINES):
        gap, answer, context, question, *options = (*lines[begin : begin + _LINES], *[""] * _LINES)[:_LINES]
        if gap.strip() or not re.fullmatch("[a-dA-D]", answer.strip()) or not all(map(str.strip, options)):
            raise TaskError(
                f"{path}, line {begin + 1}: a question is an empty line, a letter from a to d, context, question and "
                "four options, a line each; other formats are JSON"
            )
        each = zip("ABCD", options, strict=True)
        bare = [re.sub(rf"^{letter}\s*[.:)]\s*", "", option) or option for letter, option in each]
        right = "abcd".index(answer.strip().lower())
        yield {"context": context, "question": question, "options": bare, "answer": right}


def _annotations(paths: Iterable[Path]) -> dict[tuple[str, int], list[str]]:
    """The types of DREAM's questions, by dialogue and number: those that either annotator gave."""
    found: dict[tuple[str, int], list[str]] = {}
    for path in paths:
        for number, line in enumerate(_read(path).split("\n")[1:], 2):
            if not line.strip():
                continue
            match = re.fullmatch(rf"(\S+)\t(\d{{1,9}})\t([{''.join(DREAM_TYPES)}]+)\s*", line)
            if match is None:
                raise TaskError(
                    f"{path}, line {number}: it must be a dialogue, a number and types, not {_shorten(line)}"
                )
            types = found.setdefault((match[1], int(match[2])), [])
            types += [DREAM_TYPES[letter] for letter in match[3] if DREAM_TYPES[letter] not in types]
    return found


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: not UTF-8 text: {error.reason}; save it as UTF-8") from error
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror or error}; fetch the file again") from error


def _shorten(value: Any) -> str:
    return repr(value)[:80]
