"""same_text: tokens attend to their own text alone."""

from __future__ import annotations

from typing import Any

from peirce.parts import Dims, ScopePosition, Tokens
from torch import Tensor


class SameText(ScopePosition):
    """x may attend to y if both have one token type: an encoder reads each text of a pair by itself."""

    name = "same_text"
    source = "siamese encoders (Conneau et al., 2017), as a scope"

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        """Token types must tell texts apart."""
        if dims.token_types < 2:
            return "texts are told apart by token types; set model.input.token_types to 2"
        return None

    def scope(self, tokens: Tokens) -> Tensor:
        """bool [b, x, y]."""
        return tokens.rows(tokens.types).unsqueeze(2) == tokens.types.unsqueeze(1)
