"""What the losses of heads share: how labels are checked, and the cross-entropy of those that count."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from peirce.algebra import at_least_float32
from peirce.errors import InputError

IGNORED = -100
"""The label of a place that does not count."""


def mean_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of [..., classes] against int64 [...], over the labels that are not -100; zero if there are none.

    Args:
        logits: [..., classes].
        labels: int64 [...].
        smoothing: label smoothing.

    Raises:
        InputError: the labels have another shape or dtype, or one of them is not the number of a class.
    """
    check_labels(labels, logits.shape[:-1], logits.shape[-1])
    flat, wanted = at_least_float32(logits.flatten(0, -2)), labels.flatten().long()
    total = F.cross_entropy(flat, wanted, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing)
    return total / (labels != IGNORED).sum().clamp_min(1)


def check_labels(labels: Tensor, shape: Sequence[int], classes: int | None = None) -> None:
    """Refuse labels that a loss cannot be computed from.

    Args:
        labels: the labels.
        shape: what their shape must be.
        classes: the number of classes; None where any number is allowed. On a GPU the values are not checked, since
            the CPU would have to wait for them.

    Raises:
        InputError: the labels have another shape or dtype, or one of them is not the number of a class.
    """
    if tuple(labels.shape) != tuple(shape) or labels.is_floating_point():
        raise InputError(
            f"labels are {_kind(labels.dtype, labels.shape)} and must be {_kind(torch.int64, shape)}"
        )
    if classes is None or labels.device.type != "cpu" or torch.compiler.is_compiling():
        return
    wrong = labels[(labels != IGNORED) & ((labels < 0) | (labels >= classes))]
    if len(wrong):
        raise InputError(
            f"labels contain {int(wrong[0])}; they must be 0 to {classes - 1}, or {IGNORED} where they do not count"
        )


def _kind(dtype: torch.dtype, shape: Sequence[int]) -> str:
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"
