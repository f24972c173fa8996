"""Templates: a text with the columns of a row and one mask, `{sentence} It was [MASK] .`, as token ids.

A column may say in which form its text is put in: `{sentence1:open}` without the punctuation that ends it,
`{sentence2:small}` with a small first letter, as within a sentence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from peirce.errors import TaskError, unknown
from peirce_text.reading import Row
from peirce_text.text.tokenizer import Tokenizer

MASK, NEXT = "[MASK]", "[SEP]"
_PART = re.compile(r"(\{[^{}]+\}|\[MASK\]|\[SEP\])")


def _without_end(text: str) -> str:
    return text[:-1].rstrip() if text and unicodedata.category(text[-1]).startswith("P") else text


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


_FORMS: Mapping[str, Callable[[str], str]] = {"": str, "open": _without_end, "small": _lower_first}


@frozen
class Prompt:
    """One row in one template.

    Args:
        ids: the token ids, special tokens included.
        first: how many tokens have token type 0: those up to and with the first separator.
        mask: where the mask stands.
    """

    ids: tuple[int, ...]
    first: int
    mask: int


@frozen
class PromptTemplate:
    """A template.

    Args:
        text: as it was written: columns in braces, `[MASK]` once, and `[SEP]` at most once, before a second text.
        parts: the text cut at columns, mask and separator.
    """

    text: str
    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> PromptTemplate:
        """Read a template.

        Raises:
            TaskError: it has not one mask, names no column, or asks for a form that there is not.
        """
        parts = tuple(part for part in _PART.split(text) if part)
        if parts.count(MASK) != 1:
            raise TaskError(
                f"template {text!r} has {parts.count(MASK)} masks and must have one; such as "
                "'{sentence} It was [MASK] .'"
            )
        if parts.count(NEXT) > 1:
            raise TaskError(f"template {text!r} has {parts.count(NEXT)} separators and may have one")
        columns = [found for part in parts if (found := _parse_column(part))]
        for _, form in columns:
            if form not in _FORMS:
                raise TaskError(
                    f"template {text!r}: {unknown('form', form, [name for name in _FORMS if name])}"
                )
        if not columns:
            raise TaskError(f"template {text!r} names no column in braces, so every row would look the same")
        return cls(text, parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names."""
        return tuple(dict.fromkeys(found[0] for part in self.parts if (found := _parse_column(part))))

    def encode(self, tokenizer: Tokenizer, row: Row, length: int) -> Prompt:
        """One row as ids; where they are too many, the longest column is cut at its end, and never the template.

        Raises:
            TaskError: a column is missing or holds no text, or the template alone is too long.
        """
        pieces: list[list[int]] = []
        space = ""
        for part in self.parts:
            if part in (MASK, NEXT):
                pieces.append([tokenizer.mask_id if part == MASK else tokenizer.sep_id])
                space = ""
                continue
            column = _parse_column(part)
            text = space + (_read_text(row, *column) if column else part)
            # A tokenizer whose words carry the space before them gets it with the word.
            kept = text.rstrip()
            space = " " if len(kept) < len(text) else ""
            pieces.append(tokenizer.pieces(kept) if kept else [])
        fields = [i for i, part in enumerate(self.parts) if _parse_column(part)]
        room = length - 2 - sum(len(part_ids) for i, part_ids in enumerate(pieces) if i not in fields)
        for i, size in zip(fields, _fit([len(pieces[i]) for i in fields], room), strict=True):
            pieces[i] = pieces[i][:size]
        if room < 0:
            raise TaskError(f"template {self.text!r} alone has more than {length} tokens; raise task.length")
        ids, first, mask = [tokenizer.cls_id], 0, 0
        for part, part_ids in zip(self.parts, pieces, strict=True):
            mask = len(ids) if part == MASK else mask
            ids += part_ids
            first = len(ids) if part == NEXT else first
        return Prompt((*ids, tokenizer.sep_id), first or len(ids) + 1, mask)


def label_ids(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[int, ...]:
    """The token of each word.

    Raises:
        TaskError: there are fewer than two, or one is not a single token of its own.
    """
    if len(words) < 2:
        raise TaskError(
            'task.words must give at least two labels different words, such as {1 = "great", 0 = "terrible"}'
        )
    ids: dict[int, str] = {}
    for word in words:
        found = tokenizer.pieces(" " + word)
        if len(found) != 1 or found[0] == tokenizer.unknown_id:
            tokens = ", ".join(str(tokenizer.token(id)) for id in found) or "nothing"
            raise TaskError(
                f"label word {word!r} is not one token of this tokenizer, but {tokens}; a mask stands for one token, "
                "so choose a word that is one"
            )
        if found[0] in ids:
            raise TaskError(
                f"label words {ids[found[0]]!r} and {word!r} are one token; choose two that differ"
            )
        ids[found[0]] = word
    return tuple(ids)


def _parse_column(part: str) -> tuple[str, str] | None:
    """The column that a part of a template names, and the form of its text."""
    if not (part.startswith("{") and part.endswith("}")):
        return None
    name, _, form = part[1:-1].partition(":")
    return name, form


def _read_text(row: Row, column: str, form: str) -> str:
    """The text of a column in a form; a list of sentences, as of premises, is one text."""
    value = row.value(column)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return _FORMS[form](" ".join(item.strip() for item in value))
    return _FORMS[form](row.text(column).strip())


def _fit(sizes: Sequence[int], room: int) -> list[int]:
    """The sizes, the largest lowered until their sum fits."""
    fitted = list(sizes)
    while sum(fitted) > max(room, 0):
        fitted[fitted.index(max(fitted))] -= 1
    return fitted
