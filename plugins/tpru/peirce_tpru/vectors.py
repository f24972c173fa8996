"""Word vectors that are not trained: of a file of GloVe or fastText, or of an encoder of `transformers` in context."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from peirce.errors import TaskError
from peirce.files import digest_of, open_file, read_lines
from peirce_text import load_encoder, print_line, tensors, weights_digest, with_progress

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The vocabulary of a model that reads vectors: every word is [UNK], and its vector says which."""
PAD, WORD, CLS, SEP = range(4)
ASSET = "vectors.json"
"""What a saved model says of the vectors that it reads."""
Array = NDArray[np.float32]
BATCH, CHUNK = 64, 2048
"""So many texts are computed at once, and kept at once."""
_PIECES = re.compile(r"\w+|[^\w\s]")
_MOST_WIDE = 1 << 14


class Vectors(ABC):
    """Gives the vectors of texts: of their tokens, and of a [CLS] before and a [SEP] after them.

    Attributes:
        source: where they come from, as the user named it.
        width: how wide they are.
        identity: what tells them from others; two sources with one identity give the same vectors.
    """

    source: str
    width: int
    identity: str

    @abstractmethod
    def prepare(self, texts: Iterable[str]) -> None:
        """Read or compute the vectors of these texts together, before `of` asks for them."""

    @abstractmethod
    def of(self, texts: Sequence[str]) -> list[Array]:
        """The vectors of each text, float32 [tokens, width]."""

    @property
    def asset(self) -> bytes:
        """What a model that reads them keeps."""
        content = {"source": self.source, "width": self.width, "identity": self.identity}
        return (json.dumps(content, indent=1) + "\n").encode()


def vectors_of(source: str, *, length: int, cache: str = "", device: str = "cpu") -> Vectors:
    """The vectors that a file or an encoder gives.

    Args:
        source: a text file of vectors, gzipped or not; or an encoder of `transformers`: a folder, or a name on the hub.
        length: the most tokens of a text.
        cache: a folder that keeps the vectors of an encoder; none if empty.
        device: what computes an encoder.

    Raises:
        TaskError: there are no vectors.
    """
    if Path(source).is_file():
        return FileVectors(source, length)
    return EncoderVectors(source, length, Path(cache) if cache else None, device)


class FileVectors(Vectors):
    """A vector for each word, `word number number ...` a line, as GloVe and fastText have them.

    A word that the file has is taken as it stands, or else in lower case, or else divided at punctuation. A word that
    it lacks has zeros, as have [CLS] and [SEP].
    """

    def __init__(self, source: str, length: int) -> None:
        self.source, self._length = source, length
        self._path = Path(source)
        self._vectors: dict[str, Array] = {}
        self._asked: set[str] = set()
        number, _, rest = next(self._lines(), (0, "", []))
        self.width = len(rest)
        if not 1 <= self.width <= _MOST_WIDE:
            raise TaskError(
                f"{source}: its first line is not a word followed by numbers; give a text file of GloVe or fastText"
            )
        self._parse(number, rest)
        self.identity = f"{digest_of(self._path)[:16]}-{length}"

    def prepare(self, texts: Iterable[str]) -> None:
        """Read the lines of those words that have not been asked for yet."""
        wanted: set[str] = set()
        for text in texts:
            for word in text.split():
                pieces = _PIECES.findall(word)
                wanted.update((word, word.lower(), *pieces, *(piece.lower() for piece in pieces)))
        wanted -= self._asked
        if not wanted:
            return
        self._asked |= wanted
        known = len(self._vectors)
        for number, word, rest in self._lines():
            if word in wanted and word not in self._vectors:
                self._vectors[word] = self._parse(number, rest)
        print_line(
            f"{self.source}: vectors of {len(self._vectors) - known:,} of {len(wanted):,} forms of words"
        )

    def of(self, texts: Sequence[str]) -> list[Array]:
        """The vectors of each text."""
        self.prepare(texts)
        nothing = np.zeros(self.width, np.float32)
        found = []
        for text in texts:
            words = [piece for word in text.split() for piece in self._split_word(word)][: self._length - 2]
            rows = [self._vectors.get(word, nothing) for word in words]
            found.append(np.stack([nothing, *rows, nothing]))
        return found

    def _split_word(self, word: str) -> list[str]:
        for form in (word, word.lower()):
            if form in self._vectors:
                return [form]
        return [piece if piece in self._vectors else piece.lower() for piece in _PIECES.findall(word)]

    def _lines(self) -> Iterator[tuple[int, str, list[str]]]:
        """Number, word and numbers of each line; fastText's first line, with two counts, is left out."""
        try:
            with open_file(self._path) as file:
                for number, line in enumerate(read_lines(file), 1):
                    word, *rest = line.decode("utf-8", "replace").rstrip("\r\n ").split(" ")
                    if number == 1 and len(rest) == 1 and word.isdecimal() and rest[0].isdecimal():
                        continue
                    yield number, word, rest
        except OSError as error:
            raise TaskError(
                f"{self.source} cannot be read: {error.strerror or error}; give a text file of vectors"
            ) from error

    def _parse(self, number: int, rest: list[str]) -> Array:
        fault = "the fields after the word must be finite numbers"
        if len(rest) != self.width:
            fault = f"it has {len(rest)} fields after the word, where the first line has {self.width}"
        else:
            with suppress(ValueError):
                if np.isfinite(vector := np.array(rest, np.float32)).all():
                    return vector
        raise TaskError(f"{self.source}, line {number}: {fault}; fetch the file again")


class EncoderVectors(Vectors):
    """The last states of a frozen encoder of `transformers`, at each token of its own tokenizer.

    Args:
        source: its folder, or its name on the hub.
        length: the most tokens of a text; the end of a longer one is cut.
        cache: a folder that keeps what was computed, in float16; none computes each text when it is asked for.
        device: what computes.
    """

    def __init__(self, source: str, length: int, cache: Path | None, device: str) -> None:
        self.source, self._length, self._device = source, length, device
        tokenizer, model = load_encoder(source, "a text file of vectors, ")
        self._tokenizer, self._encoder = tokenizer, model.to(device)
        self.width = int(self._encoder.config.hidden_size)
        self.identity = f"{weights_digest(self._encoder.state_dict())[:16]}-{length}"
        self._file = None if cache is None else cache / self.identity / "vectors.sqlite"

    def prepare(self, texts: Iterable[str]) -> None:
        """Compute and keep the vectors of those texts that the cache lacks; without a cache nothing."""
        if self._file is None:
            return
        keys = {_key(text): text for text in texts}
        there = self._read_cache(list(keys), "1")
        missing = [text for key, text in keys.items() if key not in there]
        for start in range(0, len(missing), CHUNK):
            part = missing[start : start + CHUNK]
            kept = [vector.astype(np.float16).tobytes() for vector in self._compute(part)]
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._open_cache() as base, base:
                base.execute(
                    "create table if not exists texts (key blob primary key, vectors blob) without rowid"
                )
                rows = zip(map(_key, part), kept, strict=True)
                base.executemany("insert or ignore into texts values (?, ?)", rows)

    def of(self, texts: Sequence[str]) -> list[Array]:
        """The vectors of each text."""
        if self._file is None:
            return self._compute(texts)
        self.prepare(texts)
        keys = list(map(_key, texts))
        found = self._read_cache(keys, "vectors")
        arrays = (np.frombuffer(found[key], np.float16).reshape(-1, self.width) for key in keys)
        return [array.astype(np.float32) for array in arrays]

    def _read_cache(self, keys: Sequence[bytes], column: str) -> dict[bytes, Any]:
        """A column of those texts that the cache has."""
        if self._file is None or not self._file.exists():
            return {}
        statement = f"select {column} from texts where key = ?"
        with self._open_cache() as base:
            return {key: row[0] for key in keys if (row := base.execute(statement, (key,)).fetchone())}

    @contextmanager
    def _open_cache(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(str(self._file), timeout=60)) as base:
                yield base
        except sqlite3.Error as error:
            raise TaskError(f"{self._file} cannot keep vectors: {error}; remove it") from error

    def _compute(self, texts: Sequence[str]) -> list[Array]:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found: dict[int, Array] = {}
        starts = range(0, len(order), BATCH)
        with torch.inference_mode():
            for start in with_progress(starts, f"encoding {len(texts):,} texts", len(starts), 20):
                chosen = order[start : start + BATCH]
                batch = self._tokenizer(
                    [texts[i] for i in chosen], padding=True, truncation=True, max_length=self._length,
                    return_tensors="pt",
                ).to(self._device)  # fmt: skip
                states = self._encoder(**batch).last_hidden_state.float().cpu().numpy()
                reals = batch["attention_mask"].bool().cpu().numpy()
                found |= {i: state[real] for i, state, real in zip(chosen, states, reals, strict=True)}
        return [found[i] for i in range(len(texts))]


def rows_of(vectors: Vectors, texts: Sequence[Sequence[str]]) -> dict[str, torch.Tensor]:
    """A batch of texts, or of pairs of them, for a model that reads vectors.

    Args:
        vectors: what gives them.
        texts: the first text of each row, and the second where rows are pairs.

    Returns:
        input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; word_vectors: float32 [b, x, width].
    """
    found = [vectors.of(column) for column in texts]
    counts = [[len(vector_rows) - bool(text) for vector_rows in column] for text, column in enumerate(found)]
    lengths = [sum(row) for row in zip(*counts, strict=True)]
    shape = len(lengths), max(lengths)
    ids, types = np.full(shape, PAD, np.int64), np.zeros(shape, np.int64)
    given = np.zeros((*shape, vectors.width), np.float32)
    for text, column in enumerate(found):
        for row, vector_rows in enumerate(column):
            vector_rows = vector_rows[1:] if text else vector_rows
            start = counts[0][row] if text else 0
            end = start + len(vector_rows)
            given[row, start:end], types[row, start:end], ids[row, start:end] = vector_rows, text, WORD
            ids[row, end - 1] = SEP
    ids[:, 0] = CLS
    arrays = {
        "input_ids": ids, "token_type_ids": types, "attention_mask": ids != PAD, "word_vectors": given,
    }  # fmt: skip
    return tensors(arrays)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]
