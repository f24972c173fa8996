"""The state that flows through a network: unary atoms, properties of tokens, and binary atoms, their relations."""

from __future__ import annotations

from typing import NamedTuple, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NORM_EPS = 1e-12
"""Added to the variance by every norm; zero in float16, which is why norms compute in float32."""


_EXACT = (torch.float32, torch.float64)


class Predicates(NamedTuple):
    """The atoms of one point of the network; an architecture with one branch has no binary atoms.

    unary: [b, x, d1]; binary: [b, x, y, d2] or None.
    """

    unary: Tensor
    binary: Tensor | None = None


def at_least_float32(values: Tensor) -> Tensor:
    """The values in the precision that norms and softmaxes compute in: float32, or float64 if they already are."""
    return values if values.dtype in _EXACT else values.float()


def standardise(
    atoms: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, epsilon: float = NORM_EPS
) -> Tensor:
    """Zero mean and unit population variance over the channels, computed in at least float32.

    Args:
        atoms: [..., d].
        weight: [d], scales what is standardised.
        bias: [d], shifts it.
        epsilon: added to the variance.

    Returns:
        [..., d], in the dtype of `atoms`.
    """
    if atoms.dtype in _EXACT and (weight is None or weight.dtype == atoms.dtype):
        return F.layer_norm(atoms, atoms.shape[-1:], weight, bias, epsilon)
    if _norm_is_exact(atoms):
        weight = atoms.new_ones(atoms.shape[-1], dtype=torch.float32) if weight is None else weight.float()
        return F.layer_norm(atoms, atoms.shape[-1:], weight, None if bias is None else bias.float(), epsilon)
    exact = at_least_float32(atoms)
    weight, bias = (None if each is None else each.to(exact.dtype) for each in (weight, bias))
    return F.layer_norm(exact, exact.shape[-1:], weight, bias, epsilon).to(atoms.dtype)


def _norm_is_exact(atoms: Tensor) -> bool:
    """Whether torch's norm of these atoms computes in float32, and keeps its statistics so, given a float32 weight.

    It does so for bfloat16 on a CPU. Then no float32 copy of the atoms is made.
    """
    kind = atoms.dtype == torch.bfloat16 and atoms.device.type == "cpu"
    return kind and not torch.compiler.is_compiling()


@final
class Norm(nn.Module):
    """Standardises atoms, then scales them if it is affine, and shifts them; computes in at least float32."""

    def __init__(
        self, width: int, *, affine: bool = False, bias: bool = True, epsilon: float = NORM_EPS
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width)) if affine else None
        self.bias = nn.Parameter(torch.zeros(width)) if affine and bias else None
        self.epsilon = epsilon

    def forward(self, atoms: Tensor) -> Tensor:
        """[..., d] -> [..., d]."""
        return standardise(atoms, self.weight, self.bias, self.epsilon)


@final
class RMSNorm(nn.Module):
    """Divides atoms by the root of their mean square, then scales them if it is affine; in at least float32.

    Args:
        width: how many channels there are.
        affine: whether there is a weight.
        epsilon: added to the mean square.
        offset: what the weight is added to: with 1 it begins at zero, as Gemma's does.

    Source: Zhang & Sennrich (2019), eq. 4.
    """

    def __init__(
        self, width: int, *, affine: bool = False, epsilon: float = NORM_EPS, offset: float = 0.0
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), 1.0 - offset)) if affine else None
        self.epsilon, self.offset = epsilon, offset

    def forward(self, atoms: Tensor) -> Tensor:
        """[..., d] -> [..., d]."""
        exact = at_least_float32(atoms)
        weight = None if self.weight is None else self.weight.to(exact.dtype)
        if weight is not None and self.offset:
            weight = weight + self.offset
        return F.rms_norm(exact, exact.shape[-1:], weight, self.epsilon).to(atoms.dtype)
