"""The contract of augmenters, which enrich the embeddings of tokens."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from peirce.parts.module import ModulePart
from peirce.parts.tokens import Tokens


class Augmenter(ModulePart):
    """Changes the embeddings of the tokens before positions and token types are added."""

    @abstractmethod
    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        """[b, x, d1] -> [b, x, d1]."""

    def words(self, embeddings: Tensor) -> Tensor:
        """The word embeddings that heads tie to, [v, d1] -> [v, d1], where a token's id alone decides the change."""
        return embeddings
