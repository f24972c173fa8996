"""The loop that runs a recurrent operator over tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from peirce.algebra import at_least_float32
from peirce.parts import RecurrentOperator, without_autocast

_Step = Callable[[dict[str, Tensor], tuple[Tensor, ...]], tuple[dict[str, Tensor], Tensor]]


def recur(
    operator: RecurrentOperator,
    atoms: Tensor,
    state: Mapping[str, Tensor] | None = None,
    real: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Run a recurrent operator step by step; in a traced graph by a scan, whose length is symbolic.

    Args:
        operator: the operator.
        atoms: [b, x, d1].
        state: after the tokens before, [b, ...] each; the initial one if None.
        real: bool [b, x], false at padding, which leaves the state as it is; None when all tokens are real.

    Returns:
        The outputs [b, x, r], and the state after the last token, both in the dtype of `atoms`.
    """
    reads = at_least_float32(operator.read(atoms))
    with without_autocast(reads):
        weights = {name: at_least_float32(value) for name, value in operator.weights().items()}
        if state is None:
            batch = atoms.shape[0]
            state = {name: value.expand(batch, *value.shape) for name, value in operator.initial().items()}
        now = {name: at_least_float32(value) for name, value in state.items()}

        def step(before: dict[str, Tensor], token: tuple[Tensor, ...]) -> tuple[dict[str, Tensor], Tensor]:
            output, after = operator.step(before, token[0], weights)
            if real is not None:
                return {name: _where(token[1], after[name], before[name]) for name in before}, output
            return {name: after[name] for name in before}, output

        tokens = tuple(each.transpose(0, 1) for each in (reads, real) if each is not None)
        one = isinstance(atoms.shape[1], int) and atoms.shape[1] == 1  # a symbolic size is not asked
        if torch.compiler.is_compiling() and not one:
            now, outputs = _scanned(step, now, tokens)
        else:
            steps = []
            for token in zip(*(values.unbind(0) for values in tokens), strict=True):
                now, output = step(now, token)
                steps.append(output)
            outputs = torch.stack(steps)
    kind = atoms.dtype
    return outputs.transpose(0, 1).to(kind), {name: value.to(kind) for name, value in now.items()}


def _scanned(
    step: _Step, state: dict[str, Tensor], tokens: tuple[Tensor, ...]
) -> tuple[dict[str, Tensor], Tensor]:
    """The loop as a scan. Its tensors share no memory with each other or with what a step is given."""
    from torch._higher_order_ops.scan import scan

    def apart(before: dict[str, Tensor], token: tuple[Tensor, ...]) -> tuple[dict[str, Tensor], Tensor]:
        after, output = step(before, token)
        return {name: value.clone() for name, value in after.items()}, output.clone()

    result: tuple[dict[str, Tensor], Tensor] = scan(
        apart, {name: value.clone() for name, value in state.items()}, tokens
    )
    return result


def _where(real: Tensor, after: Tensor, before: Tensor) -> Tensor:
    """[b, ...]: the next state of the rows whose token is real, bool [b]."""
    return torch.where(real.reshape(-1, *[1] * (after.dim() - 1)), after, before)
