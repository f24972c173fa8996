"""Texts that are divided into words, as token ids: every word is in a row, and a long text in several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from peirce_text.progress import with_progress
from peirce_text.text.encoding import CHUNK, EncodedTexts, Ints, pad
from peirce_text.text.tokenizer import Tokenizer


def _no_ints() -> Ints:
    return np.zeros(0, np.int64)


@frozen(eq=False)
class EncodedWords(EncodedTexts):
    """Rows such as `[CLS] words [SEP]`; a text that is too long goes on in the next row, between two words.

    Args:
        first: bool, beside `ids`: whether a token is the first of a word, and stands for it.
        counts: int64, the words of each text.
        tags: int64, beside `ids`: the class of a word at its first token, -100 elsewhere; empty where none is known.
    """

    first: NDArray[np.bool_] = field(factory=lambda: np.zeros(0, np.bool_))
    counts: Ints = field(factory=_no_ints)
    tags: Ints = field(factory=_no_ints)

    def arrays(self, rows: Ints) -> dict[str, NDArray[Any]]:
        """What a batch holds, with `labels`, int64 [b, x]: `tags`, and -100 at padding."""
        arrays = super().arrays(rows)
        if len(self.tags):
            from peirce.parts import IGNORED  # which torch comes with

            arrays["labels"] = pad([self.tags[self.place(row)] for row in rows], IGNORED)[0]
        return arrays

    def place(self, row: int) -> slice:
        """The slice of `ids` that is a row."""
        return slice(int(self.starts[row]), int(self.starts[row + 1]))

    def with_tags(self, classes: Ints) -> EncodedWords:
        """The rows with the class of each word of all texts, int64, in their order."""
        from peirce.parts import IGNORED

        tags = np.full(len(self.ids), IGNORED, np.int64)
        tags[self.first] = classes
        return evolve(self, tags=tags)

    def by_token(self, words: NDArray[Any]) -> NDArray[Any]:
        """What is known of each word of all texts, floats, at each token of it; NaN at special tokens."""
        inside = np.ones(len(self.ids), np.bool_)
        inside[self.starts[:-1]] = inside[self.starts[1:] - 1] = False
        found = np.full(len(self.ids), np.nan, words.dtype)
        found[inside] = words[(np.cumsum(self.first) - 1)[inside]]
        return found

    def text_of_row(self) -> Ints:
        """int64 [n], the text that each row is of, or is a part of; every text has a word."""
        first = np.cumsum(self.first)[self.starts[:-1]]  # the first word of a row, since no word begins it
        return np.repeat(np.arange(len(self.counts)), self.counts)[first]

    def by_text(self, words: NDArray[Any]) -> list[Any]:
        """What is known of each word of all texts, by text."""
        ends = np.cumsum(self.counts)
        return [words[end - count : end] for end, count in zip(ends, self.counts, strict=True)]


def encode_words(
    tokenizer: Tokenizer, texts: Sequence[Sequence[str]], length: int, what: str = "texts"
) -> EncodedWords:
    """Tokenise texts word by word.

    Args:
        tokenizer: the tokenizer.
        texts: the words of each text.
        length: the most tokens of a row. A longer text has more rows, and a longer word is cut.
        what: what the texts are called in the progress bar.
    """
    rows: list[list[int]] = []
    firsts: list[list[bool]] = []
    cut, room = 0, length - 2
    unknown = tokenizer.mask_id if tokenizer.unknown_id is None else tokenizer.unknown_id
    chunks = range(0, len(texts), CHUNK)
    for start in with_progress(chunks, f"tokenising {what}", len(chunks), 3):
        some = texts[start : start + CHUNK]
        # After a space, as within a text: tokenizers such as RoBERTa's have other pieces for the word that begins it.
        flat = [f" {word}" if i else word for words in some for i, word in enumerate(words)]
        pieces = iter(tokenizer.pieces_of(flat))
        for words in some:
            ids, first = list[int](), list[bool]()
            for _ in words:
                word_ids = next(pieces) or [unknown]
                cut += len(word_ids) > room
                word_ids = word_ids[:room]
                if len(ids) + len(word_ids) > room:
                    rows.append(ids)
                    firsts.append(first)
                    ids, first = [], []
                ids += word_ids
                first += [True, *[False] * (len(word_ids) - 1)]
            rows.append(ids)
            firsts.append(first)
    whole = [[tokenizer.cls_id, *ids, tokenizer.sep_id] for ids in rows]
    encoded = EncodedWords.of(whole, [len(ids) for ids in whole], tokenizer.pad_id, cut)
    assert isinstance(encoded, EncodedWords)
    marks = [mark for first in firsts for mark in (False, *first, False)]
    return evolve(
        encoded, first=np.array(marks, np.bool_), counts=np.array([len(words) for words in texts], np.int64)
    )
