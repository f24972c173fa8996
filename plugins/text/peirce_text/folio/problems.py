"""FOLIO's problems, from the published JSON lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from peirce.errors import TaskError, unknown
from peirce_text.reading import SPLIT_NAMES, Example, Row

LABELS = ("True", "False", "Unknown")
"""The labels, in the order of their numbers."""
_SPELLINGS = {"true": 0, "false": 1, "unknown": 2, "uncertain": 2}
_FILE = re.compile(
    r"(?:folio[-_])?(?:v[\d.]+[-_])?(train|validation|valid|dev|test)\.jsonl(?:\.gz)?", re.IGNORECASE
)


def find_files(folder: Path) -> Mapping[str, Path]:
    """The files of a folder by split, such as `train.jsonl` and `folio-validation.jsonl.gz`.

    Raises:
        TaskError: there is no such folder, no file to train on or none to evaluate on.
    """
    if not folder.is_dir():
        raise TaskError(
            f"there is no folder {folder} with FOLIO's files; set task.folder to one that holds train.jsonl and "
            "validation.jsonl, gzipped or not"
        )
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if match := _FILE.fullmatch(path.name):
            first = found.setdefault(SPLIT_NAMES[match.group(1).lower()], path)
            if first is not path and first.name != path.name.removesuffix(".gz"):
                raise TaskError(f"{first} and {path} are both the {match.group(1)} split; remove one of them")
    for split, name in (("train", "train.jsonl"), ("valid", "validation.jsonl")):
        if split not in found:
            there = ", ".join(sorted(path.name for path in folder.iterdir())[:12])
            raise TaskError(f"{folder} holds no {name}, gzipped or not; it holds {there or 'nothing'}")
    return found


def problem(row: Row) -> Example:
    """Premises and a conclusion, and the number of the label.

    Raises:
        TaskError: the row is not in the published format.
    """
    value = row.value("premises")
    lines = value.splitlines() if isinstance(value, str) else value
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise TaskError(f"{row.where}: premises must be a list of sentences, not {str(value)[:80]}")
    premises = " ".join(line.strip() for line in lines if line.strip())
    if not premises:
        raise TaskError(f"{row.where}: there are no premises")
    label = str(row.value("label")).strip()
    if label.lower() not in _SPELLINGS:
        raise TaskError(f"{row.where}: {unknown('label', label, (*LABELS, 'Uncertain'))}")
    return Example((premises, row.text("conclusion").strip()), _SPELLINGS[label.lower()])
