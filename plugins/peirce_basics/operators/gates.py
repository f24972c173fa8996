"""What the gated recurrences of torch have in common: their parameters, what they read, and their fused kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from peirce.parts import RecurrentOperator
from torch import Tensor


class Gated(RecurrentOperator):
    """A recurrence that is one of torch's own modules too, by whose names its parameters are saved."""

    def read(self, atoms: Tensor) -> Tensor:
        """The inputs' part of the gates: [b, x, d1] -> [b, x, gates * r]."""
        return F.linear(atoms, self.get_parameter("weight_ih_l0"), self.get_parameter("bias_ih_l0"))

    def weights(self) -> Mapping[str, Tensor]:
        """The state's part of the gates."""
        return {name: self.get_parameter(f"{name}_hh_l0") for name in ("weight", "bias")}

    def fused(self, atoms: Tensor) -> Tensor | None:
        """torch's own recurrence."""
        outputs: Tensor = self(atoms)[0]
        return outputs


def affine(rows: list[list[float]], values: list[float], bias: list[float]) -> list[float]:
    """A linear map of one vector, number by number."""
    return [
        sum(w * v for w, v in zip(row, values, strict=True)) + b for row, b in zip(rows, bias, strict=True)
    ]


def gates(
    atom: list[float], state: list[float], parameters: Mapping[str, Any]
) -> tuple[list[float], list[float]]:
    """What the gates are given of a token and of a state, number by number."""
    p = parameters
    return (
        affine(p["weight_ih_l0"], atom, p["bias_ih_l0"]),
        affine(p["weight_hh_l0"], state, p["bias_hh_l0"]),
    )


def sigmoid(value: float) -> float:
    """1 / (1 + exp -z)."""
    return 1 / (1 + math.exp(-value))
