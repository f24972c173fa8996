"""A position that counts padding, one that hides a number from the state dict, and a head whose loss is no scalar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from peirce.parts import Dims, Encoded, Head, TensorSpec, Tokens, UnaryPosition
from torch import Tensor, nn

from wrong import Pair


class Ramp(UnaryPosition):
    """A direction that grows with the place of the token."""

    name = "ramp"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.direction = nn.Parameter(torch.ones(dims.unary))

    def unary(self, tokens: Tokens) -> Tensor:
        return self.steps(tokens).unsqueeze(2) * self.direction

    def steps(self, tokens: Tokens) -> Tensor:
        """[b or 1, x]."""
        return tokens.rows(tokens.index)


class CountsPadding(Ramp):
    """Counts every token, so that padding on the left moves the real ones."""

    name = "counts_padding"

    def steps(self, tokens: Tokens) -> Tensor:
        return torch.arange(tokens.length).unsqueeze(0)


class HidesANumber(Ramp):
    """Draws a number that no file will keep."""

    name = "hides_a_number"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.factor = float(torch.rand(()))

    def unary(self, tokens: Tokens) -> Tensor:
        return super().unary(tokens) * self.factor


class Yes(Head):
    """Whether each token is one."""

    name = "yes"
    labels = "int64 [b, x]: 1 where a token is one, else 0; -100 where it does not count"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.dense = nn.Linear(dims.unary, 2)

    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec(name="logits", dtype="float", dims=("batch", "length", 2)),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        return {"logits": encoded.scope.zero_unary(self.dense(encoded.unary))}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        each = F.cross_entropy(outputs["logits"].flatten(0, 1).float(), labels.flatten(), reduction="none")
        return self.reduced(each, labels)

    def reduced(self, losses: Tensor, labels: Tensor) -> Tensor:
        """The losses of tokens, as one number."""
        return losses.sum() / (labels != -100).sum().clamp_min(1)


class LossForEachToken(Yes):
    """Leaves the mean to whoever trains."""

    name = "loss_for_each_token"

    def reduced(self, losses: Tensor, labels: Tensor) -> Tensor:
        return losses


PAIRS = [
    Pair(Ramp, CountsPadding, "padding", "positions"),
    Pair(Ramp, HidesANumber, "state_dict", "positions"),
    Pair(Yes, LossForEachToken, "loss", "heads"),
]
