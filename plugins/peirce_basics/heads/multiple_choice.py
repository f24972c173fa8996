"""One of several texts: which answer, ending or explanation is the right one."""

from __future__ import annotations

from collections.abc import Mapping

import torch.nn.functional as F
from attrs import field, frozen, validators
from peirce.errors import InputError
from peirce.parts import Dims, Encoded, Head, TensorSpec, Tokens, mean_cross_entropy
from torch import Tensor, nn


@frozen(kw_only=True)
class MultipleChoiceOptions:
    """What is chosen from.

    Args:
        choices: how many rows of a batch, one after the other, are the choices of one question.
    """

    choices: int = field(default=2, validator=validators.ge(2))


class MultipleChoice(Head):
    """A score for each row from its dropped-out pooled output; the rows of one question compete."""

    name = "multiple_choice"
    needs = frozenset({"pooled"})
    source = "GPT (Radford et al., 2018), Section 3.3; BERT (Devlin et al., 2018), Section 4.4"
    Options = MultipleChoiceOptions
    labels = "int64 [questions]: the right choice; or float [b]: each row's share of its question's answer"

    def __init__(self, options: MultipleChoiceOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.choices = options.choices
        self.dropout = nn.Dropout(dims.dropout)
        self.dense = nn.Linear(dims.pooled, 1)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """One score for each row."""
        meaning = "How well each row answers its question."
        return (TensorSpec(name="logits", dtype="float", dims=("batch",), meaning=meaning),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, p] -> logits [b]."""
        assert encoded.pooled is not None
        return {"logits": self.dense(self.dropout(encoded.pooled)).squeeze(-1)}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Cross-entropy over the choices of each question.

        Args:
            outputs: `logits` [b], the rows of a question one after the other.
            labels: int64 [questions], which choice is right; or float [b], each row's share of its question's answer.

        Raises:
            InputError: the rows are no whole number of questions, or the labels are not theirs.
        """
        logits = outputs["logits"].float()
        if len(logits) % self.choices:
            raise InputError(
                f"a batch of {len(logits)} rows is no whole number of questions with {self.choices} choices each; give "
                "each question all its rows, one after the other, or set the head's option choices"
            )
        grouped = logits.view(-1, self.choices)
        if labels.is_floating_point() and labels.shape == logits.shape:
            return F.cross_entropy(grouped, labels.float().view_as(grouped))
        if labels.shape != grouped.shape[:1]:
            raise InputError(
                f"labels of the shape {list(labels.shape)} are not those of {len(grouped)} questions with "
                f"{self.choices} choices: give int64 [{len(grouped)}], or float [{len(logits)}]"
            )
        return mean_cross_entropy(grouped, labels)
