"""Sources and targets as token ids, and a batch of them as each kind of model reads it.

A model with two stacks reads `[CLS] source [SEP]` and writes after `[CLS]`. One with a causal or prefix scope reads
both in one row, `[CLS] source [SEP] target [SEP]`, and what it says of the source does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from peirce.parts import IGNORED
from torch import Tensor

from peirce_text.text.encoding import Ints, padded, tensors
from peirce_text.text.tokenizer import Tokenizer


@frozen
class Pair:
    """A source and its target as token ids, each with its special tokens: `[CLS] source [SEP]`, `target [SEP]`."""

    source: tuple[int, ...]
    target: tuple[int, ...]


def encoded(tokenizer: Tokenizer, source: str, target: str, lengths: tuple[int, int]) -> tuple[Pair, bool]:
    """A pair as ids, at most as long as said, special tokens included; and whether anything was cut off its ends."""
    whole = (tokenizer.pieces(source), tokenizer.pieces(target))
    room = (lengths[0] - 2, lengths[1] - 1)
    kept = tuple(ids[:most] for ids, most in zip(whole, room, strict=True))
    pair = Pair((tokenizer.cls_id, *kept[0], tokenizer.sep_id), (*kept[1], tokenizer.sep_id))
    return pair, kept != whole


@frozen(eq=False)
class EncodedPairs:
    """The pairs of a split.

    Args:
        pairs: the pairs.
        pad_id: what fills shorter rows.
        begin_id: what a target begins after in the model with two stacks.
        cut: how many pairs lost tokens.
    """

    pairs: Sequence[Pair]
    pad_id: int
    begin_id: int
    cut: int = 0

    @property
    def lengths(self) -> Ints:
        """The tokens of each pair."""
        return np.array([len(pair.source) + len(pair.target) for pair in self.pairs], np.int64)

    def batch(self, rows: Ints) -> dict[str, Tensor]:
        """Some pairs as both kinds of models read them.

        Returns:
            source, source_mask [b, x], written, written_mask and written_labels [b, y]: for two stacks. joined,
            joined_mask and joined_labels [b, z], and prefix [b], the length of each source: for one. Ids and labels are
            int64, with -100 where nothing is to be written; masks are true at tokens.
        """
        pairs = [self.pairs[row] for row in rows]
        read = {
            "source": [pair.source for pair in pairs],
            "written": [(self.begin_id, *pair.target[:-1]) for pair in pairs],
            "joined": [pair.source + pair.target for pair in pairs],
        }
        labels = {
            "written_labels": [pair.target for pair in pairs],
            "joined_labels": [
                (*(IGNORED,) * (len(pair.source) - 1), *pair.target, IGNORED) for pair in pairs
            ],
        }
        arrays: dict[str, NDArray[Any]] = {n: padded(own, IGNORED)[0] for n, own in labels.items()}
        for name, own in read.items():
            arrays[name], arrays[f"{name}_mask"] = padded(own, self.pad_id)
        return tensors({**arrays, "prefix": np.array([len(pair.source) for pair in pairs])})
