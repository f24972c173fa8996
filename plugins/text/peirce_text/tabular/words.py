"""Tables with a word in each row, whose sentences are put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from peirce.errors import TaskError
from peirce_text.reading import Row
from peirce_text.tabular.columns import class_name, usual_column
from peirce_text.tabular.lists import list_in_text

LOOKED_AT = 1000
"""The rows by which a table with a word in each is known."""


def join_words(rows: Iterator[Row], words: str, sentence: str = "") -> Iterator[Row]:
    """The rows of a table; where it has a word in each row, a row for each sentence, with a list in each column.

    A table has a word in each row if its first rows have hardly a space in the column of words. A sentence begins where
    the column of sentences has another value, or without such a column after an empty line.

    Args:
        rows: the rows.
        words: the column of the words.
        sentence: the column that says which sentence a word is in; if empty, one that is called so, if there is one.

    Raises:
        TaskError: there is a word in each row, and nothing says where a sentence ends.
    """
    first = list(islice(rows, LOOKED_AT))
    rows = chain(first, rows)
    if not sentence:
        texts = [row.value(words) or "" for row in first]
        plain = all(isinstance(each, str) and list_in_text(each) is None for each in texts)
        if len(first) < 2 or not plain or sum(len(each.split()) or 1 for each in texts) > 1.1 * len(first):
            yield from rows
            return
        sentence = usual_column((name for name in first[0].values if name != words), "sentence")
        begins = [begin for _, begin in _with_begins(first, sentence)][1:]
        if all(begins) or not (sentence or any(begins)):
            raise TaskError(
                f"{first[0].file}: column {words!r} has one word in each row, and nothing says where a sentence ends; "
                "name the column that numbers the sentences with task.sentence, or call it sentence_id, leave an empty "
                "line between them, or give a row all words with spaces; texts of one word each are lists in a .jsonl"
            )
    together: list[Row] = []
    for row, begin in _with_begins(rows, sentence):
        if together and begin:
            yield _join(together, sentence)
            together = []
        together.append(row)
    if together:
        yield _join(together, sentence)


def _with_begins(rows: Iterable[Row], sentence: str) -> Iterator[tuple[Row, bool]]:
    """The rows that are not empty, and whether a sentence begins with each: by a column, or else after empty lines."""
    number = None
    for row in rows:
        if any(each not in ("", None) for each in row.values.values()):
            here = class_name(row.value(sentence), row.where) if sentence else None
            yield row, here not in (None, number) if sentence else row.after_gap
            number = here or number


def _join(rows: list[Row], sentence: str) -> Row:
    first, columns = rows[0], dict.fromkeys(name for row in rows for name in row.values)
    values = {name: [row.values.get(name) for row in rows] for name in columns}
    return Row(
        first.file, first.number, {**values, **({sentence: first.values[sentence]} if sentence else {})}
    )
