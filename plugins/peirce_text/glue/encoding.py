"""Texts and pairs of texts as token ids, held in a few arrays, since there may be hundreds of thousands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from attrs import frozen
from numpy.typing import NDArray
from torch import Tensor

from peirce_text.tasks import shown
from peirce_text.text.tokenizer import Tokenizer, shortened

CHUNK = 2000
"""Texts that are tokenised at once."""

Ints = NDArray[np.int64]


@frozen(eq=False)
class EncodedTexts:
    """Rows `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`.

    Args:
        ids: int32, the ids of all rows one after the other.
        starts: int64 [n + 1], where each row begins.
        firsts: int64 [n], how many tokens of a row have token type 0.
        pad_id: what fills a row that is shorter than others of its batch.
        cut: how many rows lost their end.
    """

    ids: NDArray[np.int32]
    starts: Ints
    firsts: Ints
    pad_id: int
    cut: int

    def __len__(self) -> int:
        return len(self.firsts)

    @property
    def lengths(self) -> Ints:
        """The number of tokens of each row."""
        return np.diff(self.starts)

    def batch(self, rows: Ints) -> dict[str, Tensor]:
        """Some rows, as long as the longest of them.

        Returns:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x].
        """
        lengths = self.lengths[rows]
        place = np.arange(lengths.max())
        real = place < lengths[:, None]
        at = np.where(real, self.starts[rows][:, None] + place, 0)
        ids = np.where(real, self.ids[at], self.pad_id).astype(np.int64)
        types = (real & (place >= self.firsts[rows][:, None])).astype(np.int64)
        return {
            "input_ids": torch.from_numpy(ids),
            "token_type_ids": torch.from_numpy(types),
            "attention_mask": torch.from_numpy(real),
        }


def encode(
    tokenizer: Tokenizer, texts: Sequence[Sequence[str]], length: int, what: str = "texts"
) -> EncodedTexts:
    """Tokenise texts, or pairs of them.

    Args:
        tokenizer: the tokenizer.
        texts: the first text of each row, and the second where rows are pairs.
        length: the most tokens of a row; of a pair, the longer text loses its end.
        what: what the rows are called in the progress bar.
    """
    rows: list[NDArray[np.int32]] = []
    firsts: list[int] = []
    cut, count = 0, len(texts[0])
    chunks = range(0, count, CHUNK)
    for start in shown(chunks, f"tokenising {what}", len(chunks), 3):
        pieces = [tokenizer.pieces_of(part[start : start + CHUNK]) for part in texts]
        for row in zip(*pieces, strict=True):
            kept = shortened([len(ids) for ids in row], length - len(row) - 1)
            cut += sum(kept) < sum(map(len, row))
            ids = [tokenizer.cls_id]
            for own, keep in zip(row, kept, strict=True):
                ids += own[:keep]
                ids.append(tokenizer.sep_id)
            rows.append(np.array(ids, dtype=np.int32))
            firsts.append(kept[0] + 2)
    return EncodedTexts(
        ids=np.concatenate(rows),
        starts=np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64),
        firsts=np.array(firsts, dtype=np.int64),
        pad_id=tokenizer.pad_id,
        cut=cut,
    )
