"""pair_feedforward: a feed-forward network on each pair's relation by itself."""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from attrs import frozen
from torch import nn

from peirce.algebra import Predicates, Scope
from peirce.parts import Dims, PlainMap, PlainScope, StateOperator, plain_gelu, plain_linear, plain_relu


@frozen(kw_only=True)
class PairFeedForwardOptions:
    """How the hidden layer is activated.

    Args:
        gelu: whether by gelu, exact by the error function, in place of the published relu.
    """

    gelu: bool = False


class PairFeedForward(StateOperator):
    """u(x,y) += W2 f(W1 u(x,y)), with f relu or gelu; the converse u(y,x) is not seen, as bool sees it."""

    name = "pair_feedforward"
    typing = "B <- B"
    scope_rule = "pairwise"
    source = (
        "Edge Transformer (Bergen et al., 2021), Section 3; AlphaFold 2 (Jumper et al., 2021), Algorithm 15"
    )
    Options = PairFeedForwardOptions
    example: ClassVar = {"gelu": True}

    @classmethod
    def check(cls, options: PairFeedForwardOptions, dims: Dims, scope: str) -> str | None:
        """Why there is nothing to work on."""
        return None if dims.binary else "it updates relations, and the model has none"

    def __init__(self, options: PairFeedForwardOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.hidden = nn.Linear(dims.binary, dims.feedforward_binary)
        self.output = nn.Linear(dims.feedforward_binary, dims.binary)
        self.dropout = nn.Dropout(dims.dropout)

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of the relations, [b, x, y, d2]; the properties stay as they are."""
        assert state.binary is not None
        activate = F.gelu if self.options.gelu else F.relu
        hidden = self.dropout(activate(self.hidden(state.binary)))
        return Predicates(state.unary.new_zeros(()).expand_as(state.unary), self.output(hidden))

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """The network on each relation."""
        hidden = plain_linear(given["binary"], parameters, "hidden", dims.feedforward_binary)
        active = plain_gelu(hidden) if self.options.gelu else plain_relu(hidden)
        return {"binary": plain_linear(active, parameters, "output", dims.binary)}
