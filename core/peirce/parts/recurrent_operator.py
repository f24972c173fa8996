"""The contract of recurrent operators, which read tokens one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from peirce.parts.base import Dims, SizedPart


class RecurrentOperator(SizedPart, nn.Module, ABC):
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

    def __init__(self, options: Any, dims: Dims) -> None:
        nn.Module.__init__(self)
        self.options = options

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
        """The equations written out over nested lists, token by token, for one example.

        Args:
            atoms: x lists of d1 numbers.
            parameters: the parameters and buffers, nested lists by their names in the state dict.

        Returns:
            The outputs, x lists of r numbers.
        """
