"""What kernels in Triton's language compute, each as one function that declines where torch's operations compute it.

Triton is imported where a kernel is used for the first time, so nothing here needs it.
"""

from __future__ import annotations

from torch import Tensor

from peirce.algebra import Scope
from peirce.kernels.choice import uses_kernel


def fused_trans(logits: Tensor, values: Tensor, scope: Scope) -> Tensor | None:
    """Compose two relations channel by channel: a softmax of the first over the middle token, times the second.

    Args:
        logits: k, [b, x, a, d].
        values: v, [b, a, y, d], zero outside the scope.
        scope: of the rows x; its `dropout` is the rate at which weights are dropped.

    Returns:
        [b, x, y, d], zeros where a row sees nothing; None where no kernel computes it.
    """
    if not uses_kernel("trans", logits, values):
        return None
    from peirce.kernels.triton_trans import trans

    return trans(logits, values, scope.pairs, scope.dropout)


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


def fused_pairs(
    atoms: Tensor,
    hidden: tuple[Tensor, Tensor],
    output: tuple[Tensor, Tensor],
    converse: tuple[Tensor, Tensor],
    mask: Tensor | None,
    epsilon: float,
    rate: float,
) -> Tensor | None:
    """Atoms u(x,y) with what a network makes of their norms n(x,y) and n(y,x), and a map of n(y,x), added.

    Args:
        atoms: u, [b, x, y, d]; where x are fewer than y, they are the last.
        hidden: weight [h, 2d] and bias [h] of the hidden layer, which gelu activates.
        output: weight [d, h] and bias [d] of what reads it.
        converse: weight [d, d] and bias [d] of the map of n(y,x).
        mask: bool [b or 1, x, y]; norms outside it are zero.
        epsilon: of the norm, which has neither weight nor bias.
        rate: at which what is added is dropped.

    Returns:
        [b, x, y, d]; None where no kernel computes it.
    """
    if not uses_kernel("bool", atoms, *hidden, *output, *converse, whole=atoms.shape[-1]):
        return None
    from peirce.kernels.triton_pairs import pair_network

    return pair_network(atoms, hidden, output, converse, mask, epsilon, rate)
