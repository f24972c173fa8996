"""Rows written to a table as they come, in the format that its name tells."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from peirce.errors import TaskError
from peirce.extras import require
from peirce.files import replace_non_finite
from peirce_text.reading import kind_of

Writer = Callable[[Sequence[Mapping[str, Any]]], None]
"""Writes some rows, all with the same columns."""


@contextmanager
def table_writer(path: Path, named: Path) -> Iterator[Writer]:
    """What writes rows to a file: CSV, TSV, JSON lines or Parquet.

    In a TSV no field is quoted, as `read_rows` reads it. Lists of words have spaces between them there and in a CSV,
    other lists are JSON. JSON has no NaN and no infinity, for which null stands.

    Args:
        path: where it is written.
        named: what it will be called, whose end tells the format.

    Raises:
        TaskError: a field does not go into the format.
    """
    kind = written_kind(named)
    if kind == "parquet":
        with _parquet(path, named) as writes:
            yield writes
        return
    with (
        cast(IO[bytes], gzip.open(path, "wb") if named.suffix == ".gz" else path.open("wb")) as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="") as file,
    ):
        columns: list[str] = []

        def write(rows: Sequence[Mapping[str, Any]]) -> None:
            if kind == "jsonl":
                file.writelines(_json(dict(row)) + "\n" for row in rows)
                return
            head = [] if columns or not rows else [list(rows[0])]
            columns.extend(name for names in head for name in names)
            if more := sorted({name for row in rows for name in row} - set(columns)):
                raise TaskError(
                    f"{named}: the first row has no column {more[0]!r}, but a later one has it; write a .jsonl"
                )
            fields = [*head, *([_field(row.get(name)) for name in columns] for row in rows)]
            if kind == "csv":
                # Python before 3.11.9 quotes a carriage return only where it is in the line end.
                csv.writer(_LineFeeds(file), lineterminator="\r\n").writerows(fields)
                return
            if any(sign in each for row in fields for each in row for sign in "\t\r\n"):
                raise TaskError(
                    f"{named}: a field holds a tab or a line break, which a .tsv cannot hold; write a .csv"
                )
            file.writelines("\t".join(row) + "\n" for row in fields)

        yield write


def written_kind(path: Path) -> str:
    """The format in which a file is written, by the end of its name.

    Raises:
        TaskError: it tells none that is written.
    """
    kind = kind_of(path)
    if kind == "conll":
        raise TaskError(f"{path}: files of CoNLL are read and not written; end the name in .jsonl or .csv")
    return kind


class _LineFeeds:
    """Writes the lines that the csv module gives, with a line feed at the end."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line.removesuffix("\r\n") + "\n")


def _json(value: Any) -> str:
    return json.dumps(replace_non_finite(value), ensure_ascii=False, default=str)


def _field(value: Any) -> str:
    if isinstance(value, list):
        words = [str(each) for each in value if isinstance(each, str | int | float)]
        text = " ".join(words)
        plain = len(words) == len(value) and text.split() == words and not text.startswith(("[", "(", "{"))
        return text if plain else _json(value)
    return "" if value is None else _json(value) if isinstance(value, dict) else str(value)


@contextmanager
def _parquet(path: Path, named: Path) -> Iterator[Writer]:
    """The columns have the types of the first rows, and those that are empty there are texts."""
    require("a Parquet file", "pyarrow", extra="peirce-text[train]")
    import pyarrow.parquet

    writer: Any = None

    def write(rows: Sequence[Mapping[str, Any]]) -> None:
        nonlocal writer
        try:
            table = pyarrow.Table.from_pylist(list(rows), schema=None if writer is None else writer.schema)
            if writer is None:
                text = pyarrow.string()
                known = [
                    each.with_type(text) if each.type == pyarrow.null() else each for each in table.schema
                ]
                table = table.cast(pyarrow.schema(known))
                writer = pyarrow.parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
        except (pyarrow.ArrowException, OverflowError) as error:
            cause = str(error).partition("\n")[0]
            raise TaskError(
                f"{named}: a column holds values of several types, or of none of Parquet's: {cause}; write a .jsonl"
            ) from error

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
