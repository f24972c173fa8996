"""What literal references are written with: the usual maps and functions, over nested lists."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
PlainMap: TypeAlias = Mapping[str, Any]
"""What a reference is given, or gives, by name: numbers as nested lists."""


def plain_linear(
    values: Any, parameters: Mapping[str, Any], name: str, width: int, *, bias: bool = True
) -> Numbers:
    """W x + b of the map `name`, [..., d] -> [..., width].

    Args:
        values: nested lists [..., d].
        parameters: what `reference` is given.
        name: of the map, a prefix of the names of its weight and its bias.
        width: how many channels it gives.
        bias: whether it has a bias.
    """
    given = np.asarray(values, dtype=float)
    weight = np.asarray(parameters[f"{name}.weight"]).reshape(width, given.shape[-1])
    return given @ weight.T + (np.asarray(parameters[f"{name}.bias"]) if bias else 0.0)


def plain_softmax(scores: Any, seen: Any = True, axis: int = -1) -> Numbers:
    """The softmax along an axis over what is `seen`, which is broadcast; zero where nothing is."""
    values = np.where(seen, np.asarray(scores, dtype=float), -np.inf)
    top = values.max(axis, keepdims=True, initial=-1e300)
    powers = np.exp(values - top)
    return powers / np.maximum(powers.sum(axis, keepdims=True), 1e-300)


def plain_sigmoid(values: Any) -> Numbers:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-np.asarray(values, dtype=float)))


def plain_relu(values: Any) -> Numbers:
    """max(x, 0)."""
    return np.maximum(np.asarray(values, dtype=float), 0.0)


def plain_gelu(values: Any, *, tanh: bool = False) -> Numbers:
    """x times the normal distribution function at x, exact or approximated by tanh."""
    x = np.asarray(values, dtype=float)
    inner = (
        np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
        if tanh
        else np.vectorize(math.erf)(x / math.sqrt(2))
    )
    return x * (1 + inner) / 2


def plain_cross_entropy(logits: Any, labels: Any, ignored: int = -100) -> float:
    """The mean of -ln of the labels' shares of the softmax, [..., classes] against [...], of labels that count."""
    scores = np.asarray(logits, dtype=float)
    counted = [(place, label) for place, label in np.ndenumerate(labels) if label != ignored]
    losses = [-math.log(plain_softmax(scores[place])[label]) for place, label in counted]
    return sum(losses) / max(1, len(losses))
