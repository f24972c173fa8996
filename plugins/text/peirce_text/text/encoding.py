"""Texts and pairs of texts as token ids, and rows of ids as batches, padded at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from peirce_text.progress import with_progress
from peirce_text.text.tokenizer import Shorten, Tokenizer, fit_lengths

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 2000
"""Texts that are tokenised at once."""

Ints = NDArray[np.int64]


def pad(rows: Sequence[Any], filler: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Rows of integers as one array, int64 [b, x], and where it holds a row, bool [b, x].

    Args:
        rows: the rows.
        filler: what fills those that are shorter than the longest.
    """
    array = np.full((len(rows), max(map(len, rows))), filler, np.int64)
    real = np.zeros(array.shape, np.bool_)
    for i, row in enumerate(rows):
        array[i, : len(row)], real[i, : len(row)] = row, True
    return array, real


def probabilities(scores: NDArray[Any]) -> list[float]:
    """The softmax of scores [n] that compete; of a single one, which competes with none, there is none."""
    return softmax(scores).tolist() if len(scores) > 1 else []


def softmax(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities along the last axis."""
    powers = np.exp(scores.astype(np.float64) - scores.max(-1, keepdims=True, initial=-np.inf))
    shares: NDArray[np.float64] = powers / powers.sum(-1, keepdims=True)
    return shares


def tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Arrays as tensors that share their memory."""
    import torch

    return {name: torch.from_numpy(array) for name, array in arrays.items()}


@frozen(eq=False)
class EncodedTexts:
    """Rows such as `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`, as their tokenizer frames them.

    They are held in a few arrays, since there may be hundreds of thousands.

    Args:
        ids: int32, the ids of all rows one after the other.
        starts: int64 [n + 1], where each row begins.
        firsts: int64 [n], how many tokens of a row have token type 0.
        pad_id: what fills a row that is shorter than others of its batch.
        cut: how many rows lost tokens.
        columns: what else a batch has of its rows, [n, ...], such as `labels`.
        notes: what else is known of each row, and no model reads.
        inputs: floats beside `ids`, what further inputs of the model have of each token; NaN where they have nothing.
    """

    ids: NDArray[np.integer[Any]]
    starts: Ints
    firsts: Ints
    pad_id: int
    cut: int = 0
    columns: Mapping[str, NDArray[Any]] = field(factory=dict)
    notes: Sequence[Any] = ()
    inputs: Mapping[str, NDArray[Any]] = field(factory=dict)

    @classmethod
    def of(cls, rows: Sequence[Any], firsts: Sequence[int], pad_id: int, cut: int = 0) -> EncodedTexts:
        """Rows of ids, the first tokens of each with token type 0."""
        return cls(
            ids=np.concatenate([np.asarray(row, np.int32) for row in rows] or [np.zeros(0, np.int32)]),
            starts=np.cumsum([0, *map(len, rows)]).astype(np.int64),
            firsts=np.array(firsts, np.int64),
            pad_id=pad_id,
            cut=cut,
        )

    def __len__(self) -> int:
        return len(self.firsts)

    @property
    def lengths(self) -> Ints:
        """The number of tokens of each row."""
        return np.diff(self.starts)

    @property
    def labels(self) -> NDArray[Any]:
        """The label of each row."""
        return self.columns["labels"]

    def row(self, number: int) -> NDArray[np.integer[Any]]:
        """The ids of one row."""
        return self.ids[self.starts[number] : self.starts[number + 1]]

    def labelled(
        self, labels: NDArray[Any] | None, notes: Sequence[Any] = (), **columns: NDArray[Any]
    ) -> EncodedTexts:
        """The rows with labels, if there are any, and with what else is known of them."""
        given = {} if labels is None else {"labels": labels}
        return evolve(self, columns={**columns, **given}, notes=notes)

    def batch(self, rows: Ints) -> dict[str, Tensor]:
        """Some rows, as long as the longest of them.

        Returns:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; and `columns`.
        """
        return tensors(self.arrays(rows))

    def arrays(self, rows: Ints) -> dict[str, NDArray[Any]]:
        """What `batch` gives, in numpy."""
        lengths = self.lengths[rows]
        place = np.arange(lengths.max())
        real = place < lengths[:, None]
        at = np.where(real, self.starts[rows][:, None] + place, 0)
        arrays = {
            "input_ids": np.where(real, self.ids[at], self.pad_id).astype(np.int64),
            "token_type_ids": (real & (place >= self.firsts[rows][:, None])).astype(np.int64),
            "attention_mask": real,
        }
        for name, values in self.inputs.items():
            arrays[name] = np.where(real, values[at], np.nan)
        return {**arrays, **{name: column[rows] for name, column in self.columns.items()}}


def encode(
    tokenizer: Tokenizer,
    texts: Sequence[Sequence[str]],
    length: int,
    what: str = "texts",
    shorten: Shorten = "longest",
) -> EncodedTexts:
    """Tokenise texts, or pairs of them.

    Args:
        tokenizer: the tokenizer.
        texts: the first text of each row, and the second where rows are pairs.
        length: the most tokens of a row.
        what: what the rows are called in the progress bar.
        shorten: which text of a pair loses its end.
    """
    rows: list[NDArray[np.int32]] = []
    firsts: list[int] = []
    cut = 0
    room, typed = tokenizer.room(length, len(texts)), len(texts) > 1 and tokenizer.second_type == 1
    chunks = range(0, len(texts[0]), CHUNK)
    for start in with_progress(chunks, f"tokenising {what}", len(chunks), 3):
        pieces = [tokenizer.pieces_of(part[start : start + CHUNK]) for part in texts]
        for row in zip(*pieces, strict=True):
            kept = fit_lengths([len(ids) for ids in row], room, shorten)
            cut += sum(kept) < sum(map(len, row))
            ids = [tokenizer.cls_id, *row[0][: kept[0]]]
            for ids_of_text, keep in zip(row[1:], kept[1:], strict=True):
                first = len(ids) + len(tokenizer.between)
                ids += [*tokenizer.between, *ids_of_text[:keep]]
            rows.append(np.array([*ids, tokenizer.sep_id], np.int32))
            firsts.append(first if typed else len(rows[-1]))
    return EncodedTexts.of(rows, firsts, tokenizer.pad_id, cut)
