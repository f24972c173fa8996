"""The contract of recurrent operators, which read tokens one after the other, and the loop that runs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from peirce.algebra import at_least_float32
from peirce.parts.base import Dims, Part
from peirce.parts.precision import full_precision

_Step = Callable[[dict[str, Tensor], tuple[Tensor, ...]], tuple[dict[str, Tensor], Tensor]]


class RecurrentOperator(Part, nn.Module, ABC):
    """An operator with a state, which meets the tokens in their order; an LSTM's cell is one.

    Its output at a token depends on that token and those before it. `read` computes what depends on one token alone,
    for all tokens at once. `weights` computes what depends on no token, once a pass. `step` is the rest, a pure
    function of tensors. The architecture does everything else: the loop over tokens, both directions, padding, the
    scan of an exported graph, and the cached state of generation.

    It reads atoms of width `dims.unary` and gives outputs of width `dims.recurrent`.

    Attributes:
        typing: as for other operators.
        letter: none, since specs name a recurrent operator in full.
        scope_rule: the mask contract: a token is read after those before it.
    """

    typing: ClassVar[str] = "U <- U x U"
    letter: ClassVar[str | None] = None
    scope_rule: ClassVar[Literal["causal"]] = "causal"

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        """Why the operator cannot work with these options, sizes and kind of scope; None when it can."""
        return None

    def __init__(self, options: Any, dims: Dims) -> None:
        nn.Module.__init__(self)

    @abstractmethod
    def read(self, atoms: Tensor) -> Tensor:
        """What a step is given of its token: [b, x, d1] -> [b, x, channels], each token from itself alone."""

    def weights(self) -> Mapping[str, Tensor]:
        """What every step is given: parameters, buffers, and what is computed from them alone, such as a product."""
        return {}

    @abstractmethod
    def initial(self) -> Mapping[str, Tensor]:
        """The state before the first token, its tensors by name, without the axis of the batch."""

    @abstractmethod
    def step(
        self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Read one token.

        All tensors are in at least float32, whatever the precision of the model: a state is rounded once more at each
        token. So parameters are taken from `weights`, and not from the module.

        Args:
            state: as `initial` names it, [b, ...] each.
            read: [b, channels], what `read` gives of the token.
            weights: what `weights` gives.

        Returns:
            The output [b, r], r the recurrent width, and the next state.
        """

    def fused(self, atoms: Tensor) -> Tensor | None:
        """All tokens from the initial state, [b, x, d1] -> [b, x, r], by a faster way than step by step.

        None where the operator has none. Traced graphs and generation go step by step.
        """
        return None

    @abstractmethod
    def reference(self, atoms: list[list[float]], parameters: Mapping[str, Any]) -> list[list[float]]:
        """The same equations as literal loops over nested lists, for one example.

        Args:
            atoms: x lists of d1 numbers.
            parameters: the parameters and buffers, nested lists by their names in the state dict.

        Returns:
            The outputs, x lists of r numbers.
        """


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
    with full_precision(reads):
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
