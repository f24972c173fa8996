"""ShardTokens on disk: each shard is read and tokenised once, and then mapped into memory, whatever its size.

A folder for each shard holds `tokens.bin` (the ids of all its text), `sentences.bin` and `documents.bin` (where each
ends, counted in tokens), and `shard.json`. It is written under another name and renamed when it is whole, so a reader
never finds a part, and processes that share a store tokenise a shard once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen
from peirce.disk import writing
from peirce.errors import TaskError
from peirce.extras import require
from peirce.files import scratch
from peirce.owners import owned
from peirce.reading import check, read_json

from peirce_text.text.documents import documents, sentences
from peirce_text.text.shards import Shard
from peirce_text.text.tokenizer import Tokenizer

Ints = npt.NDArray[np.int64]

FORMAT = 1
"""The format of the folders; one of another format is made again."""
_RECORD = "shard.json"
_AT_ONCE = 4096
"""How many sentences are tokenised together."""


@frozen(eq=False)
class ShardTokens:
    """The tokens of one shard.

    Args:
        folder: where they lie.
        ids: the ids, [n].
        sentences: where each sentence ends, ascending; the last is n.
        documents: where each document ends, ascending; the last is n.
        digest: SHA-256 of the ids.
    """

    folder: Path
    ids: npt.NDArray[Any]
    sentences: Ints
    documents: Ints
    digest: str

    @property
    def counts(self) -> dict[str, int]:
        """How much there is."""
        return {
            "tokens": len(self.ids),
            "sentences": len(self.sentences),
            "documents": len(self.documents),
        }


class Store:
    """A folder of tokenised shards.

    Args:
        folder: where it is; a temporary one, removed when nobody uses the store any more, if None.
        tokenizer: what the tokens are made with.
        column: which column of a row holds the text.
        lines: how many lines of a file of lines are a document; 0 if blank lines divide documents.
    """

    def __init__(
        self, folder: Path | None, tokenizer: Tokenizer, column: str = "text", lines: int = 0
    ) -> None:
        self._tokenizer, self._column, self._lines = tokenizer, column, lines
        self.digest = hashlib.sha256(tokenizer.content).hexdigest()
        self._type: Any = np.uint16 if tokenizer.vocabulary <= 1 << 16 else np.uint32
        if folder is None:
            own = ExitStack()
            folder = own.enter_context(scratch(Path(tempfile.gettempdir()) / "tokens"))
            weakref.finalize(self, own.close)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def tokens(self, shard: Shard, advance: Callable[[int], None]) -> ShardTokens:
        """The tokens of a shard, made now if they are not there.

        Args:
            shard: the shard.
            advance: called now and then with how many more tokens there are.

        Raises:
            ShardError: the shard is damaged; nothing of it is kept.
            WriteError: the disk takes no more.
        """
        require("tokenizing a shard", "tokenizers", "datasets", extra="text")
        folder = self.folder / self._key(shard)
        if not _whole(folder):
            safe = "the shards that were tokenised before are whole"
            with writing(f"tokens in {self.folder}", safe), owned(folder, folder=False, wait=True):
                if not _whole(folder):  # another process may have been faster
                    self._write(shard, folder, advance)
        return ShardTokens(
            folder,
            mapped(folder / "tokens.bin", self._type),
            mapped(folder / "sentences.bin", np.int64),
            mapped(folder / "documents.bin", np.int64),
            read_json(folder / _RECORD)["digest"],
        )

    def _key(self, shard: Shard) -> str:
        stat = shard.path.stat()
        facts = [FORMAT, self.digest, str(shard.path.resolve()), stat.st_size, stat.st_mtime_ns]
        own = self._lines if shard.lines else self._column
        return hashlib.sha256(json.dumps([*facts, own]).encode()).hexdigest()[:32]

    def _write(self, shard: Shard, folder: Path, advance: Callable[[int], None]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        with scratch(folder) as place:
            fresh = place / "new"
            fresh.mkdir()
            ends: tuple[array[int], array[int]] = (array("q"), array("q"))
            total = told = 0
            digest = hashlib.sha256()
            with (fresh / "tokens.bin").open("wb") as file:
                for many in self._tokenised(shard):
                    for document in many:
                        for ids in document:
                            content = np.asarray(ids, self._type).tobytes()
                            file.write(content)
                            digest.update(content)
                            total += len(ids)
                            ends[0].append(total)
                        if document:
                            ends[1].append(total)
                    advance(total - told)
                    told = total
            for name, values in zip(("sentences.bin", "documents.bin"), ends, strict=True):
                with (fresh / name).open("wb") as file:
                    values.tofile(file)
            sizes = {path.name: path.stat().st_size for path in fresh.iterdir()}
            record = {
                "format": FORMAT,
                "shard": str(shard.path),
                "sizes": sizes,
                "digest": digest.hexdigest(),
            }
            (fresh / _RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            fresh.rename(folder)

    def _tokenised(self, shard: Shard) -> Iterator[list[list[list[int]]]]:
        """Documents, some at a time, each as the tokens of its sentences."""
        texts = shard.texts(self._column)
        found = documents(texts, self._lines) if shard.lines else (text.splitlines() for text in texts)
        waiting: list[str] = []
        ends: list[int] = []
        for document in found:
            waiting += [sentence for line in document for sentence in sentences(line)]
            ends.append(len(waiting))
            if len(waiting) >= _AT_ONCE:
                yield self._divided(waiting, ends)
                waiting, ends = [], []
        if ends:
            yield self._divided(waiting, ends)

    def _divided(self, texts: list[str], ends: list[int]) -> list[list[list[int]]]:
        pieces = self._tokenizer.pieces_of(texts, specials=False)
        starts = [0, *ends[:-1]]
        return [[ids for ids in pieces[a:b] if ids] for a, b in zip(starts, ends, strict=True)]


def mapped(path: Path, dtype: Any) -> npt.NDArray[Any]:
    """The numbers of a file, read when they are used."""
    if check(path) == 0:  # which cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")


def _whole(folder: Path) -> bool:
    """Whether a folder is what was written; one that was cut off or is of another format is made again."""
    try:
        record = read_json(folder / _RECORD)
        sizes = record["sizes"]
        return record["format"] == FORMAT and all((folder / n).stat().st_size == s for n, s in sizes.items())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def check_folder(folder: Path) -> None:
    """Refuse a path where no store can be.

    Raises:
        TaskError: it is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise TaskError(f"task.store={folder} is a file; give a folder for the tokens")
