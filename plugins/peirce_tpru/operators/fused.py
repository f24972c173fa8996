"""The whole recurrence as one function with its own derivative: a step does only what depends on the state before it.

The backward pass goes through the steps once, for the state's gradient alone. The gradients of weights are one product
each after it, over all steps at once.
"""

from __future__ import annotations

from typing import Any

import torch
from peirce.parts import full_precision
from torch import Tensor
from torch.autograd import Function


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
    with full_precision(read):
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
        reads, turned = read, weight.t()
        keeps = any(ctx.needs_input_grad[:4])
        # [x, b, ...]: the state before each step, what its fillers are made of, its candidate and its gate.
        states = read.new_zeros(length + 1, batch, size)
        parts = read.new_empty(length if keeps else 1, batch, count)
        sums = read.new_empty(length if keeps else 1, batch, 1)
        candidates = read.new_empty(length if keeps else 1, batch, size)
        gates = torch.empty_like(candidates)
        own, squares = read.new_empty(batch, count + size), read.new_empty(batch, count)
        for t in range(length):
            at = t if keeps else 0
            torch.addmm(offset, states[t], turned, out=own)
            part = torch.clamp(reads[t, :, :count], min=0, out=parts[at])
            part += own[:, :count].clamp_(min=0)
            total = torch.mul(part, part, out=squares).sum(1, keepdim=True).clamp_(min=smallest)
            sums[at] = total
            torch.mm(squares, roles, out=candidates[at])
            candidates[at] /= total
            if tanh:
                candidates[at].tanh_()
            torch.add(own[:, count:], reads[t, :, count:], out=gates[at]).sigmoid_()
            torch.lerp(states[t], candidates[at], gates[at], out=states[t + 1])
        if keeps:
            ctx.save_for_backward(reads, weight, roles, states, parts, sums, candidates, gates)
            ctx.tanh, ctx.smallest = tanh, smallest
        return states[1:]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        reads, weight, roles, states, parts, sums, candidates, gates = ctx.saved_tensors
        length, batch, count = parts.shape
        size = roles.shape[1]
        turned = roles.t()
        # [x, b, N + d]: of what the state gives to the fillers, before their rectifier, and to the gate.
        own = parts.new_empty(length, batch, count + size)
        of_candidates = torch.empty_like(candidates)
        fillers = parts.square().div_(sums)
        of_fillers, state = parts.new_empty(batch, count), parts.new_zeros(batch, size)
        read = torch.empty_like(reads) if ctx.needs_input_grad[0] else None
        for t in range(length - 1, -1, -1):
            state = state + grad[t]
            gate, candidate = gates[t], candidates[t]
            of_gate = own[t, :, count:]
            torch.mul(candidate - states[t], state, out=of_gate)
            of_gate *= gate * (1 - gate)
            inner = torch.mul(state, gate, out=of_candidates[t])
            if ctx.tanh:
                inner *= 1 - candidate.square()
            torch.mm(inner, turned, out=of_fillers)
            # The sum is a constant where it was raised to the smallest one.
            raised = sums[t] <= ctx.smallest
            mean = (of_fillers * fillers[t]).sum(1, keepdim=True).masked_fill_(raised, 0)
            of_parts = of_fillers.sub_(mean).mul_(parts[t]).mul_(2 / sums[t])
            of_token = reads[t, :, :count]
            if read is not None:
                torch.mul(of_parts, of_token > 0, out=read[t, :, :count])
                read[t, :, count:] = of_gate
            # A filler of the state passed its rectifier where the part is more than the token's own.
            torch.mul(of_parts, parts[t] > of_token.clamp(min=0), out=own[t, :, :count])
            state = torch.addmm(state * (1 - gate), own[t], weight)
        flat = own.flatten(0, 1)
        needs = ctx.needs_input_grad
        return (
            read,
            flat.t() @ states[:-1].flatten(0, 1) if needs[1] else None,
            flat.sum(0) if needs[2] else None,
            fillers.flatten(0, 1).t() @ of_candidates.flatten(0, 1) if needs[3] else None,
            None,
            None,
        )
