"""Spans of text, such as the answer to a question: where they start and where they end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from peirce.parts import IGNORED, Dims, Encoded, Head, TensorSpec, Tokens, check_labels
from torch import Tensor, nn


class Span(Head):
    """A linear map of each token's properties to two scores: a span starts here, a span ends here.

    That a text holds no span is itself a place: the first token's, by convention (BERT, Section 4.3).
    """

    name = "span"
    source = "BERT (Devlin et al., 2018), Sections 4.2 and 4.3; FOLNet (Chen, 2023), Appendix B"
    labels = "int64 [b, x, 2]: 1 where the span starts and where it ends, 0 where else it may, -100 elsewhere"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.dense = nn.Linear(dims.unary, 2)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """Two scores for each token."""
        meaning = "Scores of each token as the first of the span and as its last."
        return (TensorSpec(name="logits", dtype="float", dims=("batch", "length", 2), meaning=meaning),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, d1] -> logits [b, x, 2]; zero at padding."""
        return {"logits": encoded.scope.zero_unary(self.dense(encoded.unary))}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """The mean of the cross-entropies of the start and of the end, over the places where a span may be.

        Args:
            outputs: `logits` [b, x, 2].
            labels: int64 [b, x, 2]: 1 where the span starts and where it ends, 0 at other places that may be one, -100
                elsewhere. Where several places are right, their probabilities add up.

        Returns:
            -ln of the right places' share of the softmax over those allowed, in float32; the mean over the starts and
            ends that have a right place, zero if none has.

        Raises:
            InputError: the labels are not of the logits' shape, or hold other numbers.
        """
        check_labels(labels, outputs["logits"].shape, 2)
        logits, allowed, right = outputs["logits"].float(), labels != IGNORED, labels == 1
        low = torch.finfo(logits.dtype).min
        counts = right.any(1)  # [b, 2]
        wanted = logits.masked_fill(~right, low).logsumexp(1)
        losses = logits.masked_fill(~allowed, low).logsumexp(1) - wanted
        return losses.masked_fill(~counts, 0.0).sum() / counts.sum().clamp_min(1)
