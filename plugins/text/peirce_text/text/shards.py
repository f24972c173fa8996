"""Shards of text: files of lines or of rows, plain or compressed, which stream through the package `datasets`."""

from __future__ import annotations

import glob
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from attrs import frozen

from peirce.errors import TaskError, lacks_memory
from peirce.extras import require
from peirce.files import check_file, check_ratio, disk_error, open_file, read_lines
from peirce_text.reading import read_rows

FORMATS = {
    ".txt": "text",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
}
"""How a file is read, by its suffix."""
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
_PATTERN = frozenset("*?[]")


class ShardError(TaskError):
    """A shard that cannot be read to its end: cut off, overwritten, not what its name says."""


@frozen
class Shard:
    """One file of text.

    Args:
        path: where it is.
        kind: how it is read, one of the values of `FORMATS`.
        size: how many bytes the file has.
    """

    path: Path
    kind: str
    size: int

    @property
    def lines(self) -> bool:
        """Whether it gives lines, rather than rows that each hold a whole text."""
        return self.kind == "text"

    def texts(self, column: str = "text") -> Iterator[str]:
        """Its lines, or its rows' texts, as they are read.

        Args:
            column: which column of a row holds the text; lines have none.

        Raises:
            ShardError: the shard is damaged; what came before the damage has been given.
            TaskError: its rows have no such column, or it holds no text.
            WriteError: there is no room for what its reader keeps in the meantime.
        """
        require("reading a shard", "datasets", extra="peirce-text[train]")
        if _PATTERN.intersection(str(self.path)):
            raise TaskError(
                f"shard {self.path} has one of {' '.join(sorted(_PATTERN))} in its path, which the package datasets "
                "takes for a pattern; rename it"
            )
        rows, unpacked = self._rows(), 0
        while True:
            try:
                row = next(rows, None)
                check_ratio(unpacked, self.size)
            except Exception as error:  # whatever the readers of the formats raise
                if lacks_memory(error):
                    raise
                kept = f"what is kept while {self.path} is read, in {gettempdir()} or /dev/shm,"
                raise disk_error(error, kept) or self._damage_error(error) from error
            if row is None:
                return
            text = self._text(row, column)
            unpacked += len(text)
            yield text

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        """The rows as they are read; what `datasets` would read in pieces of any size is read here."""
        name = self.path.name.lower()
        if name.endswith((".parquet", ".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")):
            yield from (row.values for row in read_rows(self.path))
        elif name.endswith((".txt", ".txt.gz")):
            with io.TextIOWrapper(open_file(self.path), encoding="utf-8") as file:
                yield from ({"text": line.removesuffix("\n")} for line in read_lines(file))
        else:
            from datasets import load_dataset

            files = [str(self.path.resolve())]
            yield from load_dataset(self.kind, data_files=files, split="train", streaming=True)

    def _text(self, row: Mapping[str, Any], column: str) -> str:
        if self.lines:
            return str(row["text"])
        if column not in row:
            raise TaskError(
                f"shard {self.path} has no column {column!r}; its columns are {', '.join(row)}: name the one that "
                "holds the text"
            )
        text = row[column]
        if not isinstance(text, str):
            raise TaskError(f"shard {self.path}: the column {column!r} holds {text!r}, which is not a text")
        return text

    def _damage_error(self, error: Exception) -> ShardError:
        cause = str(error).partition("\n")[0] or type(error).__name__
        return ShardError(f"shard {self.path} is damaged: {cause}; restore it or leave it out")


def find_shards(files: Iterable[str | Path]) -> tuple[Shard, ...]:
    """The shards that some paths name, in the order of the paths, those of a folder or a pattern by name.

    Args:
        files: each a file, a folder, whose files of known formats are taken, or a pattern such as `wiki/*.txt.gz`.

    Raises:
        TaskError: there is no such file, its format is unknown, or it is named twice.
    """
    shards: list[Shard] = []
    for given in map(str, files):
        path = Path(given)
        if path.is_dir():
            found = [p for p in sorted(path.iterdir()) if p.is_file() and _kind(p) is not None]
        elif path.exists():
            found = [path]
        else:
            found = sorted(p for p in map(Path, glob.glob(given, recursive=True)) if p.is_file())
        if not found:
            raise TaskError(
                f"no shards at {given}: it is not a file, a folder with files of a known format, or a pattern that "
                f"matches one. Known formats: {_known_formats()}"
            )
        for file in found:
            kind = _kind(file)
            if kind is None:
                raise TaskError(f"shard {file} has an unknown format. Known formats: {_known_formats()}")
            try:
                shards.append(Shard(file, kind, check_file(file)))
            except OSError as error:
                raise TaskError(f"shard {file} cannot be read: {error.strerror or error}") from error
    paths = [shard.path.resolve() for shard in shards]
    for path in paths:
        if paths.count(path) > 1:
            raise TaskError(f"shard {path} is named {paths.count(path)} times; name it once")
    return tuple(shards)


def _kind(path: Path) -> str | None:
    name = path.name.lower()
    for compression in COMPRESSIONS:
        name = name.removesuffix(compression)
    return FORMATS.get(Path(name).suffix)


def _known_formats() -> str:
    return f"{', '.join(FORMATS)}, and text and JSON compressed as {', '.join(COMPRESSIONS)}"
