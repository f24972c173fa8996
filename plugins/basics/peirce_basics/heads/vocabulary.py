"""Heads that score the vocabulary with the word embeddings: masked, causal and sequence-to-sequence modelling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import NORM_EPS, Norm
from peirce.parts import (
    Dims,
    Encoded,
    Head,
    PlainMap,
    PlainScope,
    TensorSpec,
    Tokens,
    mean_cross_entropy,
    plain_cross_entropy,
    plain_gelu,
    plain_linear,
    plain_relu,
    plain_sigmoid,
)

Affine = Literal["plain", "affine"]
Activation = Literal["gelu", "gelu_tanh", "relu", "silu"]
_ACTIVATIONS: Mapping[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


@frozen(kw_only=True)
class VocabularyOptions:
    """What scores the vocabulary.

    Args:
        tied: whether the word embeddings do; otherwise a matrix of the head's own, `decoder`.
        bias: whether there is a bias for each token.
        cap: scores s become c tanh(s / c), as in Gemma 2; 0 leaves them.
    """

    tied: bool = True
    bias: bool = True
    cap: float = field(default=0.0, validator=validators.ge(0))


class Vocabulary(Head):
    """The word embeddings, or a matrix of its own, as a linear classifier, with a bias for each token."""

    tied = True
    Options: ClassVar[type] = VocabularyOptions
    meaning: ClassVar[str]

    def __init__(self, options: Any, dims: Dims, width: int = 0) -> None:
        super().__init__(options, dims)
        self.vocabulary = dims.vocabulary
        self.decoder = None if options.tied else nn.Linear(width or dims.unary, dims.vocabulary, bias=False)
        self.bias = nn.Parameter(torch.zeros(dims.vocabulary)) if options.bias else None
        self.cap = options.cap

    def outputs(self) -> tuple[TensorSpec, ...]:
        """A score for each token of the vocabulary, at each place."""
        dims = ("batch", "length", self.vocabulary)
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning=self.meaning),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, d1] -> logits [b, x, v]; zero at padding."""
        words = encoded.embeddings if self.decoder is None else self.decoder.weight
        logits = F.linear(self.hidden(encoded.unary), words, self.bias)
        if self.cap:
            logits = self.cap * (logits / self.cap).tanh()
        return {"logits": encoded.scope.zero_unary(logits)}

    def hidden(self, atoms: Tensor) -> Tensor:
        """What is classified: [b, x, d1] -> [b, x, d1]."""
        return atoms

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Mean cross-entropy where labels [b, x] are not -100; zero if all are."""
        return mean_cross_entropy(outputs["logits"], labels)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Token by token: the products with the words."""
        words = given["embeddings"] if self.options.tied else parameters["decoder.weight"]
        bias = parameters["bias"] if self.options.bias else 0.0
        atoms = self.plain_hidden(given["unary"], parameters, dims)
        logits, cap = np.asarray(atoms) @ np.asarray(words).T + bias, self.options.cap
        return {"logits": cap * np.tanh(logits / cap) if cap else logits}

    def plain_hidden(self, atoms: Any, parameters: Mapping[str, Any], dims: Dims) -> Any:
        """What is classified, in plain numbers."""
        return atoms

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """The cross-entropy, token by token."""
        return plain_cross_entropy(outputs["logits"], labels)


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

    @classmethod
    def check(cls, options: VocabularyOptions, dims: Dims, scope: str) -> str | None:
        """Words score atoms of their own width."""
        if options.tied and dims.embedding != dims.unary:
            return (
                f"it is tied to words of {dims.embedding} channels, and the atoms have {dims.unary}; set tied = false, "
                "or make both alike"
            )
        return None


@frozen(kw_only=True)
class MlmOptions(VocabularyOptions):
    """What scores the vocabulary, and what comes before.

    Args:
        tied: whether the word embeddings score; otherwise a matrix of the head's own, `decoder`.
        bias: whether there is a bias for each token.
        cap: scores s become c tanh(s / c); 0 leaves them.
        norm: `affine` scales and shifts what it standardises, as BERT's; `plain`, FOLNet's, has no parameters.
        activation: of the dense layer.
        epsilon: added to the variance by the norm.
        dense_bias: whether the dense layer has a bias.
        norm_bias: whether an affine norm has a bias.
    """

    norm: Affine = field(default="plain", validator=validators.in_(get_args(Affine)))
    activation: Activation = field(default="gelu", validator=validators.in_(get_args(Activation)))
    epsilon: float = field(default=NORM_EPS, validator=validators.gt(0))
    dense_bias: bool = True
    norm_bias: bool = True


class MaskedLanguageModel(Vocabulary):
    """A dense layer, gelu or another activation, a norm, and the word embeddings as decoder, with a bias of its own."""

    name = "mlm"
    source = "FOLNet (Chen, 2023), Appendix A.4; BERT (Devlin et al., 2018), Section 3.1"
    labels = "int64 [b, x]: the id that was masked; -100 where nothing is to be predicted"
    Options = MlmOptions
    meaning = "Scores of the vocabulary at each token."

    def __init__(self, options: MlmOptions, dims: Dims) -> None:
        super().__init__(options, dims, dims.embedding)
        width = dims.embedding
        self.dense = nn.Linear(dims.unary, width, bias=options.dense_bias)
        self.activation = _ACTIVATIONS[options.activation]
        affine = options.norm == "affine"
        self.norm = Norm(width, affine=affine, bias=options.norm_bias, epsilon=options.epsilon)

    def hidden(self, atoms: Tensor) -> Tensor:
        """The transformed atoms."""
        return self.norm(self.activation(self.dense(atoms)))

    def plain_hidden(self, atoms: Any, parameters: Mapping[str, Any], dims: Dims) -> Any:
        """The dense layer, the activation and the norm."""
        width, bias = dims.embedding, self.options.dense_bias
        hidden, kind = plain_linear(atoms, parameters, "dense", width, bias=bias), self.options.activation
        if kind in ("gelu", "gelu_tanh"):
            hidden = plain_gelu(hidden, tanh=kind == "gelu_tanh")
        else:
            hidden = plain_relu(hidden) if kind == "relu" else hidden * plain_sigmoid(hidden)
        centred = hidden - hidden.mean(-1, keepdims=True)
        normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + self.options.epsilon)
        if self.options.norm == "plain":
            return normed
        return normed * parameters["norm.weight"] + (parameters["norm.bias"] if self.options.norm_bias else 0)
