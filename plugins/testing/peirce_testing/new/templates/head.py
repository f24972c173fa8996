"""new_part: a head that predicts grades in an order.

A spec with it:

    [[model.heads]]
    use = "new_part"
    grades = 5
"""

import math
from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from attrs import field, frozen, validators
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
    plain_sigmoid,
)
from torch import Tensor, nn


@frozen(kw_only=True)
class NewPartOptions:
    """What is predicted.

    Args:
        grades: the number of grades, from 0 to `grades - 1`.
    """

    grades: int = field(default=5, validator=validators.ge(2))


class NewPart(Head):
    """Grades in order, such as stars: logit k says whether the grade is above k."""

    name = "new_part"
    source = "ordinal regression as in Frank & Hall (2001)"
    needs = frozenset({"pooled"})
    labels = "int64 [b]: the grade, from 0"
    Options = NewPartOptions

    def __init__(self, options: NewPartOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.grades = options.grades
        self.dense = nn.Linear(dims.pooled, options.grades - 1)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """One logit for each step from a grade to the next."""
        return (
            TensorSpec(
                name="logits",
                dtype="float",
                dims=("batch", self.grades - 1),
                meaning="Whether the grade is above 0, above 1, ...",
            ),
        )

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, p] -> logits [b, grades - 1]."""
        assert encoded.pooled is not None
        return {"logits": self.dense(encoded.pooled)}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Binary cross-entropy at each step, against labels [b]."""
        logits = at_least_float32(outputs["logits"])
        check_labels(labels, logits.shape[:1], self.grades)
        steps = labels.new_tensor(range(self.grades - 1))
        return F.binary_cross_entropy_with_logits(logits, (labels.unsqueeze(1) > steps).to(logits.dtype))

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """The map of the pooled output."""
        return {"logits": plain_linear(given["pooled"], parameters, "dense", self.options.grades - 1)}

    def reference_loss(self, outputs: Mapping[str, Any], labels: Any) -> float:
        """The mean of -ln p over texts and steps: p that the grade is above k where it is, that it is not elsewhere."""
        losses = [
            -math.log(plain_sigmoid(logit if grade > k else -logit))
            for logits, grade in zip(outputs["logits"], labels, strict=True)
            for k, logit in enumerate(logits)
        ]
        return sum(losses) / len(losses)
