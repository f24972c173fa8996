"""The state that flows through a network: unary atoms, properties of tokens, and binary atoms, their relations."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
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
    if sums_in_float32(atoms):
        weight, bias = (None if each is None else each.to(atoms.dtype) for each in (weight, bias))
        with without_autocast(atoms):
            return F.layer_norm(atoms, atoms.shape[-1:], weight, bias, epsilon)
    if atoms.dtype == torch.bfloat16 and atoms.device.type == "cpu" and not torch.compiler.is_compiling():
        # With a float32 weight torch's norm computes in float32 and keeps its statistics so: no copy is made.
        weight = atoms.new_ones(atoms.shape[-1], dtype=torch.float32) if weight is None else weight.float()
        return F.layer_norm(atoms, atoms.shape[-1:], weight, None if bias is None else bias.float(), epsilon)
    exact = at_least_float32(atoms)
    weight, bias = (None if each is None else each.to(exact.dtype) for each in (weight, bias))
    return F.layer_norm(exact, exact.shape[-1:], weight, bias, epsilon).to(atoms.dtype)


def sums_in_float32(values: Tensor) -> bool:
    """Whether torch's norms and softmaxes of these values read and write half precision and sum in float32 inside.

    They do so on CUDA, so that a float32 copy, which would be twice as large, is not made there. `meta` goes the way of
    CUDA, for what counts a pass without a card. A traced pass keeps the copies: its compiler fuses them.
    """
    half = values.dtype in (torch.bfloat16, torch.float16)
    return half and values.device.type in ("cuda", "meta") and not torch.compiler.is_compiling()


def without_autocast(values: Tensor) -> AbstractContextManager[object]:
    """A context in which autocast does not copy these values to float32."""
    kind = values.device.type
    enabled = kind != "meta" and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if enabled else nullcontext()


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
        exact = atoms if sums_in_float32(atoms) else at_least_float32(atoms)
        weight: Tensor | None = self.weight
        if weight is not None:
            weight = (at_least_float32(weight) + self.offset if self.offset else weight).to(exact.dtype)
        with without_autocast(exact):
            return F.rms_norm(exact, exact.shape[-1:], weight, self.epsilon).to(atoms.dtype)
