"""Masked language modelling: which token stood where a mask stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from peirce.algebra import Norm
from peirce.parts import Dims, Encoded, Head, TensorSpec, Tokens, mean_cross_entropy
from torch import Tensor, nn

Affine = Literal["plain", "affine"]
NORMS: tuple[Affine, ...] = get_args(Affine)


@frozen(kw_only=True)
class MlmOptions:
    """Whether the norm learns.

    Args:
        norm: `affine` scales and shifts what it standardises, as BERT's; `plain`, FOLNet's, has no parameters.
    """

    norm: Affine = field(default="plain", validator=validators.in_(NORMS))


class MaskedLanguageModel(Head):
    """A dense layer, gelu, a norm, and the word embeddings as decoder, with a bias of its own."""

    name = "mlm"
    source = "FOLNet (Chen, 2023), Appendix A.4; BERT (Devlin et al., 2018), Section 3.1"
    labels = "int64 [b, x]: the id that was masked; -100 where nothing is to be predicted"
    tied = True
    Options = MlmOptions

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.vocabulary = dims.vocabulary
        self.dense = nn.Linear(dims.unary, dims.unary)
        self.norm = Norm(dims.unary, affine=isinstance(options, MlmOptions) and options.norm == "affine")
        self.bias = nn.Parameter(torch.zeros(dims.vocabulary))

    def outputs(self) -> tuple[TensorSpec, ...]:
        """A score for each token of the vocabulary, at each place."""
        dims = ("batch", "length", self.vocabulary)
        return (
            TensorSpec(
                name="logits", dtype="float", dims=dims, meaning="Scores of the vocabulary at each token."
            ),
        )

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, d1] -> logits [b, x, v]; zero at padding."""
        hidden = self.norm(F.gelu(self.dense(encoded.unary)))
        return {"logits": encoded.scope.zero_unary(F.linear(hidden, encoded.embeddings, self.bias))}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Cross-entropy where labels [b, x] are not -100; zero if none is."""
        return mean_cross_entropy(outputs["logits"], labels)
