"""Encodings as a batch of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from peirce.errors import TaskError
from torch import Tensor

from peirce_text.text.tokenizer import Encoding


def collate(rows: Sequence[Encoding], pad_id: int, length: int | None = None) -> dict[str, Tensor]:
    """A batch of encodings, padded at the end.

    Args:
        rows: the encodings.
        pad_id: what fills the shorter ones.
        length: how long every row becomes; as the longest if None.

    Returns:
        input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x], true where a token stands.

    Raises:
        TaskError: a row is longer than `length`.
    """
    longest = max(map(len, rows))
    length = longest if length is None else length
    if longest > length:
        raise TaskError(f"a row of {longest} tokens does not fit into {length}; encode it with that length")
    ids = torch.full((len(rows), length), pad_id, dtype=torch.int64)
    types, real = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row.ids)
        types[i, : len(row)] = torch.tensor(row.types)
        real[i, : len(row)] = True
    return {"input_ids": ids, "token_type_ids": types, "attention_mask": real}
