"""Causal and sequence-to-sequence language modelling: which token comes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from peirce.parts import Dims, Encoded, Head, TensorSpec, Tokens, mean_cross_entropy
from torch import Tensor, nn


class CausalLanguageModel(Head):
    """The next token: the word embeddings as a linear classifier of the final unary atoms, with a bias for each token.

    In a causal or prefix scope it is the input's next token; in an encoder-decoder it is the target's.
    """

    name = "causal_lm"
    source = "FOLNet (Chen, 2023), Appendix A.5"
    needs = frozenset({"past"})
    tied = True
    labels = (
        "int64 [batch, length]: the token after each token; -100 where there is none, or it does not count."
    )

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.vocabulary = dims.vocabulary
        self.bias = nn.Parameter(torch.zeros(dims.vocabulary))

    def outputs(self) -> tuple[TensorSpec, ...]:
        """A score for each token of the vocabulary, to follow each token."""
        dims = ("batch", "length", self.vocabulary)
        meaning = "Scores of the vocabulary for the token after each one."
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning=meaning),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, d1] -> logits [b, x, v]; zero at padding."""
        logits = F.linear(encoded.unary, encoded.embeddings, self.bias)
        return {"logits": encoded.scope.zero_unary(logits)}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Mean cross-entropy of the tokens [b, x] that follow, where they are not -100; zero if none counts."""
        return mean_cross_entropy(outputs["logits"], labels)
