"""Further inputs of a model from columns of a table: a number for each text, or one for each word of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from attrs import evolve, frozen

from peirce.errors import TaskError, unknown
from peirce.parts import Signature
from peirce_text.reading import Row
from peirce_text.tabular.columns import number_in
from peirce_text.tabular.lists import items
from peirce_text.text.encoding import EncodedTexts, Ints
from peirce_text.text.words import EncodedWords

Numbers = tuple[float, ...]
"""What a column holds in a row: one number, or one for each word."""
OWN = ("input_ids", "attention_mask", "token_type_ids", "labels", "weights")
"""What tasks on tables give themselves."""
_ROLE = "inputs."
"""What the name of an input follows as the role of a column."""
_FLOAT32 = 1 << 24
"""Whole numbers below it are exact in float32."""
EncodedT = TypeVar("EncodedT", bound=EncodedTexts)


@frozen
class InputColumns:
    """The column of each further input.

    Args:
        columns: by the name of the input.
    """

    columns: Mapping[str, str]

    @classmethod
    def of(cls, roles: Mapping[str, str]) -> InputColumns:
        """Those among the columns that a model was trained on, by role."""
        return cls({role[len(_ROLE) :]: name for role, name in roles.items() if role.startswith(_ROLE)})

    def roles(self, first: Row, predicted: str) -> dict[str, str]:
        """The columns by role, after a look at the first row.

        Raises:
            TaskError: there is no such column, it is the one that is predicted, or the task gives the input itself.
        """
        for name, column in self.columns.items():
            first.value(column)
            if name in OWN or column == predicted:
                why = "the task gives it" if name in OWN else f"column {column!r} is what is predicted"
                raise TaskError(f"task.inputs.{name}: {why}; name a further input, and a column for it")
        return {_ROLE + name: column for name, column in self.columns.items()}

    def of_row(self, row: Row, words: int | None = None) -> tuple[Numbers, ...]:
        """The numbers of each input in a row.

        Args:
            row: the row.
            words: the words of its text; None where it is not divided into words.

        Raises:
            TaskError: a column is missing, or holds something else, or neither one number nor one for each word.
        """
        return tuple(
            _numbers(row.value(name), f"{row.where}: column {name!r}", words)
            for name in self.columns.values()
        )

    def of_texts(self, rows: Sequence[tuple[Numbers, ...]], counts: Ints) -> frozenset[str]:
        """The inputs of which every text has one number, though there are texts of more words, `counts` of each."""
        single = {name: all(len(row[i]) == 1 for row in rows) for i, name in enumerate(self.columns)}
        return frozenset(name for name, each in single.items() if each and counts.max(initial=0) > 1)

    def feed(
        self, encoded: EncodedT, rows: Sequence[tuple[Numbers, ...]], of_texts: Collection[str] = ()
    ) -> EncodedT:
        """Encoded texts with the inputs as floats: of texts [n], of words beside the ids.

        Args:
            encoded: the texts.
            rows: the numbers of each, as `of_row` gives them.
            of_texts: the inputs that have one number for each text; the others have one for each word.

        Raises:
            TaskError: a text has one number where others have one for each word, or the other way round.
        """
        for i, (name, column) in enumerate(self.columns.items()):
            flat = np.array([number for row in rows for number in row[i]], np.float64)
            flat = flat.astype(np.float32) if np.abs(flat).max(initial=0) < _FLOAT32 else flat
            if not isinstance(encoded, EncodedWords):
                encoded = evolve(encoded, columns={**encoded.columns, name: flat})
                continue
            whole = name in of_texts
            sizes = np.array([len(row[i]) for row in rows])
            if (sizes != (1 if whole else encoded.counts)).any():
                raise TaskError(
                    f"column {column!r} holds one number for some texts and one for each word of others; give "
                    f"{'every text one' if whole else 'every word one'}, as the first rows of training have it"
                )
            if whole:
                encoded = evolve(encoded, columns={**encoded.columns, name: flat[encoded.text_of_row()]})
            else:
                encoded = evolve(encoded, inputs={**encoded.inputs, name: encoded.by_token(flat)})
        return encoded

    def check(self, signature: Signature, encoded: Any, where: object) -> None:
        """Refuse numbers that the model does not take.

        Raises:
            TaskError: it has no such input, or one of other dims, of another dtype or of fewer values.
        """
        known = {spec.name: spec for spec in signature.inputs if spec.name not in OWN}
        for name, column in self.columns.items():
            if name not in known:
                raise TaskError(f"task.inputs.{name}: {unknown('further input', name, known)}")
            spec, of_text = known[name], name in encoded.columns
            if spec.dims != (("batch",) if of_text else ("batch", "length")):
                raise TaskError(
                    f"{where}: column {column!r} holds a number for each {'text' if of_text else 'word'}, but the "
                    f"input {name!r} is [{', '.join(map(str, spec.dims))}]; a column gives [batch], a number for each "
                    "text, or in the task tag [batch, length], a list with a number for each word"
                )
            values = encoded.columns[name] if of_text else encoded.inputs[name]
            high = 2 if spec.dtype == "bool" else spec.high
            low, end = (-np.inf, np.inf) if high is None else (0, high)
            wrong = values[(values % 1 > 0) | (values < low) | (values >= end)]  # never NaN
            if spec.dtype != "float" and len(wrong):
                bounds = "" if high is None else f" from 0 to {high - 1}"
                raise TaskError(
                    f"{where}: column {column!r} holds {wrong[0]:.12g}, and the input {name!r} takes whole numbers"
                    f"{bounds}; mend the column, or name another"
                )


def _numbers(value: Any, where: str, words: int | None) -> Numbers:
    """The numbers in a cell of a table."""
    listed = [value] if words is None or isinstance(value, int | float) else items(value, where)
    found = [number for each in listed if (number := number_in(each)) is not None]
    if len(found) < len(listed) or not found:
        raise TaskError(
            f"{where} holds {value!r:.60}, and must hold a number{' for each word' if words else ''}"
        )
    if len(found) not in (1, words):
        raise TaskError(
            f"{where} has {len(found)} numbers for {words} words; give every word one, or the text one"
        )
    return tuple(found)
