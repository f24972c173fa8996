"""Files with a word a line and an empty line after each sentence, as CoNLL's shared tasks and CoNLL-U have them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import IO, Any

from peirce.files import read_lines

MOST_COLUMNS = 10
"""Files of tags and dependencies have no more; of wider ones, the first column need not be the word."""
_CONLLU = ("id", "tokens", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_NUMBER = re.compile(r"(\d+)([-.]\d+)?")
"""The number of a word; or of a range such as `3-4` or an empty node such as `5.1`, which are no words."""


def read_sentences(file: IO[str]) -> Iterator[tuple[dict[str, list[str]], str]]:
    """The columns of each sentence, each a list; or why it cannot be read.

    The first column is called `tokens`, the last `tags`, and those between have numbers. Where words are numbered in
    the first column, the second is `tokens`, and ten columns are those of CoNLL-U. Of more than ten, all have numbers.
    Comments and `-DOCSTART-` are left out.
    """
    lines, begun = enumerate(read_lines(file), 1), list[tuple[int, str]]()
    for each in lines:  # up to the first that is plainly a word
        begun.append(each)
        if not _is_between(each[1]) and each[1][0] != "#":
            break
    tabs = bool(begun) and "\t" in begun[-1][1]
    width = len(_fields(begun[-1][1], tabs)) if begun else 0
    names: Sequence[str] = ()
    words: list[list[str]] = []
    for number, line in chain(begun, lines, [(0, "")]):
        fields = _fields(line, tabs)
        if _is_between(line):
            if words:
                names = names or _names(words)
                yield _columns(names, words, number)
            words = []
        elif len(fields) == width and (words or not re.match(r"#\s*[\w.]+ = ", line)):
            words.append(fields)
        elif words or line[0] != "#":
            words = []
            yield {}, f"line {number} has {len(fields)} columns where others have {width}"


def _fields(line: str, tabs: bool) -> list[str]:
    return line.rstrip("\r\n").split("\t") if tabs else re.split(" +", line.strip(" \r\n"))


def _is_between(line: str) -> bool:
    """Whether a line stands between sentences."""
    return not line.strip() or line.startswith("-DOCSTART-")


def _names(words: Sequence[Sequence[str]]) -> Sequence[str]:
    """The names of the columns, by the words of the first sentence."""
    width, ids = len(words[0]), [_NUMBER.fullmatch(each[0]) for each in words]
    whole = [int(each[1]) for each in ids if each and not each[2]]
    numbered = all(ids) and whole in ([*range(len(whole))], [*range(1, len(whole) + 1)]) and width > 1
    if numbered and width == MOST_COLUMNS:
        return _CONLLU
    names = [str(i) for i in range(1, width + 1)]
    if width <= MOST_COLUMNS:
        names[-1] = "tags"
        names[: numbered + 1] = ["id", "tokens"] if numbered else ["tokens"]
    return names


def _columns(names: Sequence[str], words: Sequence[Sequence[str]], number: int) -> tuple[dict[str, Any], str]:
    if names[0] == "id":
        ids = [_NUMBER.fullmatch(each[0]) for each in words]
        if not all(ids):
            return {}, f"a word before line {number} has no number, and those of the first sentence have"
        words = [each for each, found in zip(words, ids, strict=True) if found and not found[2]]
    return dict(zip(names, map(list, zip(*words, strict=True)), strict=True)), ""
