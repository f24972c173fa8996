"""A small SQuAD 2.0 and 1.1, written by hand in the published format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CONTEXT = "The dog sat on the mat. A cat ran. It was not a good film."


def question(name: str, text: str, *answers: str, context: str = CONTEXT, v2: bool = True) -> dict[str, Any]:
    found = [{"text": answer, "answer_start": context.index(answer)} for answer in answers]
    made: dict[str, Any] = {"question": text, "id": name, "answers": found}
    if v2:
        made["is_impossible"] = not found
        if not found:
            made["plausible_answers"] = [{"text": "The dog", "answer_start": 0}]
    return made


def squad(version: str, *paragraphs: tuple[str, Sequence[dict[str, Any]]]) -> str:
    content = [{"context": context, "qas": list(questions)} for context, questions in paragraphs]
    return json.dumps({"version": f"v{version}", "data": [{"title": "Animals", "paragraphs": content}]})


def write_squad(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    second = "A dog is not a cat."
    train = squad(
        "2.0",
        (CONTEXT, [question("t1", "Who sat on the mat?", "The dog"), question("t2", "Who was bad?")]),
        (second, [question("t3", " What is not a cat?", "A dog", context=second)]),
    )
    dev = squad(
        "2.0", (CONTEXT, [question("d1", "Who ran?", "A cat", "cat"), question("d2", "Who is the cat?")])
    )
    (folder / "train-v2.0.json").write_text(train)
    (folder / "dev-v2.0.json").write_text(dev)
    old = squad("1.1", (CONTEXT, [question("e1", "Who ran?", "A cat", v2=False)]))
    (folder / "train-v1.1.json").write_text(old)
    (folder / "dev-v1.1.json").write_text(old)
    return folder
