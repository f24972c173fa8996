"""Large linear maps by the library with the wider vectors.

torch multiplies float32 matrices by MKL, and MKL gives AVX2 kernels to a processor that is not Intel's. Its
convolutions are oneDNN's, which uses AVX-512 wherever it is there. A linear map is a convolution of one pixel: the same
sums in another order, and torch differentiates, batches and casts it like any other.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, backends, nn
from torch.nn.grad import conv2d_weight

CHANNELS = range(32, 4097)
"""Of the inputs and of the outputs: with fewer MKL is as fast, and more weights leave the cache."""
FEWEST_ROWS = 256
"""oneDNN lays the weights out anew in each call, which costs as much as the product with a few rows."""
FEWEST_PRODUCTS = 1 << 22
"""Below these, what a call costs by itself outweighs the rest."""
ZEN_5 = 26
"""The family of AMD's first processors that compute 512 bits at once; the ones before take two turns."""


def linear_map(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`, by oneDNN where this machine is faster with it.

    `torch.backends.mkldnn.enabled = False` switches that off.

    Args:
        values: [..., c].
        weight: [d, c].
        bias: [d].

    Returns:
        [..., d].
    """
    if not _wider(values, weight, *weight.shape):
        return F.linear(values, weight, bias)
    # Of one pixel a dilation changes nothing, but on one thread torch takes oneDNN for a batch of one only where there
    # is a stride or a dilation.
    found = F.conv2d(_pixels(values), weight[:, :, None, None], bias, dilation=2)
    return found.permute(0, 2, 3, 1).reshape(*values.shape[:-1], -1)


def add_map(total: Tensor, values: Tensor, weight: Tensor) -> Tensor:
    """`total + linear_map(values, weight)`, in one pass where MKL multiplies.

    Args:
        total: [n, d].
        values: [n, c].
        weight: [d, c].

    Returns:
        [n, d].
    """
    if _wider(values, weight, *weight.shape):
        return total + linear_map(values, weight)
    return torch.addmm(total, values, weight.t())


def weight_gradient(values: Tensor, given: Tensor) -> Tensor:
    """The gradient of `linear_map`'s weight, `given.T @ values`, by the library that is faster.

    Args:
        values: [rows, c], what was mapped.
        given: [rows, d], the gradient of the result.

    Returns:
        [d, c].
    """
    shape = given.shape[1], values.shape[1]
    if not _wider(values, given, *shape):
        return given.t() @ values
    return conv2d_weight(_pixels(values), (*shape, 1, 1), _pixels(given), dilation=2).flatten(1)


class Linear(nn.Linear):
    """`torch.nn.Linear` by `linear_map`."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., c] -> [..., d]."""
        return linear_map(input, self.weight, self.bias)


def _pixels(values: Tensor) -> Tensor:
    """[..., c] as one picture with a row of pixels: [1, c, rows, 1], channels last."""
    return values.view(1, -1, 1, values.shape[-1]).permute(0, 3, 1, 2)


def _wider(values: Tensor, other: Tensor, outputs: int, inputs: int) -> bool:
    """Whether it is a product of two large float32 matrices in a CPU's memory, and oneDNN is faster here."""
    # Tracing is asked first: a size that is compared would not be symbolic any more.
    return (
        not torch.compiler.is_compiling()
        and values.numel() * outputs >= FEWEST_PRODUCTS
        and values.numel() >= FEWEST_ROWS * inputs
        and inputs in CHANNELS
        and outputs in CHANNELS
        and values.dtype == other.dtype == torch.float32
        and values.device.type == "cpu"
        and values.is_contiguous()
        and other.is_contiguous()
        and _wider_vectors()
        and _as_usual()
    )


def _as_usual() -> bool:
    """Whether nobody casts, or has set how torch multiplies."""
    settings: Any = backends.mkldnn  # torch types a part of them
    return (
        not torch.is_autocast_enabled("cpu")
        and settings.enabled is True
        and {settings.matmul.fp32_precision, settings.conv.fp32_precision} <= {"none", "ieee"}
    )


@cache
def _wider_vectors() -> bool:
    """Whether oneDNN has wider vectors than MKL here: on Linux, where AMD's processor computes 512 bits at once."""
    if not (backends.mkl.is_available() and backends.cpu.get_cpu_capability() == "AVX512"):
        return False
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return said.get("vendor_id") == "AuthenticAMD" and int(said["cpu family"]) >= ZEN_5
