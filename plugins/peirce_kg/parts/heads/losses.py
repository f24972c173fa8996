"""Losses of scores over all entities."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from peirce.errors import InputError
from peirce.parts import mean_cross_entropy
from torch import Tensor


def ranking_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of [b, entities] against one answer a query, or a distribution over its answers.

    Args:
        logits: [b, entities].
        labels: int64 [b], or float [b, entities].
        smoothing: label smoothing.

    Raises:
        InputError: the labels are neither.
    """
    if not labels.is_floating_point():
        return mean_cross_entropy(logits, labels, smoothing)
    check_distribution(labels, logits.shape)
    return F.cross_entropy(logits.float(), labels.float(), label_smoothing=smoothing)


def check_distribution(labels: Tensor, shape: Sequence[int]) -> None:
    """Refuse a distribution over answers that is not of the shape of the scores."""
    if labels.shape != tuple(shape):
        raise InputError(
            f"labels are {str(labels.dtype).removeprefix('torch.')} {list(labels.shape)} and must be int64 "
            f"{list(shape[:1])} or float {list(shape)}"
        )
