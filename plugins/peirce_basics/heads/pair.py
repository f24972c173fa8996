"""Sentence pairs: whether the second sentence follows the first (NSP), or whether the two are in order (SOP)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peirce.parts import Dims, Encoded, Head, TensorSpec, Tokens, mean_cross_entropy
from torch import Tensor, nn


class SentencePair(Head):
    """Two scores from the pooled output; name it with `as = "nsp"` or `as = "sop"`."""

    name = "pair"
    needs = frozenset({"pooled"})
    source = "FOLNet (Chen, 2023), Appendix A.4; ALBERT (Lan et al., 2019) for SOP"
    labels = "int64 [b]: 0 or 1"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.dense = nn.Linear(dims.pooled, 2)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """Two scores."""
        dims = ("batch", 2)
        meaning = "Scores of: the pair stands as in the text, it does not."
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning=meaning),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, p] -> logits [b, 2]."""
        assert encoded.pooled is not None
        return {"logits": self.dense(encoded.pooled)}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Cross-entropy against labels [b] in {0, 1}."""
        return mean_cross_entropy(outputs["logits"], labels)
