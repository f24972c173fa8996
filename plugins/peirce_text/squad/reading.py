"""Reading SQuAD 1.1 and 2.0: the published JSON, or a data set of the library `datasets` with its columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from peirce.errors import TaskError
from peirce.files import read_json

from peirce_text.tables import open_dataset

FILES: Mapping[str, str] = {"train": "train-v{version}.json", "valid": "dev-v{version}.json"}
HUB_SPLITS: Mapping[str, str] = {"train": "train", "valid": "validation"}


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
        context: which context.
        text: the question.
        answers: those that count as right; none where the context has no answer.
    """

    id: str
    context: int
    text: str
    answers: tuple[Answer, ...]


@frozen(eq=False)
class Questions:
    """The contexts and the questions of one split."""

    contexts: tuple[str, ...]
    questions: tuple[Question, ...]

    def __len__(self) -> int:
        return len(self.questions)


def read_folder(folder: Path, version: str) -> dict[str, Questions]:
    """The splits whose files are there, such as `train-v2.0.json`.

    Raises:
        TaskError: there are none, or one is not in the published format.
    """
    names = {split: name.format(version=version) for split, name in FILES.items()}
    found = {split: read_file(folder / name) for split, name in names.items() if (folder / name).is_file()}
    if not found:
        raise TaskError(
            f"{folder} holds neither {' nor '.join(names.values())}; task.folder is where SQuAD {version} was put, and "
            "task.version which one it is"
        )
    return found


def read_file(path: Path) -> Questions:
    """Read one published file.

    Raises:
        TaskError: it is not in the published format.
    """
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise TaskError(f"{path} cannot be read: {error}; fetch the published file again") from error
    try:
        return _collected(_published(content))
    except (KeyError, TypeError, ValueError) as error:
        cause = f"no {error}" if isinstance(error, KeyError) else error
        raise TaskError(
            f"{path} is not in SQuAD's format (data, paragraphs, qas, answers): {cause}; fetch the published file again"
        ) from error


def _published(content: Any) -> Iterator[tuple[str, str, str, tuple[Answer, ...]]]:
    """Context, id, question and answers; 1.1 has no `is_impossible`, and an impossible question counts no answers."""
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                impossible = bool(question.get("is_impossible", False))
                given = [] if impossible else question["answers"]
                answers = tuple(Answer(_text(a["text"]), int(a["answer_start"])) for a in given)
                yield _text(paragraph["context"]), _text(question["id"]), _text(question["question"]), answers


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} stands where a text must")
    return value


def _collected(rows: Iterable[tuple[str, str, str, tuple[Answer, ...]]]) -> Questions:
    contexts: dict[str, int] = {}
    questions: dict[str, Question] = {}
    for context, name, text, answers in rows:
        if name in questions:
            raise ValueError(f"the id {name!r} stands twice")
        questions[name] = Question(name, contexts.setdefault(context, len(contexts)), text.strip(), answers)
    if not questions:
        raise ValueError("there are no questions")
    return Questions(tuple(contexts), tuple(questions.values()))


def read_dataset(name: str) -> dict[str, Questions]:
    """The splits of a data set of the library `datasets`.

    Args:
        name: a data set of the hub, such as `rajpurkar/squad_v2`; or a folder that `datasets` saved or can load.

    Raises:
        TaskError: it cannot be loaded, or its columns are not those of SQuAD.
    """
    loaded = open_dataset(name, ", such as rajpurkar/squad_v2")
    found = {}
    for split, theirs in HUB_SPLITS.items():
        if theirs in loaded:
            try:
                found[split] = _collected(_rows(loaded[theirs]))
            except (KeyError, TypeError, ValueError) as error:
                raise TaskError(
                    f"data set {name!r}, split {theirs}: not SQuAD's columns (id, context, question, answers with text "
                    f"and answer_start): {error}"
                ) from error
    if not found:
        raise TaskError(f"data set {name!r} has neither of the splits {', '.join(HUB_SPLITS.values())}")
    return found


def _rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, tuple[Answer, ...]]]:
    for row in rows:
        given = row["answers"]
        answers = zip(given["text"], given["answer_start"], strict=True)
        yield (
            _text(row["context"]),
            _text(row["id"]),
            _text(row["question"]),
            tuple(Answer(_text(text), int(start)) for text, start in answers),
        )
