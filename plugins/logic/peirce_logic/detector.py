"""Relations of many texts: found in several processes, kept on disk, and turned into the ids that `logical` reads.

What is kept is found again by the digest of the text, of the parser with its model and versions, of the lexicon, and of
the senses. A cache is one SQLite file, which several processes may use at once.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache as remembered
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from attrs import astuple, frozen
from numpy.typing import NDArray

from peirce.errors import InputError
from peirce.files import explain_disk_errors
from peirce.progress import progress_bars
from peirce.workers import worker_processes
from peirce_logic.detection.algorithm import Choose, Relation, Span, detect
from peirce_logic.detection.lexicon import Lexicon, read_lexicon
from peirce_logic.detection.tree_senses import sense_by_tree
from peirce_logic.ids import Encoding, row_ids, row_relations, stack_rows
from peirce_logic.parsers import parser_of
from peirce_logic.senses.classifiers import read_senses

if TYPE_CHECKING:
    from rich.console import Console

    from peirce_logic.parsers.parser import Parser

FORMAT = 6
"""The format of what is kept; with another one, texts are parsed anew."""
SEVERAL = 500
"""How many texts are kept at once."""
LINES = 10
"""How many lines of progress are printed without a terminal; none for fewer than `SEVERAL` texts."""
_HALF = re.compile("[\ud800-\udfff]")


@frozen
class TextRelations:
    """What was found in a text.

    Args:
        text: what the spans count in: the text that was given, or the words of the trees that it holds.
        relations: in the order of their keywords.
        places: where each sentence stands.
        unparsed: how many of them have a flat tree.
    """

    text: str
    relations: tuple[Relation, ...]
    places: tuple[Span, ...]
    unparsed: int

    @property
    def sentences(self) -> int:
        """How many there are."""
        return len(self.places)


class Detector:
    """Finds the relations of texts, once each.

    Args:
        parser: its name, or `NAME:MODEL`.
        lexicon: a file of keywords; the English ones if None.
        cache: the file that keeps what is found; nothing is kept if None.
        processes: how many parse at once; 1 parses in this one.
        senses: a file of `peirce logic senses train`, which chooses among the senses of a keyword; the tree around it
            does if None.

    Raises:
        RegistryError: there is no such parser. TaskError: it needs what is not installed.
        InputError: the lexicon or the cache cannot be read. ModelFileError: the senses cannot be read.
    """

    def __init__(
        self,
        parser: str = "spacy",
        lexicon: str | os.PathLike[str] | None = None,
        cache: str | os.PathLike[str] | None = None,
        processes: int = 1,
        senses: str | os.PathLike[str] | None = None,
    ) -> None:
        if processes < 1:
            raise InputError(f"processes is {processes}; use 1 or more")
        words, chosen = (None if file is None else os.fspath(file) for file in (lexicon, senses))
        self._arguments = (parser, words, chosen)
        self._tools = _load_tools(*self._arguments)
        self._cache = None if cache is None else Path(cache)
        if self._cache is not None and (self._cache.is_dir() or not self._cache.parent.is_dir()):
            raise InputError(
                f"the cache {self._cache} is not a file in an existing folder; name one, such as c.sqlite"
            )
        self._processes = processes
        keywords = [(k.words, k.relation, k.kind, k.order) for k in self._tools.lexicon.keywords]
        self._key = json.dumps([FORMAT, self._tools.parser.identity, keywords, self._tools.senses]).encode()

    @property
    def lexicon(self) -> Lexicon:
        """The keywords."""
        return self._tools.lexicon

    @property
    def reads_trees(self) -> bool:
        """Whether the parser reads trees in place of text."""
        return self._tools.parser.reads_trees

    def find(
        self, texts: Iterable[str], console: Console | None = None, files: Sequence[str] = ()
    ) -> list[TextRelations]:
        """What is in each text; each is parsed once, and not if the cache has it.

        Args:
            texts: documents; halves of a character, such as JSON's `\\ud800`, are replaced one by one.
            console: where a progress bar is shown, or lines if it is not a terminal; None for neither.
            files: where each text stands, for errors; an empty name, or none, where that is nowhere.

        Raises:
            TaskError: a process that parses was killed. InputError: a text is not what the parser reads, or the cache
                cannot be used. WriteError: the disk of the cache is full. What was parsed before is kept.
        """
        texts = [_HALF.sub("\N{REPLACEMENT CHARACTER}", text) for text in texts]
        keys = [hashlib.sha256(self._key + text.encode()).digest() for text in texts]
        found = self._read_cache(keys)
        each = zip(keys, texts, files or [""] * len(texts), strict=True)
        missing = {key: (text, file) for key, text, file in each if key not in found}
        new: dict[bytes, str] = {}
        total = len(missing)
        lines = console if console is not None and not console.is_terminal and total >= SEVERAL else None
        try:
            with progress_bars(console if console is not None and console.is_terminal else None) as bars:
                bar = bars.add_task("parsing", total=total, shown="")
                parsed = zip(missing, self._parse(list(missing.values())), strict=True)
                for number, (key, encoded) in enumerate(parsed, 1):
                    found[key] = new[key] = encoded
                    bars.advance(bar)
                    if lines is not None and number * LINES // total > (number - 1) * LINES // total:
                        lines.print(f"parsing: {number:,} of {total:,} texts", highlight=False)
                    if len(new) >= SEVERAL:
                        self._write_cache(new)
                        new = {}
        finally:
            self._write_cache(new)
        return [_read_json(found[key], text) for key, text in zip(keys, texts, strict=True)]

    def relations(
        self, texts: Iterable[str], console: Console | None = None
    ) -> dict[str, tuple[Relation, ...]]:
        """The relations of each text, by the text; they may repeat. For the rest see `find`."""
        each = list(dict.fromkeys(texts))
        return {text: found.relations for text, found in zip(each, self.find(each, console), strict=True)}

    def ids(
        self,
        rows: Sequence[Sequence[str]],
        encodings: Sequence[Encoding],
        depth: int,
        console: Console | None = None,
    ) -> NDArray[np.int64]:
        """The input `logical_ids` of a batch.

        Args:
            rows: the texts of each row: one, or those of a pair.
            encodings: the tokens of each row, all of one number; what truncation took away is not there.
            depth: K, the number of levels.
            console: where a progress bar is shown; nowhere if None.

        Returns:
            int64 [batch, depth, length].
        """
        found = self.relations((text for row in rows for text in row), console)
        each = zip(rows, encodings, strict=True)
        return np.stack([row_ids([found[text] for text in row], tokens, depth) for row, tokens in each])

    def relation_ids(
        self, rows: Sequence[Sequence[str]], encodings: Sequence[Encoding], console: Console | None = None
    ) -> NDArray[np.int64]:
        """The input `logical_relations` of a batch.

        Args:
            rows, encodings, console: as `ids` takes them.

        Returns:
            int64 [batch, relations, length]: as many relations as the row with the most has, and at least one; rows
            with fewer have zeros for the others.
        """
        found = self.relations((text for row in rows for text in row), console)
        each = zip(rows, encodings, strict=True)
        return stack_rows([row_relations([found[text] for text in row], tokens) for row, tokens in each])

    def _parse(self, texts: Sequence[tuple[str, str]]) -> Iterator[str]:
        if self._processes == 1 or len(texts) < 2:
            yield from (_detect_as_json(text, self._tools, file) for text, file in texts)
            return
        size = max(1, min(64, len(texts) // (4 * self._processes)))
        parts = [texts[at : at + size] for at in range(0, len(texts), size)]
        with worker_processes(min(self._processes, len(texts))) as pool:
            for parsed in [pool.submit(_detect_part, self._arguments, part) for part in parts]:
                yield from parsed.result()

    def _read_cache(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """What the cache has."""
        if self._cache is None or not self._cache.exists() or not self._cache.stat().st_size:
            return {}
        statement = "select found from texts where key = ?"
        with self._open_cache() as base:
            return {key: row[0] for key in keys if (row := base.execute(statement, (key,)).fetchone())}

    def _write_cache(self, new: dict[bytes, str]) -> None:
        if self._cache is not None and new:
            with self._open_cache() as base, base:
                base.execute(
                    "create table if not exists texts (key blob primary key, found text) without rowid"
                )
                base.executemany("insert or ignore into texts values (?, ?)", new.items())

    @contextmanager
    def _open_cache(self) -> Iterator[sqlite3.Connection]:
        assert self._cache is not None
        with explain_disk_errors(f"the cache {self._cache}", "what it had kept is as it was"):
            try:
                with closing(sqlite3.connect(self._cache, timeout=60)) as base:
                    yield base
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                    raise OSError(errno.ENOSPC, "full") from error
                raise InputError(
                    f"the cache {self._cache} cannot be used: {error}; remove it, or name another file"
                ) from error


class _Tools(NamedTuple):
    """What finds relations; `senses` is the digest of what chooses among senses, empty where the tree does."""

    parser: Parser
    lexicon: Lexicon
    choose: Choose
    senses: str


def _load_tools(parser: str, lexicon: str | None, senses: str | None) -> _Tools:
    if senses is None:
        return _Tools(parser_of(parser), read_lexicon(lexicon), sense_by_tree, "")
    chosen, digest = read_senses(senses)
    return _Tools(parser_of(parser), read_lexicon(lexicon), chosen.choose, digest)


_load_tools_once = remembered(_load_tools)
"""What a process that parses has of its own."""


def _detect_part(given: tuple[str, str | None, str | None], texts: Sequence[tuple[str, str]]) -> list[str]:
    return [_detect_as_json(text, _load_tools_once(*given), file) for text, file in texts]


def _detect_as_json(text: str, tools: _Tools, file: str) -> str:
    """What is found in a text, as JSON."""
    try:
        parsed = tools.parser.parse(text)
    except InputError as error:
        if not file:
            raise
        raise InputError(f"{file}: {str(error).removeprefix('the text, ')}") from error
    relations = [astuple(each, recurse=False) for each in detect(parsed.trees, tools.lexicon, tools.choose)]
    places = [(tree.tokens[0].start, tree.tokens[-1].end) for tree in parsed.trees]
    other_text = None if parsed.text == text else parsed.text
    return json.dumps([other_text, places, parsed.failed, relations], separators=(",", ":"))


def _read_json(encoded: str, text: str) -> TextRelations:
    other_text, places, unparsed, relations = json.loads(encoded)
    found = (
        Relation(sentence, name, keyword, kind, Span(*key), _spans(alpha), _spans(beta), depth)
        for sentence, name, keyword, kind, key, alpha, beta, depth in relations
    )
    return TextRelations(text if other_text is None else other_text, tuple(found), _spans(places), unparsed)


def _spans(places: Iterable[Sequence[int]]) -> tuple[Span, ...]:
    return tuple(Span(*place) for place in places)
