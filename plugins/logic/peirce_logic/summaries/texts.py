"""Texts and their summaries: the files and hub columns of DialogSum, and of any data set of the kind."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from peirce.errors import TaskError
from peirce_text import Row

TEXTS = ("dialogue", "document", "article", "text", "source")
SUMMARIES = ("summary", "highlights", "abstract", "target")
"""What data sets call the columns; the first that a row has is taken. `summary1` and so on hold several summaries."""


@frozen
class Example:
    """A text and the summaries that people wrote of it, one or more."""

    text: str
    summaries: tuple[str, ...]


def examples_of(rows: Iterable[Row], columns: tuple[str, str]) -> list[Example]:
    """The examples of a file or of a data set.

    Args:
        rows: one for each text.
        columns: of the text and of the summary; those that data sets have where empty.

    Raises:
        TaskError: a row lacks a column.
    """
    text, summary = columns
    found = []
    for row in rows:
        given = [summary or _first(row, SUMMARIES)]
        if not summary and not given[0]:
            given = sorted(name for name in row.values if name.rstrip("0123456789") in SUMMARIES)
        read = text or _first(row, TEXTS)
        if not read or not given:
            raise TaskError(
                f"{row.where}: no column holds the {'summary' if read else 'text'}; the columns are "
                f"{', '.join(map(str, row.values)) or 'none'}; name the columns with task.text and task.summary"
            )
        found.append(Example(row.text(read).strip(), tuple(row.text(name).strip() for name in given)))
    return found


def _first(row: Row, names: Iterable[str]) -> str:
    return next((name for name in names if name in row.values), "")
