"""The items of lists, of the texts of lists, and of texts with spaces."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterable, Iterator
from typing import Any

from peirce.errors import TaskError
from peirce.files import parse_json
from peirce_text.reading import Row

_ITEM = re.compile(
    r"""\s* (?P<call>np\.\w+\()?
        (?: u?(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*") | (?P<number>-?\d+(?:\.\d*)?) )
        (?(call)\)) \s*(?:,|(?<=\s)|$)\s*""",
    re.VERBOSE | re.DOTALL,
)
"""An item of a list as Python and numpy write lists, with the comma or the space after it."""


def items(value: Any, where: str) -> list[Any]:
    """The items of a list, of the text of a list, or of a text with spaces between them.

    The text of a list is JSON, or what Python, pandas and numpy write: `['a', 'b']`, `['a' 'b']`, `[3 0 7]`. Brackets
    that are words, as in `[UNK] sat`, make no list.

    Args:
        value: what a column holds.
        where: the place, for errors.

    Raises:
        TaskError: it is neither, or is the text of a list of another form, such as `[a, b]` or `['a' ... 'z']`.
    """
    if isinstance(value, list):
        return value
    if value is None or (isinstance(value, float) and value != value):  # as pandas has what is empty
        return []
    if not isinstance(value, str):
        raise TaskError(f"{where} holds {value!r:.60}, and must hold a list, or a text with spaces")
    found = list_in_text(value)
    if found is not None:
        return found
    text = value.strip()
    inner = text[1:-1]
    if text[:1] + text[-1:] in ("[]", "()", "{}") and not inner[:1].isspace():
        quoted = inner[:1] in ("'", '"') and inner[-1:] in ("'", '"')
        nested = text[0] != "(" and inner[:1] in ("[", "{", "(", "'", '"')
        listed = (
            text[0] != "(" and ("," in inner or "..." in inner.split()) and not set("[](){}") & set(inner)
        )
        if quoted or nested or listed:
            raise TaskError(
                f"{where} holds {text!r:.60}, which looks like the text of a list, and is none that is read; save the "
                "table as .jsonl, with lists"
            )
    return text.split()


def list_in_text(text: str) -> list[Any] | None:
    """The items of a list whose text this is; None if it is another text."""
    text = text.strip()
    inner = text[1:-1].strip()
    if text[:1] + text[-1:] not in ("[]", "()") or (text[0] == "(" and inner[:1] not in ("'", '"')):
        return None
    try:
        found = parse_json(text)
        return found if all(each is None or isinstance(each, str | int | float) for each in found) else None
    except ValueError:
        found, at = [], 0
    while at < len(inner):
        match = _ITEM.match(inner, at)
        if match is None:
            return None
        try:
            found.append(literal_eval(match["quoted"]) if match["quoted"] else match["number"])
        except (ValueError, SyntaxError):  # of escapes that Python does not know
            return None
        at = match.end()
    return found


def is_list(value: Any) -> bool:
    """Whether a value is a list, or the text of one."""
    return isinstance(value, list) or (isinstance(value, str) and list_in_text(value) is not None)


def words_in(value: Any, where: str) -> list[str]:
    """The words that a column holds.

    Raises:
        TaskError: it is no list of words.
    """
    found = items(value, where)
    for each in found:
        if not isinstance(each, str | int | float) or each != each:
            raise TaskError(f"{where} holds {each!r:.60} among its words; put a word there")
    return [str(each) for each in found]


def split_lists(rows: Iterable[Row], text: str, score: str) -> Iterator[Row]:
    """A row for each text of a list, with its score; rows of one text stay as they are.

    Args:
        rows: the rows.
        text: the column of the texts.
        score: that of their scores; a table to predict may lack it.

    Raises:
        TaskError: there are not as many scores as texts.
    """
    for row in rows:
        texts = row.value(text)
        if not is_list(texts):
            yield row
            continue
        texts = items(texts, f"{row.where}: column {text!r}")
        scores = items(row.values[score], f"{row.where}: column {score!r}") if score in row.values else None
        if scores is not None and len(scores) != len(texts):
            raise TaskError(
                f"{row.where}: {len(texts)} texts have {len(scores)} scores; give every text one score"
            )
        for i, each in enumerate(texts):
            own = {text: each} if scores is None else {text: each, score: scores[i]}
            yield Row(row.file, row.number, {**row.values, **own})
