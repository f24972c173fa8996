"""ShardTokens on disk: each shard is read and tokenised once, and then mapped into memory, whatever its size.

A folder for each shard holds `tokens.bin` (the ids of all its text), `sentences.bin` and `documents.bin` (where each
ends, counted in tokens), and `shard.json`, which has their digests. It is written under another name and renamed when
it is whole, so a reader never finds a part, and processes that share a store tokenise a shard once. A folder whose
files are not what was written is made again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from peirce.extras import require
from peirce.files import (
    check_file,
    checks_digests,
    digest_of,
    explain_disk_errors,
    hold_lock,
    read_json,
    scratch_folder,
    write_json,
)
from peirce_text.text.documents import documents, sentences
from peirce_text.text.shards import Shard
from peirce_text.text.tokenizer import Tokenizer

Ints = npt.NDArray[np.int64]

FORMAT = 1
"""The format of the folders; one of another format is made again."""
_TOKENS, _SENTENCES, _DOCUMENTS, _RECORD = "tokens.bin", "sentences.bin", "documents.bin", "shard.json"
_SENTENCES_AT_ONCE = 4096
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
        return {"tokens": len(self.ids), "sentences": len(self.sentences), "documents": len(self.documents)}


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
            stack = ExitStack()
            folder = stack.enter_context(scratch_folder(Path(tempfile.gettempdir()) / "tokens"))
            weakref.finalize(self, stack.close)
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
        require("tokenizing a shard", "datasets", extra="peirce-text[train]")
        folder = self.folder / self._key(shard)
        digests = _digests(folder)
        if digests is None:
            safe = "the shards that were tokenised before are whole"
            with (
                explain_disk_errors(f"tokens in {self.folder}", safe),
                hold_lock(folder, folder=False, wait=True),
            ):
                digests = _digests(folder)  # another process may have been faster
                if digests is None:
                    digests = self._write(shard, folder, advance)
        return ShardTokens(
            folder,
            map_array(folder / _TOKENS, self._type),
            map_array(folder / _SENTENCES, np.int64),
            map_array(folder / _DOCUMENTS, np.int64),
            digests[_TOKENS],
        )

    def _key(self, shard: Shard) -> str:
        stat = shard.path.stat()
        facts = [FORMAT, self.digest, str(shard.path.resolve()), stat.st_size, stat.st_mtime_ns]
        layout = self._lines if shard.lines else self._column
        return hashlib.sha256(json.dumps([*facts, layout]).encode()).hexdigest()[:32]

    def _write(self, shard: Shard, folder: Path, advance: Callable[[int], None]) -> Mapping[str, str]:
        shutil.rmtree(folder, ignore_errors=True)
        with scratch_folder(folder) as place:
            fresh = place / "new"
            fresh.mkdir()
            ends: tuple[array[int], array[int]] = (array("q"), array("q"))
            total = reported = 0
            with (fresh / _TOKENS).open("wb") as file:
                for many in self._tokenise(shard):
                    for document in many:
                        for ids in document:
                            file.write(np.asarray(ids, self._type).tobytes())
                            total += len(ids)
                            ends[0].append(total)
                        if document:
                            ends[1].append(total)
                    advance(total - reported)
                    reported = total
            for name, values in zip((_SENTENCES, _DOCUMENTS), ends, strict=True):
                with (fresh / name).open("wb") as file:
                    values.tofile(file)
            digests = {path.name: digest_of(path) for path in sorted(fresh.iterdir())}
            write_json(fresh / _RECORD, {"format": FORMAT, "shard": str(shard.path), "sha256": digests})
            fresh.rename(folder)
        return digests

    def _tokenise(self, shard: Shard) -> Iterator[list[list[list[int]]]]:
        """Documents, some at a time, each as the tokens of its sentences."""
        texts = shard.texts(self._column)
        found = documents(texts, self._lines) if shard.lines else (text.splitlines() for text in texts)
        waiting: list[str] = []
        ends: list[int] = []
        for document in found:
            waiting += [sentence for line in document for sentence in sentences(line)]
            ends.append(len(waiting))
            if len(waiting) >= _SENTENCES_AT_ONCE:
                yield self._split_pieces(waiting, ends)
                waiting, ends = [], []
        if ends:
            yield self._split_pieces(waiting, ends)

    def _split_pieces(self, texts: list[str], ends: list[int]) -> list[list[list[int]]]:
        pieces = self._tokenizer.pieces_of(texts, specials=False)
        starts = [0, *ends[:-1]]
        return [[ids for ids in pieces[a:b] if ids] for a, b in zip(starts, ends, strict=True)]


def map_array(path: Path, dtype: Any, without: int = 0) -> npt.NDArray[Any]:
    """The numbers of a file, but for so many bytes at its end, read when they are used."""
    count = (check_file(path) - without) // np.dtype(dtype).itemsize
    if count == 0:  # which cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r", shape=(count,))


def _digests(folder: Path) -> Mapping[str, str] | None:
    """The digests of a folder's files; None where it is not what was written, or of another format."""
    try:
        record = read_json(folder / _RECORD)
        found = {name: str(record["sha256"][name]) for name in (_TOKENS, _SENTENCES, _DOCUMENTS)}
        whole = record["format"] == FORMAT and all(
            check_file(folder / name) >= 0 and (not checks_digests() or digest_of(folder / name) == digest)
            for name, digest in found.items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if whole else None
