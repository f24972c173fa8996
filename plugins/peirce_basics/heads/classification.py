"""Classification and regression of a whole input: one sequence, or a pair joined by token types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch.nn.functional as F
from attrs import field, frozen, validators
from peirce.errors import InputError
from peirce.parts import Dims, Encoded, Head, TensorSpec, Tokens, mean_cross_entropy
from torch import Tensor, nn


@frozen(kw_only=True)
class ClassificationOptions:
    """What is predicted.

    Args:
        classes: the number of classes.
        problem: `single` for one sequence and `pair` for two (which token_type_ids tell apart), both with one score a
            class; `regression` for one number, with `classes = 1`.
    """

    classes: int = field(default=2, validator=validators.ge(1))
    problem: Literal["single", "pair", "regression"] = field(
        default="single", validator=validators.in_(("single", "pair", "regression"))
    )


class Classification(Head):
    """A linear map of the dropped-out pooled output."""

    name = "classification"
    needs = frozenset({"pooled"})
    source = "BERT (Devlin et al., 2018), Section 4.1; FOLNet (Chen, 2023), Appendix B"
    Options = ClassificationOptions
    labels = "int64 [b]: the right class; float [b] for a regression"

    @classmethod
    def check(cls, options: ClassificationOptions, dims: Dims, scope: str) -> str | None:
        """A regression has one output, a pair needs two token types, and a choice needs two classes."""
        if options.problem == "regression" and options.classes != 1:
            return f"a regression predicts one number, and classes is {options.classes}; set classes = 1"
        if options.problem != "regression" and options.classes < 2:
            return 'one class leaves nothing to choose; set classes to 2 or more, or problem = "regression"'
        if options.problem == "pair" and dims.token_types < 2:
            return "a pair needs model.input.token_types of 2 or more, to tell its two sequences apart"
        return None

    def __init__(self, options: ClassificationOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.options = options
        self.dropout = nn.Dropout(dims.dropout)
        self.dense = nn.Linear(dims.pooled, options.classes)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """One score a class, or the predicted number."""
        dims = ("batch", self.options.classes)
        meaning = (
            "The predicted number." if self.options.problem == "regression" else "Scores of the classes."
        )
        return (TensorSpec(name="logits", dtype="float", dims=dims, meaning=meaning),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """[b, p] -> logits [b, classes]."""
        assert encoded.pooled is not None
        return {"logits": self.dense(self.dropout(encoded.pooled))}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Cross-entropy against labels [b], or the mean squared error against numbers [b]."""
        logits = outputs["logits"].float()
        if self.options.problem == "regression":
            if len(logits) != labels.numel():
                raise InputError(
                    f"labels are {list(labels.shape)} and must be one number for each of {len(logits)} rows"
                )
            return F.mse_loss(logits.squeeze(-1), labels.flatten().float())
        return mean_cross_entropy(logits, labels)
