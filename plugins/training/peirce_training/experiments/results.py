"""Results of experiments as CSV: a row for each figure, with the run, the seed, the commit and the command behind it.

A run is identified by a digest of all that it depends on, so that an interrupted experiment does only what is missing,
and one file can have the results of many experiments.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import subprocess
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import attrs

from peirce.errors import TaskError
from peirce.files import read_bytes, write_whole

Row = TypeVar("Row")


def read_rows(path: Path, of: type[Row]) -> list[Row]:
    """The rows of a file that `write_rows` wrote, none where there is no file.

    Args:
        path: the CSV file.
        of: the attrs class of a row; its converters read the cells, and a column that older files lack has a default.

    Raises:
        TaskError: the file is not one of such rows.
    """
    if not path.exists():
        return []
    names = [attribute.name for attribute in attrs.fields(of)]  # type: ignore[arg-type]
    try:
        table = csv.DictReader(io.StringIO(read_bytes(path, text=True).decode(), newline=""))
        return [of(**{name: row[name] for name in names if name in row}) for row in table]
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise TaskError(f"{path} is not a file of results: {error!r}; move it away to begin anew") from error


def write_rows(path: Path, rows: Iterable[Any], columns: Sequence[str]) -> None:
    """Write rows as a CSV file, whole or not at all.

    Args:
        path: the CSV file.
        rows: attrs values.
        columns: the attributes and properties of a row, in the order of the columns; the attributes all among them.
    """
    write_csv(path, columns, ([getattr(row, name) for name in columns] for row in rows))


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file, whole or not at all."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    write_whole(path, text.getvalue())


def digest(*parts: Any) -> str:
    """Ten characters that two runs share only if they do the same.

    Args:
        parts: all that a run depends on, as plain values.
    """
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def commit() -> str:
    """The commit of this source tree, with a plus sign if files differ from it; without a repository, the version."""
    here = Path(__file__).resolve()

    def git(*arguments: str) -> str:
        try:
            done = subprocess.run(["git", *arguments], cwd=here.parent, capture_output=True, text=True)
        except OSError:  # there is no git
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    tracked = git("ls-files", here.name)
    found = tracked and git("describe", "--always", "--dirty=+", "--exclude=*")
    return found or f"peirce {version('peirce-core')}"
