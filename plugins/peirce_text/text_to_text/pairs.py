"""Sources and targets as token ids, and a batch of them as each kind of model reads it.

A model with two stacks reads `[CLS] source [SEP]` and writes after `[CLS]`. One with a causal or prefix scope reads
both in one row, `[CLS] source [SEP] target [SEP]`, and what it says of the source does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from attrs import frozen
from peirce.parts import IGNORED
from torch import Tensor

from peirce_text.tables import Row, read_rows, read_splits
from peirce_text.text.rows import padded
from peirce_text.text.tokenizer import Tokenizer


@frozen
class Pair:
    """A source and its target as token ids, each with its special tokens: `[CLS] source [SEP]`, `target [SEP]`."""

    source: tuple[int, ...]
    target: tuple[int, ...]


def read_files(files: Mapping[str, str], columns: tuple[str, str]) -> dict[str, list[tuple[str, str]]]:
    """The texts of each split's file, source and target."""
    return {split: _texts(read_rows(Path(file), columns), columns) for split, file in files.items() if file}


def read_hub(name: str, columns: tuple[str, str]) -> dict[str, list[tuple[str, str]]]:
    """The same of a data set of the library `datasets`."""
    return {split: _texts(rows, columns) for split, rows in read_splits(name, ("train",)).items()}


def _texts(rows: Iterable[Row], columns: tuple[str, str]) -> list[tuple[str, str]]:
    source, target = columns
    return [(row.text(source).strip(), row.text(target).strip()) for row in rows]


def encoded(tokenizer: Tokenizer, source: str, target: str, lengths: tuple[int, int]) -> tuple[Pair, bool]:
    """A pair as ids, at most as long as said, special tokens included; and whether anything was cut off its ends."""
    whole = (tokenizer.pieces(source), tokenizer.pieces(target))
    room = (lengths[0] - 2, lengths[1] - 1)
    kept = tuple(ids[:most] for ids, most in zip(whole, room, strict=True))
    pair = Pair((tokenizer.cls_id, *kept[0], tokenizer.sep_id), (*kept[1], tokenizer.sep_id))
    return pair, kept != whole


def batch_of(pairs: Sequence[Pair], pad_id: int, begin_id: int) -> dict[str, Tensor]:
    """Pairs as both kinds of models read them.

    Args:
        pairs: the rows.
        pad_id: what fills shorter ones.
        begin_id: what a target begins after in the model with two stacks.

    Returns:
        source, source_mask [b, x], written, written_mask and written_labels [b, y]: for two stacks. joined,
        joined_mask and joined_labels [b, z], and prefix [b], the length of each source: for one. Ids and labels are
        int64, with -100 where nothing is to be written; masks are true at tokens.
    """
    source, source_mask = _padded([p.source for p in pairs], pad_id)
    written, written_mask = _padded([(begin_id, *p.target[:-1]) for p in pairs], pad_id)
    joined, joined_mask = _padded([p.source + p.target for p in pairs], pad_id)
    ignored = [(IGNORED,) * (len(p.source) - 1) for p in pairs]
    return {
        "source": source,
        "source_mask": source_mask,
        "written": written,
        "written_mask": written_mask,
        "written_labels": _padded([p.target for p in pairs], IGNORED)[0],
        "joined": joined,
        "joined_mask": joined_mask,
        "joined_labels": _padded(
            [(*none, *p.target, IGNORED) for none, p in zip(ignored, pairs, strict=True)], IGNORED
        )[0],
        "prefix": torch.tensor([len(p.source) for p in pairs]),
    }


def _padded(rows: Sequence[tuple[int, ...]], filler: int) -> tuple[Tensor, Tensor]:
    ids, real = padded(rows, filler)
    return torch.from_numpy(ids), torch.from_numpy(real)
