"""fuzzy: entities as a fuzzy set, from their states and the asked relation's vector."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from peirce.algebra import at_least_float32
from peirce.errors import InputError
from peirce.parts import (
    Dims,
    Encoded,
    Head,
    Linear,
    PlainMap,
    PlainScope,
    TensorSpec,
    Tokens,
    plain_linear,
    plain_relu,
    plain_sigmoid,
    plain_softmax,
    without_autocast,
)


class Fuzzy(Head):
    """A hidden layer on state and relation, a score of each entity, and its sigmoid as a membership.

    In training, wrong entities weigh by the softmax of their scores (RotatE: Sun et al., 2019, eq. 5-6).
    """

    name = "fuzzy"
    source = "ULTRA (Galkin et al., 2023), Section 4.3; UltraQuery (Galkin et al., 2024), Section 4.1"
    needs = frozenset({"pooled"})
    labels = "int64 [b]: the right entity; or float [b, x]: 1 for the right ones, 0 for the others"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        width = dims.unary + dims.pooled
        self.hidden, self.score = Linear(width, width), Linear(width, 1)
        self.split = [dims.unary, dims.pooled]

    def outputs(self) -> tuple[TensorSpec, ...]:
        """A score and a membership for each entity."""
        meanings = {"logits": "Scores of the entities.", "memberships": "How far each is an answer, 0 to 1."}
        return tuple(
            TensorSpec(name=name, dtype="float", dims=("batch", "length"), meaning=meaning)
            for name, meaning in meanings.items()
        )

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, x, d1] and [b, p] -> logits and memberships [b, x]; zero at padding."""
        assert encoded.pooled is not None
        unary, pooled = at_least_float32(encoded.unary), at_least_float32(encoded.pooled)
        with without_autocast(unary):
            # what the relation adds is the same for all entities
            of_unary, of_pooled = self.hidden.weight.to(unary.dtype).split(self.split, 1)
            asked = F.linear(pooled, of_pooled, self.hidden.bias.to(unary.dtype)).unsqueeze(1)
            logits = self.score(F.relu(F.linear(unary, of_unary) + asked)).squeeze(2)
        found = {"logits": logits, "memberships": logits.sigmoid()}
        kind = encoded.unary.dtype
        return {name: encoded.scope.zero_unary(value).to(kind) for name, value in found.items()}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Half the mean of -ln p over right entities, and half that of -ln(1 - p) over others by their weights."""
        logits = at_least_float32(outputs["logits"])
        if not labels.is_floating_point() and labels.shape == logits.shape[:1]:
            labels = F.one_hot(labels, logits.shape[1])
        elif labels.shape != logits.shape or not labels.is_floating_point():
            raise InputError(
                f"labels are {labels.dtype} {list(labels.shape)}, and do not fit {list(logits.shape)}"
            )
        right = labels.to(logits.dtype)
        others = logits.detach().masked_fill(right > 0, torch.finfo(logits.dtype).min).softmax(1)
        missed = (F.softplus(-logits) * right).sum(1) / right.sum(1).clamp_min(1)
        return (missed + (F.softplus(logits) * others * (right == 0)).sum(1)).mean() / 2

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Entity by entity: the hidden layer on its state and the relation's vector, and the score."""
        read = [state + given["pooled"] for state in given["unary"]]
        hidden = plain_relu(plain_linear(read, parameters, "hidden", dims.unary + dims.pooled))
        logits = plain_linear(hidden, parameters, "score", 1)[:, 0]
        return {"logits": logits, "memberships": plain_sigmoid(logits)}

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """See `loss`, query by query."""
        total = 0.0
        for scores, label in zip(outputs["logits"], labels, strict=True):
            weights = label if isinstance(label, list) else [float(e == label) for e in range(len(scores))]
            right = [w * math.log1p(math.exp(-s)) for s, w in zip(scores, weights, strict=True)]
            wrong = [s for s, w in zip(scores, weights, strict=True) if w <= 0]
            missed = [p * math.log1p(math.exp(s)) for p, s in zip(plain_softmax(wrong), wrong, strict=True)]
            total += (sum(right) / max(1, sum(weights)) + sum(missed)) / 2
        return total / len(labels)
