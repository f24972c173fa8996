"""Reading files of named columns row by row."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from attrs import frozen
from peirce.errors import TaskError, unknown
from peirce.files import open_file, parse_json, read_lines

LONGEST_FIELD = 2**24
"""Characters of one field of a CSV file; the csv module's own bound is below what a long document has."""
FORMATS = ("csv", "tsv", "jsonl")


@frozen
class Row:
    """One row, and where it stands.

    Args:
        file: the file, or the split of a data set.
        number: which row, from 1, not counting a header.
        values: by column.
    """

    file: Path | str
    number: int
    values: Mapping[str, Any]

    @property
    def where(self) -> str:
        """The place, as errors name it."""
        return f"{self.file}, row {self.number}"

    def value(self, column: str) -> Any:
        """What stands in a column.

        Raises:
            TaskError: there is no such column.
        """
        if column not in self.values:
            raise TaskError(f"{self.where}: {unknown('column', column, map(str, self.values))}")
        return self.values[column]

    def text(self, column: str) -> str:
        """The text of a column.

        Raises:
            TaskError: there is no such column, or it holds no text.
        """
        value = self.value(column)
        if not isinstance(value, str) or not value.strip():
            raise TaskError(f"{self.where}: column {column!r} holds {value!r}, where a text must stand")
        return value


def read_rows(
    path: Path,
    columns: Collection[str] = (),
    *,
    quotes: bool | None = None,
    header: Sequence[str] = (),
) -> Iterator[Row]:
    """The rows of a file, by the end of its name: `.csv`, `.tsv` or `.txt` with a header, `.jsonl` or `.json`; or
    any of these with `.gz` after it.

    Args:
        path: the file.
        columns: what each row must have.
        quotes: whether double quotes enclose fields; by default they do in a .csv and not in a .tsv.
        header: the columns of a file that does not begin with their names.

    Raises:
        TaskError: the file cannot be read, or a row is not in its format.
    """
    kind = _format(path)
    try:
        with _opened(path) as file:
            numbered = (
                _objects(path, file) if kind == "jsonl" else _delimited(path, file, kind, quotes, header)
            )
            for number, values in numbered:
                row = Row(path, number, values)
                for column in columns:
                    row.value(column)
                yield row
    except FileNotFoundError:
        beside = sorted(other.name for other in path.parent.glob("*") if other.is_file())
        hint = f"; that folder has {', '.join(beside[:12])}" if beside else ""
        raise TaskError(f"there is no file {path}{hint}") from None
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: not UTF-8 text: {error.reason}; save it as UTF-8") from error
    except (OSError, EOFError, zlib.error) as error:
        cause = getattr(error, "strerror", None) or error
        raise TaskError(f"{path}: cannot be read: {cause}; fetch the file again") from error


def _format(path: Path) -> str:
    ending = Path(path.name.removesuffix(".gz")).suffix
    kind = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl", ".json": "jsonl"}.get(ending)
    if kind is None:
        raise TaskError(
            f"{path}: its name tells no format; end it in .csv, .tsv or .jsonl, with .gz after it when it is gzipped"
        )
    return kind


def _opened(path: Path) -> IO[str]:
    return io.TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="")


def _objects(path: Path, file: IO[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(read_lines(file), 1):
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except ValueError as error:
            raise TaskError(f"{path}, row {number}: no JSON: {error}") from error
        if not isinstance(value, dict):
            raise TaskError(f"{path}, row {number}: must be a JSON object, and is {line.strip()[:60]}")
        yield number, value


def _delimited(
    path: Path, file: IO[str], kind: str, quotes: bool | None, header: Sequence[str]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    quoted = kind == "csv" if quotes is None else quotes
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(
        read_lines(file),
        delimiter="," if kind == "csv" else "\t",
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=True,
    )
    number = 0
    try:
        columns = list(header) if header else next(reader, None)
        if columns is None:
            raise TaskError(f"{path}: empty, without so much as a header")
        for number, fields in enumerate(reader, 1):
            if not fields:
                continue
            if len(fields) != len(columns):
                raise TaskError(
                    f"{path}, row {number}: {len(fields)} fields where the header has {len(columns)}; "
                    "look for a delimiter, a quote or a line break inside a field"
                )
            yield number, dict(zip(columns, fields, strict=True))
    except csv.Error as error:
        raise TaskError(f"{path}, row {number + 1}: no {kind.upper()}: {error}") from error
