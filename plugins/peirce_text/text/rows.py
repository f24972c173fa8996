"""Rows of ids as arrays and tensors, padded at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from peirce.errors import TaskError

if TYPE_CHECKING:
    from torch import Tensor


class IdsWithTypes(Protocol):
    """A row of token ids, each with its token type."""

    @property
    def ids(self) -> Any:
        """The token ids."""

    @property
    def types(self) -> Any:
        """The token types."""


def padded(
    rows: Sequence[Any], filler: int, length: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Rows of integers as one array.

    Args:
        rows: the rows.
        filler: what fills the shorter ones.
        length: how long every row becomes; as the longest if None.

    Returns:
        The array, int64 [b, x], and where it holds a row, bool [b, x].

    Raises:
        TaskError: a row is longer than `length`.
    """
    longest = max(map(len, rows))
    length = longest if length is None else length
    if longest > length:
        raise TaskError(f"a row of {longest} tokens does not fit into {length}; encode it with that length")
    made = np.full((len(rows), length), filler, np.int64)
    real = np.zeros(made.shape, np.bool_)
    for i, row in enumerate(rows):
        made[i, : len(row)], real[i, : len(row)] = row, True
    return made, real


def collate(rows: Sequence[IdsWithTypes], pad_id: int, length: int | None = None) -> dict[str, Tensor]:
    """A batch of rows, such as encodings.

    Args:
        rows: the rows.
        pad_id: what fills the shorter ones.
        length: how long every row becomes; as the longest if None.

    Returns:
        input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x], true where a token stands.

    Raises:
        TaskError: a row is longer than `length`.
    """
    import torch

    ids, real = padded([row.ids for row in rows], pad_id, length)
    types, _ = padded([row.types for row in rows], 0, length)
    arrays = {"input_ids": ids, "token_type_ids": types, "attention_mask": real}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
