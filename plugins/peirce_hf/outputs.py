"""What models give where `transformers` has no class for it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from transformers.utils.generic import ModelOutput


@dataclass
class PeirceModelOutput(ModelOutput):
    """The final atoms.

    Args:
        last_hidden_state: the unary atoms [b, x, d1].
        pooler_output: one vector for the whole input [b, d1], of a model with a pooler.
        binary: the binary atoms [b, x, y, d2], of a model that keeps them.
    """

    last_hidden_state: Tensor | None = None
    pooler_output: Tensor | None = None
    binary: Tensor | None = None


@dataclass
class PeirceForPreTrainingOutput(ModelOutput):
    """The final atoms and the predictions of every head.

    Args:
        loss: the sum of the losses of the heads with labels, a scalar.
        predictions: the heads' outputs, by the names that the Peirce model has for them.
        last_hidden_state: the unary atoms [b, x, d1].
        pooler_output: one vector for the whole input [b, d1], of a model with a pooler.
        binary: the binary atoms [b, x, y, d2], of a model that keeps them.
    """

    loss: Tensor | None = None
    predictions: dict[str, Tensor] | None = None
    last_hidden_state: Tensor | None = None
    pooler_output: Tensor | None = None
    binary: Tensor | None = None


@dataclass
class PeirceSource(ModelOutput):
    """The source of a target that is generated.

    Args:
        input_ids: int64 [b, x].
        attention_mask: [b, x], nonzero at real tokens.
        token_type_ids: int64 [b, x].
    """

    input_ids: Tensor | None = None
    attention_mask: Tensor | None = None
    token_type_ids: Tensor | None = None
