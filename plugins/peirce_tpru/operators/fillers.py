"""The fillers of a pass, handed on for a hook to read: which roles each token binds."""

from __future__ import annotations

from torch import Tensor, nn


class Fillers(nn.Module):
    """Hands on the fillers of each step. It has no parameters and computes nothing."""

    def forward(self, fillers: Tensor) -> Tensor:
        """[b, N], the shares of the roles at one token, to the same tensor."""
        return fillers

    @property
    def is_read(self) -> bool:
        """Whether a hook reads the fillers in this pass, which then goes step by step."""
        return bool(self._forward_hooks)
