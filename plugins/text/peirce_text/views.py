"""Texts as `peirce look` shows them: the tokens of one, or of a pair, in any model that reads tokens alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from peirce.errors import InputError, TaskError
from peirce.files import parse_integer
from peirce.model import ASSETS, Model
from peirce_show import Observe, View, Viewer
from peirce_text.tabular.predictor import PIPELINES, TorchRunner
from peirce_text.text.tokenizer import FILE, Tokenizer
from peirce_text.text.writer import DECODER, IDS, PREFIX

TYPES = "token_type_ids"
_ONE = {
    "words": "word", "classes": "class", "tags": "tag", "score": "number", "probabilities": "probability",
}  # fmt: skip
"""What each row of the answers holds, by the field of the pipeline that has all of them."""
MOST_ANSWERS = 64
"""The most classes, or words, whose predictions are shown."""


@frozen(eq=False)
class ReadTexts:
    """Texts as a model reads them.

    Args:
        inputs: int64 arrays by name, of one row.
        tokens: the texts of the row's tokens.
        written: those of a decoder's.
        notes: what a reader must know of them.
    """

    inputs: Mapping[str, NDArray[np.int64]]
    tokens: tuple[str, ...]
    written: tuple[str, ...]
    notes: tuple[str, ...]


class Texts(Viewer):
    """A text, or two of a pair, in tokens; of a model without a tokenizer, token ids with spaces between them."""

    @classmethod
    def shows(cls, model: Model, assets: Collection[str]) -> bool:
        """Whether a model reads tokens alone, and has a tokenizer or no assets."""
        required = {spec.name for spec in model.signature.inputs if spec.required}
        return (FILE in assets or not assets) and IDS in required <= {IDS, DECODER, PREFIX}

    def view(self, texts: Sequence[str], observe: Observe) -> View:
        """What the model computes between the tokens."""
        read = self.read(texts)
        matrices = observe(self.model, read.inputs, read.tokens, read.written)
        return View(
            name=self.model.spec.name, text="\n".join(texts), matrices=matrices, notes=read.notes,
            answers=self.answers(texts),
        )  # fmt: skip

    def answers(self, texts: Sequence[str]) -> tuple[Mapping[str, str | float], ...]:
        """What the model predicts as `peirce run --ask` has it, of many classes the first; empty where it predicts
        nothing of such texts."""
        assets = [each.name for each in (self.folder / ASSETS).glob("*")]
        for kind in PIPELINES.values():
            names = [each.name for each in kind.question]
            given = [texts[0].split()] if names == ["words"] else texts
            if not kind.answers(self.model.signature, assets, False) or len(texts) > len(names):
                continue
            found: list[Mapping[str, Any]] = []
            with suppress(InputError):  # which says that it reads pairs alone, or none
                kind(self.folder, TorchRunner(self.model)).ask(
                    dict(zip(names, given, strict=False)), found.append
                )
            for answer in found:
                columns = {"words": given[0], **answer} if names == ["words"] else answer
                lists = {_ONE[name]: values for name, values in columns.items() if name in _ONE}
                rows = zip(*(v if isinstance(v, list) else [v] for v in lists.values()), strict=True)
                return tuple(dict(zip(lists, row, strict=True)) for row in rows)[:MOST_ANSWERS]
        return ()

    def read(self, texts: Sequence[str]) -> ReadTexts:
        """Texts as the model reads them; the second one of a model with a decoder is what that has written.

        Raises:
            TaskError: there are no tokens, too many texts or tokens, or something that is not a token.
        """
        names = {spec.name for spec in self.model.signature.inputs}
        self._check(texts, names)
        rows = [self._row([text]) for text in texts] if DECODER in names else [self._row(texts)]
        (first, *written) = rows
        inputs = {IDS: [first.ids], TYPES: [first.types], PREFIX: [len(first.ids)]}
        if written:
            inputs[DECODER] = [written[0].ids]
        arrays = {name: np.array(value, np.int64) for name, value in inputs.items() if name in names}
        if TYPES in names and self.model.signature.input(TYPES).high == 1:  # of pairs too, as RoBERTa has it
            arrays[TYPES] = np.zeros_like(arrays[TYPES])
        for name in {IDS, DECODER} & names:
            length, dim = arrays[name].shape[1], self.model.signature.input(name).dims[1]
            most = self.model.signature.largest.get(str(dim))
            if most is not None and length > most:
                raise TaskError(
                    f"the text has {length} tokens, and the model reads at most {most}; give a part of it"
                )
        unknown = [word for row in rows for word in row.unknown]
        notes = (f"the tokenizer does not know {', '.join(map(repr, unknown))}",) if unknown else ()
        return ReadTexts(arrays, first.words, written[0].words if written else (), notes)

    def _check(self, texts: Sequence[str], names: Collection[str]) -> None:
        if len(texts) > 2:
            raise TaskError(f"{len(texts)} texts are given; give one, or two of a pair")
        if DECODER in names and len(texts) < 2:
            raise TaskError(f"{self.folder} has a decoder; give a second text, which it has written")
        if len(texts) == 2 and not {TYPES, DECODER} & {*names}:
            raise TaskError(f"{self.folder} has no token types to tell two texts apart; give one text")
        if not all(text.strip() for text in texts):
            raise TaskError("the text is empty; give one with words")

    def _row(self, texts: Sequence[str]) -> _Row:
        """The texts of one row in tokens."""
        tokenizer = self.tokenizer
        if tokenizer is not None:
            encoding = tokenizer.encode(*texts, length=_WHOLE)
            words = tuple(tokenizer.token(id) or str(id) for id in encoding.ids)
            places = zip(encoding.ids, encoding.sequence_ids, encoding.offsets, strict=True)
            unknown = tuple(
                texts[text][slice(*place)]
                for id, text, place in places
                if text is not None and id == tokenizer.unknown_id
            )
            return _Row(encoding.ids, encoding.types, words, unknown)
        words = tuple(word for text in texts for word in text.split())
        if wrong := [word for word in words if parse_integer(word) is None]:
            raise TaskError(
                f"{self.folder} has no tokenizer, so its texts are token ids with spaces between them, such as "
                f"'5 17 3'; {wrong[0]!r} is not one"
            )
        types = tuple(i for i, text in enumerate(texts) for _ in text.split())
        return _Row(tuple(map(int, words)), types, words, ())

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The model's; None for one without."""
        there = self.folder / ASSETS / FILE
        return Tokenizer.load(there) if there.is_file() else None


class _Row(NamedTuple):
    ids: tuple[int, ...]
    types: tuple[int, ...]
    words: tuple[str, ...]
    unknown: tuple[str, ...]


_WHOLE = 1_000_000
"""More tokens than any text has that is looked at, so that none is cut in silence."""
