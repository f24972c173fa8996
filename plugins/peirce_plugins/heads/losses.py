"""The loss that heads over tokens and pairs share."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

IGNORED = -100
"""The label of a place that does not count."""


def mean_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of [..., classes] against int64 [...], over the labels that are not -100; zero if none is."""
    flat = logits.flatten(0, -2).float()
    total = F.cross_entropy(flat, labels.flatten(), ignore_index=IGNORED, reduction="sum")
    return total / (labels != IGNORED).sum().clamp_min(1)
