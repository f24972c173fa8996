"""The norm by a kernel in Triton's language, which declines where torch's operations compute it.

Triton is imported where the kernel is used for the first time, so nothing here needs it.
"""

from __future__ import annotations

from torch import Tensor

from peirce.kernels.choice import uses_kernel


def fused_norm(
    atoms: Tensor, weight: Tensor | None, bias: Tensor | None, mask: Tensor | None, epsilon: float
) -> Tensor | None:
    """Zero mean and unit population variance over the channels, with exact zeros outside a mask.

    Args:
        atoms: [b, ..., d].
        weight: [d], scales what is standardised.
        bias: [d], shifts it; there is none without a weight.
        mask: bool [b or 1, ...]; without one, torch's own norm is as good.
        epsilon: added to the variance.

    Returns:
        [b, ..., d]; None where no kernel computes it.
    """
    if mask is None or not uses_kernel("norm", atoms, whole=atoms.shape[-1]):
        return None
    from peirce.kernels.triton_norm import norm

    return norm(atoms, weight, bias, mask, epsilon)
