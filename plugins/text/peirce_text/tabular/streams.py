"""Rows of a folder of Parquet files, read anew in each pass, where memory may not hold them.

A task learns all that it must know beforehand (classes, tokenizer, how long texts are) of a sample, and keeps some of
it aside to choose and to test by. Then it trains on every other row, in an order that the library `datasets` draws.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from peirce.errors import TaskError
from peirce.extras import require
from peirce_text.progress import with_progress
from peirce_text.reading import (
    SPLIT_NAMES,
    Row,
    parquet_files,
    parquet_size,
    read_rows,
)

if TYPE_CHECKING:
    from torch import Tensor

STREAM = "stream"
"""The split whose rows are streamed: those of the training split that are not kept aside."""
LARGE = 1 << 30
"""The bytes that the columns of a folder unpack to above which it is streamed."""
SAMPLE = 100_000
"""About how many rows of the training split a task looks at, and keeps the rows of its other splits from."""
BUFFER = 10_000
"""Rows among which the next one is drawn, in memory."""
MOST_NAMES = 100_000
"""Names of classes, above which rows with new ones are not added to the sample: they name none."""


@frozen(eq=False)
class Stream:
    """Some files of a folder.

    Args:
        folder: the folder.
        files: their paths within it.
    """

    folder: Path
    files: tuple[str, ...]

    @classmethod
    def splits(cls, folder: Path) -> dict[str, Stream]:
        """The files of each split, the training split first: those whose name or folder is called `train`,
        `validation`, `test` and the like, and all others for training.

        Raises:
            TaskError: there are none to train on, or one cannot be read.
        """
        found: dict[str, list[str]] = {"train": []}
        for path in parquet_files(folder):
            words = re.split("[^a-z]+", str(path.with_suffix("")).lower())
            split = next((SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES), "train")
            found.setdefault(split, []).append(str(path))
        streams = {split: cls(folder, tuple(files)) for split, files in found.items()}
        if not streams["train"].rows:
            raise TaskError(f"{folder}: there are no rows to train on in its .parquet files")
        return streams

    @cached_property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(parquet_size(self.folder / name)[0] for name in self.files)

    def read(self, columns: Sequence[str] = (), rng: np.random.Generator | None = None) -> Iterator[Row]:
        """The rows of one pass.

        Args:
            columns: what is read of them; all columns if there are none.
            rng: what draws their order: that of the files, of which some are read at a time, and which of `BUFFER` rows
                comes next. As they stand if None.

        Raises:
            TaskError: a file cannot be read, or lacks a column.
        """
        given: Any = {"folder": str(self.folder), "columns": tuple(columns), "files": list(self.files)}
        table: Any = _read_files(**given)
        if rng is not None:
            require("a streamed folder", "datasets", extra="peirce-text[train]")
            import datasets

            table = datasets.IterableDataset.from_generator(_read_files, gen_kwargs=given)
            table = table.shuffle(generator=rng, buffer_size=BUFFER)
        for each in table:
            yield Row(self.folder / each["file"], each["number"], each["values"])

    def sample(
        self,
        columns: Sequence[str],
        count: int,
        seed: int,
        names: Callable[[Row], Iterable[str]] | None = None,
    ) -> Iterator[Row]:
        """About so many rows, equally likely but for those with a name that no row before has, which are taken too.

        Args:
            columns: what is read of them.
            count: about how many.
            seed: what is drawn depends on it.
            names: the classes that a row names; None where that does not matter.
        """
        share, seen = count / max(1, self.rows), set[str]()
        rng = np.random.default_rng(seed)
        rows = with_progress(self.read(columns), f"reading {self.folder}", self.rows, SAMPLE)
        for row in rows:
            new = set(names(row)) - seen if names is not None and len(seen) < MOST_NAMES else ()
            seen.update(new)
            if rng.random() < share or new:
                yield row


def _read_files(folder: str, columns: Sequence[str], files: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of files, each with its file and its number in it."""
    for name in files:
        for row in read_rows(Path(folder) / name, columns, only=columns):
            yield {"file": name, "number": row.number, "values": dict(row.values)}


def digest(texts: Iterable[str]) -> bytes:
    """What tells the texts of an example from others, in every process."""
    return blake2b("\0".join(texts).encode(errors="surrogatepass"), digest_size=8).digest()


class StreamedBatch(Mapping[str, "Tensor"]):
    """A batch that becomes tensors when it is asked for one: of several processes, each encodes its own alone.

    Args:
        targets: how many targets each term of the loss has in it.
        encode: what makes the tensors.
    """

    def __init__(self, targets: Mapping[str, int], encode: Callable[[], Mapping[str, Tensor]]) -> None:
        self.targets, self._encode = targets, encode

    @cached_property
    def _tensors(self) -> Mapping[str, Tensor]:
        return self._encode()

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
