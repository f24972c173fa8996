"""Whether a kernel in Triton's language computes what torch's operations compute too: one rule, in one place.

No card has timed the kernels, so none is used unless `PEIRCE_KERNELS=on`. `auto`, the default, will use them on the
cards of `MEASURED`, which a measurement adds. What the rule does not take is computed by torch's operations.
"""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec

import torch
from torch import Tensor

from peirce.errors import InputError

MEASURED: frozenset[str] = frozenset()
"""Names of the cards on which kernels win 20 % or more, as `torch.cuda.get_device_name` gives them."""
WIDEST = 256
"""The most channels that a kernel holds of a pair, where it needs all of them at once."""
_MODES = ("off", "on", "auto")
_log = logging.getLogger("peirce")


def uses_kernel(name: str, *tensors: Tensor, whole: int = 0) -> bool:
    """Whether a kernel computes this, by devices, dtypes and sizes; a line of the log at level DEBUG says so.

    Args:
        name: what is computed, for the log.
        tensors: what the kernel would read.
        whole: channels of which a program needs every one.
    """
    reason = _reason_against(tensors, whole)
    if not torch.compiler.is_compiling():
        _log.debug("%s: %s", name, reason or "a kernel in Triton's language")
    return reason is None


def _reason_against(tensors: tuple[Tensor, ...], whole: int) -> str | None:
    """Why torch's operations compute it; None where a kernel does."""
    sample = tensors[0]
    mode = os.environ.get("PEIRCE_KERNELS", "auto")
    if mode not in _MODES:
        raise InputError(f"PEIRCE_KERNELS is {mode!r}; it is one of {', '.join(_MODES)}")
    kind = sample.device.type
    if mode == "off" or (mode == "auto" and not _is_measured(sample)):
        return f"torch, since PEIRCE_KERNELS is {mode} and no measurement asks for a kernel here"
    if torch.compiler.is_exporting():
        return "torch, since exported graphs have no kernels"
    if find_spec("triton") is None:
        return "torch, since triton is not installed"
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if kind not in ("cuda", "meta") and not (kind == "cpu" and interpreted):
        return f"torch, since kernels are not for {kind}"
    if kind == "cuda" and torch.cuda.get_device_capability(sample.device) < (8, 0):
        return "torch, since the card is older than compute capability 8.0"
    if kind != "meta" and torch.is_autocast_enabled(kind):
        return "torch, since autocast chooses the dtypes of products"
    dtypes = {each.dtype for each in tensors}
    taken = {torch.float64, torch.float32, torch.float16} | (set() if kind == "cpu" else {torch.bfloat16})
    if len(dtypes) > 1 or not dtypes <= taken:
        return f"torch, since kernels do not take {', '.join(sorted(map(str, dtypes)))} here"
    if any(each.numel() == 0 for each in tensors):
        return "torch, since there is nothing to compute"
    if whole > WIDEST:
        return f"torch, since {whole} channels are more than {WIDEST}"
    return None


def _is_measured(sample: Tensor) -> bool:
    """Whether a measurement on this card says that kernels win."""
    return bool(MEASURED) and sample.is_cuda and torch.cuda.get_device_name(sample.device) in MEASURED
