"""Examples: what a row of a batch is made of, and which pair of texts it becomes in an epoch.

An example is a piece of one document that fills a row as far as its sentences do. Where it is divided into two, which
of the two comes first, or what replaces the second, is drawn from (seed, epoch, example) alone.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from peirce.files import check_file, checks_digests, digest_of, write_whole
from peirce_text.pretraining.store import Ints, ShardTokens, map_array

Objective = Literal["nsp", "sop", "mlm", "causal"]
"""Whether the second text follows (NSP), whether the two are in order (SOP), or one text alone."""
SINGLE: tuple[Objective, ...] = ("mlm", "causal")
"""Objectives whose rows are one text alone."""
IN_PLACE, NOT_IN_PLACE = 0, 1
"""Labels of a pair: it stands as in the text, or it does not."""
LEAST = 2
"""The fewest tokens of an example; one cannot be divided."""
CROP = 0.9
"""The part of an example that its second view keeps (COCO-LM, Section 3.2)."""
_TRIES = 32
_EXAMPLE, _DIGEST = 3 * 8, 32
"""Bytes of an example in a file, and of the digest at its end."""


@frozen
class TextPair:
    """What stands between the special tokens of a row.

    Args:
        first: token ids of the only or the first text.
        second: those of the second; None for a single text.
        label: `IN_PLACE` or `NOT_IN_PLACE`.
    """

    first: tuple[int, ...]
    second: tuple[int, ...] | None
    label: int = IN_PLACE


def text_room(length: int, objective: Objective) -> int:
    """How many tokens of text a row of a length holds, beside its special tokens."""
    return length - (2 if objective in SINGLE else 3)


def example_table(tokens: ShardTokens, most: int) -> Ints:
    """The examples of a shard: whole sentences of one document, as many as fit; longer ones are cut into pieces.

    They are kept beside the tokens, since large shards have millions.

    Args:
        tokens: the shard.
        most: the most tokens of an example.

    Returns:
        [examples, 3]: where it starts, where it ends, and its document; no two overlap, and only what is too short
        for an example lies in none.
    """
    path = tokens.folder / f"examples-{most}.bin"
    if not _is_whole(path):
        content = _cut_examples(tokens, most).tobytes()
        write_whole(path, content + bytes.fromhex(digest_of(content)))
    return map_array(path, np.int64, without=_DIGEST).reshape(-1, 3)


def _is_whole(path: Path) -> bool:
    """Whether a file of examples is what was written; it ends with the digest of the rest."""
    if not path.exists():
        return False
    size = check_file(path) - _DIGEST
    if size < 0 or size % _EXAMPLE:
        return False
    with path.open("rb") as file:
        file.seek(size)
        stated = file.read()
    return not checks_digests() or digest_of(path, size) == stated.hex()


def _cut_examples(tokens: ShardTokens, most: int) -> array[int]:
    rows = array("q")
    ends = tokens.sentences
    start = sentence = 0
    for document, last in enumerate(tokens.documents.tolist()):
        while start < last:
            fits = int(np.searchsorted(ends, start + most, side="right"))
            end = min(int(ends[fits - 1]), last) if fits > sentence else start + most
            if end - start >= LEAST:
                rows.extend((start, end, document))
            start = end
            sentence = int(np.searchsorted(ends, start, side="right"))
    return rows


@frozen(eq=False)
class Corpus:
    """The examples of one split, by number.

    Args:
        shards: the tokens.
        objective: which pairs examples become.
        length: the tokens of a row, special ones included.
    """

    shards: tuple[ShardTokens, ...]
    objective: Objective
    length: int
    _tables: tuple[Ints, ...] = field(init=False)
    _starts: Ints = field(init=False)

    def __attrs_post_init__(self) -> None:
        tables = tuple(example_table(shard, text_room(self.length, self.objective)) for shard in self.shards)
        object.__setattr__(self, "_tables", tables)
        object.__setattr__(self, "_starts", np.cumsum([0, *map(len, tables)]))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def sizes(self, examples: Ints) -> Ints:
        """How many tokens of text each of some examples has, in whatever pair."""
        shard = np.searchsorted(self._starts, examples, side="right") - 1
        found = np.empty(len(examples), np.int64)
        for number in np.unique(shard):
            here = shard == number
            table = self._tables[number][examples[here] - self._starts[number]]
            found[here] = table[:, 1] - table[:, 0]
        return found

    def row(self, example: int, random: np.random.Generator, *, crop: bool = False) -> TextPair:
        """What an example becomes.

        Args:
            example: its number.
            random: what is drawn from.
            crop: whether it is cut to nine tenths first, as the second view of its text.
        """
        shard, start, end, _ = self._place(example)
        if crop:
            kept = crop_length(end - start)
            start += int(random.integers(end - start - kept + 1))
            end = start + kept
        ids = self.shards[shard].ids
        if self.objective in SINGLE:
            return TextPair(_as_tuple(ids[start:end]), None)
        middle = self._split_point(shard, start, end, random)
        first, second = _as_tuple(ids[start:middle]), _as_tuple(ids[middle:end])
        if random.random() < 0.5:
            return TextPair(first, second)
        if self.objective == "sop":
            return TextPair(second, first, NOT_IN_PLACE)
        other = self._other_text(example, end - middle, random)
        return TextPair(first, second) if other is None else TextPair(first, other, NOT_IN_PLACE)

    def _place(self, example: int) -> tuple[int, int, int, int]:
        """Shard, start, end and document of an example."""
        shard = int(np.searchsorted(self._starts, example, side="right")) - 1
        start, end, document = self._tables[shard][example - self._starts[shard]].tolist()
        return shard, start, end, document

    def _split_point(self, shard: int, start: int, end: int, random: np.random.Generator) -> int:
        """Where an example is divided: at the end of a sentence, of any but the last, or anywhere if it is but one."""
        ends = self.shards[shard].sentences
        low, high = np.searchsorted(ends, [start + 1, end], side="left").tolist()
        if low < high:
            return int(ends[int(random.integers(low, high))])
        return int(random.integers(start + 1, end))

    def _other_text(self, example: int, count: int, random: np.random.Generator) -> tuple[int, ...] | None:
        """So many tokens from the start of another document's example; None if none that was tried has them.

        They are as many as those that they replace, so that the length of a row says nothing.
        """
        here, _, _, document = self._place(example)
        for other in random.integers(len(self), size=_TRIES).tolist():
            shard, start, _, owner = self._place(other)
            tokens = self.shards[shard]
            if (shard, owner) != (here, document) and start + count <= tokens.documents[owner]:
                return _as_tuple(tokens.ids[start : start + count])
        return None


def crop_length(count: int) -> int:
    """How many of an example's tokens its second view keeps; never fewer than an example has."""
    return max(LEAST, round(CROP * count))


def _as_tuple(ids: npt.NDArray[Any]) -> tuple[int, ...]:
    return tuple(ids.tolist())
