"""The whole recurrence as one function with its own derivative: a step does only what depends on the state before it.

The backward pass goes through the steps once, for the state's gradient alone. The gradients of weights are one product
each after it, over all steps at once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from peirce.parts import without_autocast


def recurrence(
    read: Tensor, weight: Tensor, offset: Tensor, roles: Tensor, tanh: bool, smallest: float
) -> Tensor:
    """b_t = g c(f_t R) + (1 - g) b_{t-1} from zero states.

    Args:
        read: [x, b, N + d], the tokens' fillers before their rectifier, and their part of the gate.
        weight: [N + d, d], what multiplies the state: its fillers' rows, then its gate's.
        offset: [N + d].
        roles: [N, d].
        tanh: whether c is tanh; else it is the identity.
        smallest: the least sum of squared fillers.

    Returns:
        The states, [x, b, d], in the dtype of `read`; computed in at least float32.
    """
    kind = torch.promote_types(read.dtype, torch.float32)
    with without_autocast(read):
        given = [each.to(kind) for each in (read, weight, offset, roles)]
        states: Tensor = _Recurrence.apply(*given, tanh, smallest)  # type: ignore[no-untyped-call]
    return states.to(read.dtype)


class _Recurrence(Function):
    @staticmethod
    def forward(
        ctx: Any, read: Tensor, weight: Tensor, offset: Tensor, roles: Tensor, tanh: bool, smallest: float
    ) -> Tensor:
        length, batch = read.shape[:2]
        count, size = roles.shape
        keeps = any(ctx.needs_input_grad[:4])

        def each(width: int) -> Tensor:
            """[x, b, width], where the backward pass reads it; else one step's place for all steps."""
            return read.new_empty(length if keeps else 1, batch, width).expand(length, -1, -1)

        states = read.new_zeros(length + 1, batch, size)  # the first one is before the first step
        tokens, token_gates = read[..., :count].clamp(min=0), read[..., count:]
        parts, sums, mixtures, gates = each(count), each(1), each(size), each(size)
        candidates = each(size) if tanh else mixtures
        turned, state_part, squares = (
            weight.t(),
            read.new_empty(batch, count + size),
            read.new_empty(batch, count),
        )
        state_fillers, state_gate = state_part.split_with_sizes([count, size], 1)
        for t in range(length):
            torch.addmm(offset, states[t], turned, out=state_part)
            part = torch.clamp(state_fillers, min=0, out=parts[t]).add_(tokens[t])
            torch.mul(part, part, out=squares)
            total = torch.sum(squares, 1, keepdim=True, out=sums[t]).clamp_(min=smallest)
            mixture = torch.mm(squares, roles, out=mixtures[t]).div_(total)
            candidate = torch.tanh(mixture, out=candidates[t]) if tanh else mixture
            gate = torch.add(state_gate, token_gates[t], out=gates[t]).sigmoid_()
            torch.lerp(states[t], candidate, gate, out=states[t + 1])
        if keeps:
            ctx.save_for_backward(tokens, weight, roles, states, parts, sums, mixtures, candidates, gates)
            ctx.tanh, ctx.smallest = tanh, smallest
        return states[1:]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tokens, weight, roles, states, parts, sums, mixtures, candidates, gates = ctx.saved_tensors
        length, batch, count = parts.shape
        size = roles.shape[1]
        # What the gradient of a state is multiplied with, on its way to the state before, the gate, and the mixture.
        kept = 1 - gates
        to_gates = (candidates - states[:-1]).mul_(gates).mul_(kept)
        to_mixtures = gates * (1 - candidates.square()) if ctx.tanh else gates
        # The gradient of a part is 2 / sum * part * (its role's product with the mixture's gradient, less the mean
        # of these). The mean is the product with the mixture itself, one more row beside the roles.
        to_products = to_mixtures * (2 / sums)
        # The sum is a constant where it was raised to the smallest one.
        to_means = (to_products * mixtures).masked_fill_(sums <= ctx.smallest, 0)
        lessened = torch.cat([roles.t(), roles.new_full((1, count), -1)])
        # [x, b, N + d]: of what the token and the state give to the fillers, before their rectifiers, and to the gate.
        read, state_part = (parts.new_empty(length, batch, count + size) for _ in range(2))
        given, of_parts = parts.new_empty(batch, size + 1), parts.new_empty(batch, count)
        of_states, state = torch.empty_like(gates), parts.new_zeros(batch, size)
        for t in range(length - 1, -1, -1):
            torch.add(state, grad[t], out=of_states[t])
            state = of_states[t]
            torch.mul(to_products[t], state, out=given[:, :size])
            torch.linalg.vecdot(to_means[t], state, out=given[:, size])
            torch.mm(given, lessened, out=of_parts).mul_(parts[t])
            _where_positive(of_parts, tokens[t], out=read[t, :, :count])
            # A filler of the state passed its rectifier where the part is more than the token's own.
            state_fillers = torch.sub(parts[t], tokens[t], out=state_part[t, :, :count])
            _where_positive(of_parts, state_fillers, out=state_fillers)
            torch.mul(to_gates[t], state, out=state_part[t, :, count:])
            state = torch.addmm(state * kept[t], state_part[t], weight)
        read[..., count:] = state_part[..., count:]
        flat, needs = state_part.flatten(0, 1), ctx.needs_input_grad
        of_mixtures = of_states.mul_(to_mixtures).div_(sums)
        return (
            read,
            flat.t() @ states[:-1].flatten(0, 1) if needs[1] else None,
            flat.sum(0) if needs[2] else None,
            parts.square().flatten(0, 1).t() @ of_mixtures.flatten(0, 1) if needs[3] else None,
            None,
            None,
        )


def _where_positive(grad: Tensor, values: Tensor, out: Tensor) -> None:
    """The gradient where a value passed its rectifier, else 0; `out` may be `values`."""
    torch.ops.aten.threshold_backward.grad_input(grad, values, 0, grad_input=out)
