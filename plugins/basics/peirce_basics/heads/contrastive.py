"""Sequence contrastive learning: two views of one text map near each other, and other texts far away."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import at_least_float32
from peirce.parts import (
    Dims,
    Encoded,
    Head,
    PlainMap,
    PlainScope,
    TensorSpec,
    Tokens,
    check_labels,
    plain_linear,
)


@frozen(kw_only=True)
class ContrastiveOptions:
    """How sharply similarities are told apart.

    Args:
        temperature: what cosine similarities are divided by before the softmax.
    """

    temperature: float = field(default=1.0, validator=validators.gt(0.0))


class Contrastive(Head):
    """A linear map of the pooled output, in which the views of one text are near each other.

    Its one output has the head's own name, as in `scl` with `as = "scl"`.
    """

    name = "contrastive"
    needs = frozenset({"pooled"})
    source = "COCO-LM (Meng et al., 2021), Section 3.2, as the published FOLNet code uses it"
    Options = ContrastiveOptions
    labels = "int64 [b]: the text that each row is a view of"

    def __init__(self, options: ContrastiveOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.temperature = options.temperature
        self.width = dims.pooled
        self.dense = nn.Linear(dims.pooled, dims.pooled)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The mapped pooled vectors."""
        dims = ("batch", self.width)
        return (TensorSpec(name="", dtype="float", dims=dims, meaning="The text's place among other texts."),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, p] -> [b, p]."""
        assert encoded.pooled is not None
        return {"": self.dense(encoded.pooled)}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """How well a row's other views are told from the other texts, by cosine similarity.

        Args:
            outputs: the mapped vectors [b, p].
            labels: int64 [b], the text that each row is a view of; rows that share one are views of each other. A row
                without another view does not count.

        Returns:
            The mean over rows of -ln of the softmax's weight on the other views; zero where no row has one.
        """
        check_labels(labels, outputs[""].shape[:1])
        views = F.normalize(at_least_float32(outputs[""]), dim=-1)
        same_row = torch.eye(len(views), dtype=torch.bool, device=views.device)
        low = torch.finfo(views.dtype).min
        similarity = (views @ views.T / self.temperature).masked_fill(same_row, low)
        same = (labels.unsqueeze(0) == labels.unsqueeze(1)) & ~same_row
        nearness = similarity.masked_fill(~same, low).logsumexp(1) - similarity.logsumexp(1)
        counts = same.any(1)
        return -nearness.masked_fill(~counts, 0.0).sum() / counts.sum().clamp_min(1)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """The map of the pooled vector."""
        return {"": plain_linear(given["pooled"], parameters, "dense", dims.pooled)}

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """Row by row: the other views' share of the softmax of the cosines."""
        views, rows, losses = outputs[""], range(len(labels)), []

        def power(i: int, j: int) -> float:
            lengths = math.sqrt(sum(a * a for a in views[i])) * math.sqrt(sum(b * b for b in views[j]))
            cosine = sum(a * b for a, b in zip(views[i], views[j], strict=True)) / lengths
            return math.exp(cosine / self.options.temperature)

        for i in rows:
            if same := [j for j in rows if j != i and labels[j] == labels[i]]:
                total = sum(power(i, j) for j in rows if j != i)
                losses.append(-math.log(sum(power(i, j) for j in same) / total))
        return sum(losses) / max(1, len(losses))
