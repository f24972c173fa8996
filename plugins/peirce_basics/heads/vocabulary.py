"""Heads that score the vocabulary with the word embeddings: masked, causal and sequence-to-sequence modelling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from peirce.algebra import Norm
from peirce.parts import Dims, Encoded, Head, TensorSpec, Tokens, mean_cross_entropy
from torch import Tensor, nn

Affine = Literal["plain", "affine"]


class Vocabulary(Head):
    """The word embeddings as a linear classifier, with a bias for each token."""

    tied = True
    meaning: ClassVar[str]

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.bias = nn.Parameter(torch.zeros(dims.vocabulary))

    def outputs(self) -> tuple[TensorSpec, ...]:
        """A score for each token of the vocabulary, at each place."""
        dims = ("batch", "length", len(self.bias))
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning=self.meaning),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, d1] -> logits [b, x, v]; zero at padding."""
        logits = F.linear(self.hidden(encoded.unary), encoded.embeddings, self.bias)
        return {"logits": encoded.scope.zero_unary(logits)}

    def hidden(self, atoms: Tensor) -> Tensor:
        """What is classified: [b, x, d1] -> [b, x, d1]."""
        return atoms

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Mean cross-entropy where labels [b, x] are not -100; zero if none is."""
        return mean_cross_entropy(outputs["logits"], labels)


class CausalLanguageModel(Vocabulary):
    """The next token from the final unary atoms.

    In a causal or prefix scope it is the input's next token; in an encoder-decoder it is the target's.
    """

    name = "causal_lm"
    source = "FOLNet (Chen, 2023), Appendix A.5"
    needs = frozenset({"past"})
    labels = (
        "int64 [batch, length]: the token after each token; -100 where there is none, or it does not count."
    )
    meaning = "Scores of the vocabulary for the token after each one."


@frozen(kw_only=True)
class MlmOptions:
    """Whether the norm learns.

    Args:
        norm: `affine` scales and shifts what it standardises, as BERT's; `plain`, FOLNet's, has no parameters.
    """

    norm: Affine = field(default="plain", validator=validators.in_(get_args(Affine)))


class MaskedLanguageModel(Vocabulary):
    """A dense layer, gelu, a norm, and the word embeddings as decoder, with a bias of its own."""

    name = "mlm"
    source = "FOLNet (Chen, 2023), Appendix A.4; BERT (Devlin et al., 2018), Section 3.1"
    labels = "int64 [b, x]: the id that was masked; -100 where nothing is to be predicted"
    Options = MlmOptions
    meaning = "Scores of the vocabulary at each token."

    def __init__(self, options: MlmOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.dense = nn.Linear(dims.unary, dims.unary)
        self.norm = Norm(dims.unary, affine=options.norm == "affine")

    def hidden(self, atoms: Tensor) -> Tensor:
        """The transformed atoms."""
        return self.norm(F.gelu(self.dense(atoms)))
