"""The loop that runs a recurrent operator over tokens, and the stage of a layer that such an operator is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope, at_least_float32
from peirce.kernels import PairTerm, Rotation
from peirce.networks.channels import CachedState, drop_out
from peirce.networks.mixing import Norms, UnaryNorm
from peirce.parts import Plan, RecurrentOperator, without_autocast

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
                return {name: _keep_padded(token[1], after[name], before[name]) for name in before}, output
            return {name: after[name] for name in before}, output

        tokens = tuple(each.transpose(0, 1) for each in (reads, real) if each is not None)
        one = isinstance(atoms.shape[1], int) and atoms.shape[1] == 1  # a symbolic size is not asked
        if torch.compiler.is_compiling() and not one:
            now, outputs = _scan(step, now, tokens)
        else:
            steps = []
            for token in zip(*(values.unbind(0) for values in tokens), strict=True):
                now, output = step(now, token)
                steps.append(output)
            outputs = torch.stack(steps)
    kind = atoms.dtype
    return outputs.transpose(0, 1).to(kind), {name: value.to(kind) for name, value in now.items()}


def _scan(
    step: _Step, state: dict[str, Tensor], tokens: tuple[Tensor, ...]
) -> tuple[dict[str, Tensor], Tensor]:
    """The loop as a scan. Its tensors share no memory with each other or with what a step is given."""
    from torch._higher_order_ops.scan import scan

    def step_apart(before: dict[str, Tensor], token: tuple[Tensor, ...]) -> tuple[dict[str, Tensor], Tensor]:
        after, output = step(before, token)
        return {name: value.clone() for name, value in after.items()}, output.clone()

    result: tuple[dict[str, Tensor], Tensor] = scan(
        step_apart, {name: value.clone() for name, value in state.items()}, tokens
    )
    return result


def _keep_padded(real: Tensor, after: Tensor, before: Tensor) -> Tensor:
    """[b, ...]: the next state of the rows whose token is real, bool [b]."""
    return torch.where(real.reshape(-1, *[1] * (after.dim() - 1)), after, before)


@final
class Recurrence(nn.Module):
    """A recurrent operator where other layers have a `Mixing`: it reads the tokens of the unary branch from the left.

    Args:
        plan: the plan of the layer, whose one mixing operator it is.
        operator: the operator, owned by the layer under its canonical name.
    """

    def __init__(self, plan: Plan, operator: RecurrentOperator) -> None:
        super().__init__()
        self.dropout, self.fuse = plan.dims.dropout, plan.fuse
        self._operator = (operator,)  # in a tuple, so that it is not a module of this one as well

    def forward(
        self,
        state: Predicates,
        norms: Norms | UnaryNorm,
        scope: Scope,
        terms: Sequence[PairTerm | Rotation] = (),
        cache: CachedState | None = None,
    ) -> tuple[Predicates, CachedState]:
        """The atoms with what the operator gives of the normalised unary ones [b, x, d1] added, as `Mixing` does.

        Padding leaves the operator's state as it is. The cache holds that state after the tokens before, [b, ...].
        """
        (operator,) = self._operator
        normal = scope.zero_unary(norms.unary(state.unary))
        result = None
        if self.fuse and cache is None and not torch.compiler.is_compiling():
            result = _fused(operator, normal, scope.tokens)
        new_cache: dict[str, Tensor] = {}
        if result is None:
            result, new_cache = recur(operator, normal, cache or None, scope.tokens)
        unary = state.unary + drop_out(result, self.dropout if self.training else 0.0)
        return Predicates(unary, state.binary), {} if cache is None else new_cache

    def cached_channels(self) -> dict[str, tuple[None, tuple[int, ...]]]:
        """The sizes of the operator's state, by name; it belongs to no branch, since it has no axis of tokens."""
        return {name: (None, tuple(value.shape)) for name, value in self._operator[0].initial().items()}


def _fused(operator: RecurrentOperator, atoms: Tensor, real: Tensor | None) -> Tensor | None:
    """All tokens by the operator's `fused`, which knows no padding: real tokens are moved to the front and back."""
    if real is None:
        return operator.fused(atoms)
    order = (~real).long().argsort(stable=True, dim=1).unsqueeze(2)
    packed = operator.fused(atoms.gather(1, order.expand_as(atoms)))
    return None if packed is None else packed.gather(1, order.argsort(1).expand_as(packed))
