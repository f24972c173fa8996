"""Predictions about pairs of tokens, from the relations that a dual-branch network keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from attrs import field, frozen, validators
from peirce.parts import IGNORED, Dims, Encoded, Head, TensorSpec, Tokens, check_labels, mean_cross_entropy
from torch import Tensor, nn


@frozen(kw_only=True)
class RelationOptions:
    """What is predicted.

    Args:
        classes: the number of classes of a pair.
    """

    classes: int = field(default=2, validator=validators.ge(2))


class Relation(Head):
    """A linear map of each pair's relations to classes, such as the arcs of a dependency tree."""

    name = "relation"
    needs = frozenset({"binary"})
    source = "FOLNet (Chen, 2023), Appendix A.4, which proposes losses on the binary atoms"
    Options = RelationOptions
    labels = "int64 [b, x, y]: the class of the pair; -100 where it does not count"

    def __init__(self, options: RelationOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.classes = options.classes
        self.dense = nn.Linear(dims.binary, options.classes)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """One score a class, for each pair."""
        dims = ("batch", "length", "length", self.classes)
        meaning = "Scores of the classes of each pair of tokens."
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning=meaning),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, y, d2] -> logits [b, x, y, classes]; zero outside the scope."""
        assert encoded.binary is not None
        return {"logits": encoded.scope.zero_binary(self.dense(encoded.binary))}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Cross-entropy where labels [b, x, y] are not -100; zero if none is."""
        return mean_cross_entropy(outputs["logits"], labels)


class Swap(Head):
    """Whether two tokens have changed places: one score for each pair, the same both ways."""

    name = "swap"
    needs = frozenset({"binary"})
    source = "FOLNet (Chen, 2023), Appendix A.4, which proposes it"
    labels = "int64 [b, x, y]: 1 where the two were swapped, else 0; -100 where the pair does not count"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.dense = nn.Linear(dims.binary, 1)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """One score for each pair."""
        meaning = "Scores of each pair of tokens having changed places."
        return (
            TensorSpec(name="logits", dtype="float", dims=("batch", "length", "length"), meaning=meaning),
        )

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, y, d2] -> logits [b, x, y], symmetric; zero outside the scope."""
        assert encoded.binary is not None
        scores = self.dense(encoded.binary).squeeze(-1)
        return {"logits": encoded.scope.zero_binary(scores + scores.transpose(1, 2))}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Binary cross-entropy where labels [b, x, y] (1 for a swapped pair) are not -100; zero if none is."""
        check_labels(labels, outputs["logits"].shape, 2)
        logits, counts = outputs["logits"].float(), labels != IGNORED
        wanted = labels.to(logits.dtype).masked_fill(~counts, 0.0)
        losses = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        return losses.masked_fill(~counts, 0.0).sum() / counts.sum().clamp_min(1)
