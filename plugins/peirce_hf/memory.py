"""What a model keeps of the tokens before while it generates, where other models have a cache of keys and values."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


class PeirceMemory:
    """A memory of `peirce.model.Model.advance`, as `generate` handles it.

    Args:
        tensors: the memory, flat tensors [batch, ...] by name.
        length: how many tokens it is of.
    """

    is_compileable = False

    def __init__(self, tensors: Mapping[str, Tensor], length: int) -> None:
        self.tensors = dict(tensors)
        self.length = length

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many tokens it is of; each layer remembers the same ones."""
        return self.length

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Make the rows those that a beam search goes on with, int64 [batch]."""
        self.tensors = {name: value.index_select(0, beam_idx) for name, value in self.tensors.items()}
