"""A class for each token, as in tagging."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen, validators
from peirce.parts import Dims, Encoded, Head, TensorSpec, Tokens, mean_cross_entropy
from torch import Tensor, nn


@frozen(kw_only=True)
class TokenClassificationOptions:
    """What is predicted.

    Args:
        classes: the number of classes.
    """

    classes: int = field(default=2, validator=validators.ge(2))


class TokenClassification(Head):
    """A linear map of each token's dropped-out properties."""

    name = "token_classification"
    source = "BERT (Devlin et al., 2018), Section 5.3; FOLNet (Chen, 2023), Appendix A.4"
    Options = TokenClassificationOptions
    labels = "int64 [b, x]: the class of the token; -100 where it does not count"

    def __init__(self, options: TokenClassificationOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.classes = options.classes
        self.dropout = nn.Dropout(dims.dropout)
        self.dense = nn.Linear(dims.unary, options.classes)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """One score a class, for each token."""
        dims = ("batch", "length", self.classes)
        meaning = "Scores of the classes of each token."
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning=meaning),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, d1] -> logits [b, x, classes]; zero at padding."""
        return {"logits": encoded.scope.zero_unary(self.dense(self.dropout(encoded.unary)))}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Cross-entropy where labels [b, x] are not -100; zero if none is."""
        return mean_cross_entropy(outputs["logits"], labels)
