"""Rows of CSV, TSV, JSON-lines, Parquet and CoNLL files, and of data sets; every error names the file and the row."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from attrs import frozen

from peirce.errors import TaskError, unknown
from peirce.extras import require
from peirce.files import check_file, check_ratio, near_names, open_file, parse_json, read_lines
from peirce_text.conll import read_sentences

LONGEST_FIELD = 2**24
"""Characters of one field of a CSV file; the csv module's own bound is below what a long document has."""
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "valid"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
"""What the splits of published files and data sets are called, and what they are called here, the usual names first."""
_KINDS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    **dict.fromkeys((".conll", ".conllu", ".conllx", ".bio", ".iob", ".iob2", ".bmes"), "conll"),
}
_SIGNS = {
    b"%PDF": "a PDF; save its table as CSV",
    b"PK\x03\x04": "a ZIP archive, such as .xlsx is; save the table in it as CSV",
    b"\x1f\x8b": "gzipped; let its name end in .gz",
    b"PAR1": "Parquet; let its name end in .parquet",
    b"\xff\xfe": "UTF-16; save it as UTF-8",
    b"\xfe\xff": "UTF-16; save it as UTF-8",
}
"""What a file is that begins so, and what to do with it."""
_SAVED = "dataset_dict.json"
"""What `datasets` saves in a folder beside its splits."""
_BATCH_ROWS, _BATCH_BYTES = 10_000, 1 << 24
"""The most rows of a Parquet file that are read at once, and the bytes that they have by its metadata."""


@frozen
class Row:
    """One row, and where it stands.

    Args:
        file: the file, or the split of a data set.
        number: which row, from 1, not counting a header.
        values: by column.
        broken: why the row cannot be read; empty for a good one.
        after_gap: whether an empty line or row stands before it.
    """

    file: Path | str
    number: int
    values: Mapping[str, Any]
    broken: str = ""
    after_gap: bool = False

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
            raise TaskError(f"{self.where}: column {column!r} holds {value!r}, and must hold a text")
        return value


@frozen
class Example:
    """One or two texts.

    Args:
        texts: the texts.
        label: the number of its class, or the number that is predicted; None where none is published.
        note: what else is known of it, and no model reads.
        inputs: the numbers of each further input of the model.
        number: which row of its file it is, from 1; 0 where nothing says it.
    """

    texts: tuple[str, ...]
    label: float | None
    note: Any = None
    inputs: tuple[tuple[float, ...], ...] = ()
    number: int = 0


def read_rows(
    path: Path,
    columns: Collection[str] = (),
    *,
    quotes: bool | None = None,
    header: Sequence[str] = (),
    broken: bool = False,
    only: Collection[str] = (),
) -> Iterator[Row]:
    """The rows of a file, by the end of its name: `.csv`, `.tsv` or `.txt` with a header, `.jsonl` or `.json`, `.conll`
    and the like with a sentence a row, any of these with `.gz` after it; or `.parquet`. They are read as they are asked
    for, so that a file may be large.

    Args:
        path: the file.
        columns: what each row must have.
        quotes: whether double quotes enclose fields; by default they do in a .csv and not in a .tsv. Without quotes
            only a line feed ends a row, since published texts hold other separators.
        header: the columns of a file that does not begin with their names.
        broken: whether rows with too few fields or too many are given, as broken, rather than refused.
        only: of a Parquet file, the columns that are read; all if there are none.

    Raises:
        TaskError: the file cannot be read, or a row is not in its format.
    """
    kind = kind_of(path)
    quoted = kind == "csv" if quotes is None else quotes
    with _explain_read_errors(path):
        if kind == "parquet":
            yield from _check_rows(_records(path, only), columns, broken=broken)
            return
        with io.TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="" if quoted else "\n") as file:
            rows: Iterator[Row]
            if kind == "conll":
                rows = (Row(path, i, *each) for i, each in enumerate(read_sentences(file), 1))
            else:
                rows = _objects(path, file) if kind == "jsonl" else _fields(path, file, kind, quoted, header)
            yield from _check_rows(rows, columns, broken=broken)


def kind_of(path: Path) -> str:
    """The format of a file of rows, by the end of its name: `csv`, `tsv`, `jsonl`, `parquet` or `conll`.

    Raises:
        TaskError: it tells none.
    """
    kind = _KINDS.get(Path(path.name.lower().removesuffix(".gz")).suffix)
    if kind is None or (kind == "parquet" and path.suffix == ".gz"):
        raise TaskError(
            f"{path}: tables with the suffix {path.suffix or 'none'} are not read; save it as .csv, .tsv, .jsonl or "
            ".parquet, or let a file of CoNLL end in .conll, followed by .gz when it is gzipped"
        )
    return kind


def count_rows(path: Path) -> int:
    """How many rows a file has, for a progress bar: of a text its lines, without a header's."""
    kind = kind_of(path)
    with _explain_read_errors(path):
        if kind == "parquet":
            with _parquet(path) as (file, _):
                return int(file.metadata.num_rows)
        with open_file(path) as lines:
            chunks = iter(lambda: lines.read(1 << 20), b"")
            ends = b"\n\n" if kind == "conll" else b"\n"
            return max(0, sum(chunk.count(ends) for chunk in chunks) - (kind in ("csv", "tsv")))


@contextmanager
def _explain_read_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a file inside the block into a `TaskError` of one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise TaskError(f"there is no file {path}{near_names(path)}") from None
    except UnicodeDecodeError as error:
        with open_file(path) as file:
            begin = file.read(4)
        kind = next((kind for sign, kind in _SIGNS.items() if begin.startswith(sign)), "")
        why = f", but {kind}" if kind else f": {error.reason}; save it as UTF-8"
        raise TaskError(f"{path}: not UTF-8 text{why}") from error
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror or error}") from error


def _check_rows(rows: Iterator[Row], columns: Collection[str], *, broken: bool) -> Iterator[Row]:
    """The rows; raises if one is broken or lacks columns, unless that is allowed."""
    for row in rows:
        if not row.broken:
            for column in columns:
                row.value(column)
        elif not broken:
            raise TaskError(
                f"{row.where}: {row.broken}; look for a delimiter, a quote or a line break inside a field"
            )
        yield row


@contextmanager
def _parquet(path: Path) -> Iterator[tuple[Any, Any]]:
    """An open Parquet file, whose batches keep a text once that it has for many rows; and the schema without that."""
    require(f"the Parquet file {path}", "pyarrow", extra="peirce-text[train]")
    import pyarrow.parquet

    check_file(path)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            texts = [each.path for each in file.schema if each.physical_type == "BYTE_ARRAY"]
            plain = file.schema_arrow
        with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            yield file, plain
    except pyarrow.ArrowException as error:
        cause = str(error).partition("\n")[0]
        raise TaskError(f"{path} cannot be read as Parquet: {cause}; fetch the file again") from error


def read_batches(path: Path, most: int = _BATCH_ROWS, only: Sequence[str] | None = None) -> Iterator[Any]:
    """The record batches of a Parquet file; what it unpacks to is bounded as for other compressed files.

    Its metadata say how large the columns are, and each batch how large its values become, one that is kept once for
    many rows as often as it is given.

    Args:
        path: the file.
        most: the most rows of a batch.
        only: the columns that are read, in their order; all if None.

    Raises:
        TaskError: the file cannot be read.
    """
    with _explain_read_errors(path), _parquet(path) as (file, plain):
        packed, parts = check_file(path), file.metadata
        groups = [parts.row_group(i) for i in range(parts.num_row_groups)]
        chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
        claimed = sum(max(each.total_uncompressed_size, 8 * each.num_values) for each in chunks)
        check_ratio(claimed, packed)
        rows = max(1, min(most, _BATCH_BYTES * parts.num_rows // max(1, claimed)))
        unpacked = 0
        schema = plain if only is None else plain.empty_table().select(only).schema
        # Arrow does not read lists of texts over several row groups as it reads them here, each text once.
        nested = any("." in each.path for each in file.schema)
        for some in [[i] for i in range(parts.num_row_groups)] if nested else [None]:
            for batch in file.iter_batches(rows, row_groups=some, columns=schema.names):
                unpacked += sum(map(_unpacked_size, batch.columns))
                check_ratio(unpacked, packed)
                yield batch.select(schema.names).cast(schema)


def parquet_schema(path: Path) -> Any:
    """The Arrow schema of a Parquet file.

    Raises:
        TaskError: the file cannot be read, or two columns have one name.
    """
    with _explain_read_errors(path), _parquet(path) as (_, plain):
        _column_names(str(path), plain.names)
        return plain


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files of a folder and of those in it, as paths within it, in their order.

    Names that begin with a dot or an underscore are those of programs.
    """
    found = (path.relative_to(folder) for path in folder.rglob("*.parquet") if path.is_file())
    return sorted(path for path in found if not any(part.startswith((".", "_")) for part in path.parts))


def parquet_size(path: Path) -> tuple[int, int]:
    """The rows of a Parquet file, and the bytes that its columns unpack to by its metadata.

    Raises:
        TaskError: the file cannot be read.
    """
    with _explain_read_errors(path), _parquet(path) as (file, _):
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        return int(file.metadata.num_rows), sum(int(each.total_byte_size) for each in groups)


def parquet_folder(data: str) -> Path | None:
    """The folder of Parquet files that data are; None where they are a file, a name of the hub, or a folder that
    `datasets` saved."""
    folder = Path(data)
    if not data or not folder.is_dir() or (folder / _SAVED).exists() or not parquet_files(folder):
        return None
    return folder


def _records(path: Path, only: Collection[str] = ()) -> Iterator[Row]:
    """The rows of a Parquet file, with some of its columns, or all; classes by the names that `datasets` put there."""
    number, schema = 0, parquet_schema(path)
    names = dict(zip(_column_names(str(path), schema.names), schema.names, strict=True))
    classes: dict[str, Sequence[str]] = {}
    with suppress(ValueError, LookupError, TypeError, AttributeError):  # of a file that another program wrote
        classes = _class_columns(parse_json(schema.metadata[b"huggingface"])["info"]["features"])
    if only:
        names = {name: own for name, own in names.items() if name in only}
    for batch in read_batches(path, only=list(names.values())):
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            number += 1
            yield Row(path, number, _with_classes(dict(zip(names, values, strict=True)), classes))


def _unpacked_size(array: Any) -> int:
    """About how many bytes the values of an Arrow array take when none is shared."""
    import pyarrow
    from pyarrow import compute, types

    kind = array.type
    if types.is_dictionary(kind) and kind.value_type in (pyarrow.string(), pyarrow.binary()):
        return int(compute.sum(compute.binary_length(array.dictionary).take(array.indices)).as_py() or 0)
    if types.is_struct(kind):
        return sum(map(_unpacked_size, array.flatten()))
    if types.is_map(kind):
        return _unpacked_size(array.keys) + _unpacked_size(array.items)
    return _unpacked_size(array.flatten()) if types.is_nested(kind) else int(array.nbytes)


def _column_names(where: str, names: Sequence[str]) -> list[str]:
    """The names of columns without spaces around them.

    Raises:
        TaskError: two are called the same.
    """
    found: dict[str, int] = {}
    for number, name in enumerate(map(str.strip, names), 1):
        if found.setdefault(name, number) != number:
            raise TaskError(
                f"{where}: columns {found[name]} and {number} are both called {name!r:.60}; give each a name of its own"
            )
    return list(found)


def _objects(path: Path, file: IO[str]) -> Iterator[Row]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(
            zip(_column_names(where, [name for name, _ in pairs]), (each for _, each in pairs), strict=True)
        )

    for number, line in enumerate(read_lines(file), 1):
        if not line.strip():
            continue
        where = f"{path}, row {number}"
        try:
            value = parse_json(line, object_pairs_hook=unique)
        except ValueError as error:
            why = (
                f"{error.msg}, at column {error.pos + 1}"
                if isinstance(error, json.JSONDecodeError)
                else error
            )
            raise TaskError(f"{where}: not JSON: {why}; each line must be an object of its own") from error
        if not isinstance(value, dict):
            raise TaskError(
                f'{where}: must be a JSON object, such as {{"text": ...}}, on its own line, not {line.strip()[:60]}'
            )
        if "\\u" in line and (half := re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False))):
            raise TaskError(
                f"{where}: it has {half.group()!r}, half of a character whose other half was cut off; take it out"
            )
        yield Row(path, number, value)


def _fields(path: Path, file: IO[str], kind: str, quoted: bool, header: Sequence[str]) -> Iterator[Row]:
    csv.field_size_limit(LONGEST_FIELD)
    delimiter = "," if kind == "csv" else "\t"
    lines: Iterator[list[str]]
    if quoted:
        lines = csv.reader(read_lines(file), delimiter=delimiter, strict=True)
    else:
        ended = (line.rstrip("\r\n") for line in read_lines(file))
        lines = (line.split(delimiter) if line else [] for line in ended)
    number, after_gap, columns = 0, False, list(header)
    try:
        columns = columns or _column_names(str(path), next(lines, ()))
        if not columns:
            raise TaskError(f"{path} is empty; its first line must name its columns, such as text,label")
        if len(columns) == 1:
            _check_delimiter(path, columns[0], kind)
        if columns[0].startswith("-DOCSTART-"):
            raise TaskError(f"{path} has a word a line, as CoNLL's files have; let its name end in .conll")
        for number, fields in enumerate(lines, 1):
            if len(fields) == len(columns):
                yield Row(path, number, dict(zip(columns, fields, strict=True)), after_gap=after_gap)
            elif fields:
                yield Row(path, number, {}, f"{len(fields)} fields where the header has {len(columns)}")
            after_gap = not any(fields)
    except csv.Error as error:
        if not columns:
            with io.TextIOWrapper(open_file(path), encoding="utf-8-sig") as again:
                _check_delimiter(path, next(read_lines(again)).strip(), kind)
        raise TaskError(
            f"{path}, row {number + 1}: not valid {kind.upper()}: {error}; look for a quote that nothing closes, or "
            'one within a field, which is written twice: ""'
        ) from error


def _check_delimiter(path: Path, line: str, kind: str) -> None:
    """Refuse a first line that something else divides into columns than the file's kind says."""
    others, what = (";\t|", "commas") if kind == "csv" else ("" if " " in line else ",;|", "tabs")
    if sign := next(filter(line.__contains__, others), ""):
        raise TaskError(
            f"{path}: its first line {line!r:.80} has {sign!r} where {what} must stand; save the table with commas as "
            ".csv, or with tabs as .tsv"
        )


def read_dataset(name: str, configuration: str = "") -> Mapping[str, Iterator[Row]]:
    """The rows of each split of a data set of the library `datasets`, classes by their names.

    Args:
        name: a data set of the hub, `OWNER/NAME` or `OWNER/NAME:CONFIGURATION`; or a folder that `datasets` saved or
            can load.
        configuration: which of several is meant, or below which name of the folder it lies, if it does.

    Raises:
        TaskError: it cannot be loaded.
    """
    require(f"the data set {name!r}", "datasets", extra="peirce-text[train]")
    import datasets

    folder = Path(name)
    try:
        if not folder.is_dir() and not configuration:
            name, _, configuration = name.partition(":")
        saved = [at for at in (folder, folder / configuration) if (at / _SAVED).is_file()]
        if saved:
            loaded: Any = datasets.load_from_disk(str(saved[0]))
        else:
            if (
                configuration
                and folder.is_dir()
                and configuration not in datasets.get_dataset_config_names(name)
            ):
                configuration = ""
            whole = str(folder.resolve()) if folder.is_dir() else name  # for "." the library takes no name
            loaded = datasets.load_dataset(whole, configuration or None)
    except Exception as error:  # whatever the library, its file formats and its network raise
        cause = str(error.__cause__ or error).partition("\n")[0]
        raise TaskError(
            f"data set {name!r}{configuration and f' of {configuration!r}'} cannot be loaded: {cause}; give a name of "
            "the hub, with its configuration after a colon if it has several, one table, a folder of tables with the "
            "same columns or one that `datasets` saved, or the published files with task.folder"
        ) from error
    return {split: _rows(f"data set {folder}, {split}", table) for split, table in loaded.items()}


def read_splits(name: str, needed: Collection[str]) -> dict[str, Iterator[Row]]:
    """The rows of a data set's splits for training, choosing and testing alone, by our names of them.

    Args:
        name: as for `read_dataset`.
        needed: the splits that must be there, such as `train`.

    Raises:
        TaskError: it cannot be loaded, or lacks a split.
    """
    there = read_dataset(name)
    found = {ours: there[split] for split, ours in reversed(SPLIT_NAMES.items()) if split in there}
    if missing := [split for split in needed if split not in found]:
        raise TaskError(f"data set {name!r} has no {' and no '.join(missing)} split")
    return found


def _rows(where: str, table: Any) -> Iterator[Row]:
    classes = _class_columns(table.features.to_dict())
    for number, values in enumerate(table, 1):
        yield Row(where, number, _with_classes(values, classes))


def _class_columns(features: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """The names of classes of each column, or of each item of a column of lists, that has some.

    Args:
        features: each column's feature, as `datasets` writes it.
    """
    found = {name: _names_of(each) for name, each in features.items()}
    return {name: names for name, names in found.items() if names}


def _names_of(feature: Any) -> Sequence[str]:
    """The names of a feature's classes, or of the items of lists, however deep; empty where it has none."""
    if isinstance(feature, list):  # how older ones of `datasets` write a list
        return _names_of(feature[0])
    if not isinstance(feature, Mapping):
        return ()
    return feature["names"] if feature.get("_type") == "ClassLabel" else _names_of(feature.get("feature"))


def _with_classes(values: dict[str, Any], classes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """A row with names in place of the numbers of classes."""
    for name in classes.keys() & values.keys():
        values[name] = _class_names(values[name], classes[name])
    return values


def _class_names(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_class_names(each, names) for each in value]
    known = isinstance(value, int) and 0 <= value < len(names)  # -1 stands for no class, as in test sets
    return names[value] if known else value
