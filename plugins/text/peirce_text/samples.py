"""Small texts for the tasks' `example_in`, which the conformance checks train on and damage."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

WHO = ("dog", "cat", "cow", "hen")
DOES = ("sat", "ran", "slept", "ate")
WHERE = ("here", "there", "inside", "outside")
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_OTHERS = ("the", "a", "did", "who", "it", "was", "is", "good", "bad", "yes", "no", "not", ".", "?", ",")


def sentence(number: int) -> str:
    """One of 64 sentences."""
    return f"The {WHO[number % 4]} {DOES[number // 4 % 4]} {WHERE[number // 16 % 4]}."


def vocabulary(folder: Path) -> str:
    """Write a BERT vocabulary of the words of these texts, and give its path."""
    path = folder / "vocab.txt"
    path.write_text("\n".join((*_SPECIAL, *_OTHERS, *WHO, *DOES, *WHERE)) + "\n", encoding="utf-8")
    return str(path)


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> str:
    """Write an object a line, and give the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def write_tables(folder: Path, **tables: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Write tables in JSON lines, and give their paths, by their names."""
    return {name: write_json_lines(folder / f"{name}.jsonl", rows) for name, rows in tables.items()}


def write_csv(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Write a table under its columns' names."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
