"""The questions of SQuAD 1.1 and 2.0: the published JSON, or a data set of the library `datasets` with its columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from peirce.errors import TaskError
from peirce.files import read_json
from peirce_text.reading import Row, read_splits

FILES: Mapping[str, str] = {"train": "train-v{version}.json", "valid": "dev-v{version}.json"}


@frozen
class Answer:
    """An answer: its text, and the character of the context that it starts at."""

    text: str
    start: int


@frozen
class Question:
    """A question about a context.

    Args:
        id: as predictions call it.
        context: the text.
        text: the question.
        answers: those that count as right; none where the context has no answer.
    """

    id: str
    context: str
    text: str
    answers: tuple[Answer, ...]


def read_folder(folder: Path, version: str) -> dict[str, list[Question]]:
    """The splits whose files are there, such as `train-v2.0.json`.

    Raises:
        TaskError: there are none, or one is not in the published format.
    """
    names = {split: name.format(version=version) for split, name in FILES.items()}
    found = {split: read_file(folder / name) for split, name in names.items() if (folder / name).is_file()}
    if not found:
        raise TaskError(
            f"{folder} holds neither {' nor '.join(names.values())}; task.folder is where SQuAD {version} is, and "
            "task.version which one it is"
        )
    return found


def read_file(path: Path) -> list[Question]:
    """The questions of a published file.

    Raises:
        TaskError: it is not in the published format.
    """
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise TaskError(f"{path} cannot be read: {error}; fetch the published file again") from error
    return _questions(str(path), _flatten(content))


def _flatten(content: Any) -> Iterator[Mapping[str, Any]]:
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield {**question, "context": paragraph["context"]}


def read_hub(name: str) -> dict[str, list[Question]]:
    """The splits of a data set of the library `datasets`, such as `rajpurkar/squad_v2`.

    Raises:
        TaskError: it cannot be loaded, or its columns are not those of SQuAD.
    """
    found = {split: rows for split, rows in read_splits(name, ()).items() if split in FILES}
    if not found:
        raise TaskError(f"data set {name!r} has neither of the splits train, validation")
    return {s: _questions(f"data set {name!r}, split {s}", _columns(rows)) for s, rows in found.items()}


def _columns(rows: Iterable[Row]) -> Iterator[Mapping[str, Any]]:
    for row in rows:
        given = row.values["answers"]
        pairs = zip(given["text"], given["answer_start"], strict=True)
        yield {**row.values, "answers": [{"text": text, "answer_start": start} for text, start in pairs]}


def _questions(where: str, tables: Iterable[Mapping[str, Any]]) -> list[Question]:
    """The questions of tables; 1.1 has no `is_impossible`, and an impossible question counts no answers."""
    found: dict[str, Question] = {}
    try:
        for table in tables:
            given = [] if table.get("is_impossible") else table["answers"]
            answers = tuple(Answer(_check_text(each["text"]), int(each["answer_start"])) for each in given)
            context, text = _check_text(table["context"]), _check_text(table["question"]).strip()
            if (name := _check_text(table["id"])) in found:
                raise ValueError(f"the id {name!r} occurs twice")
            found[name] = Question(name, context, text, answers)
        if not found:
            raise ValueError("there are no questions")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        cause = f"no {error}" if isinstance(error, KeyError) else error
        raise TaskError(
            f"{where} is not in SQuAD's format (context, question, id, answers with text and answer_start): {cause}; "
            "fetch the published file again"
        ) from error
    return list(found.values())


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
