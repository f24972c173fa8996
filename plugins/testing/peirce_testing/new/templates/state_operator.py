"""new_part: an operator with weights of its own, behind those that mix tokens.

Layers of a spec with it:

    [model.operators]
    layer = "j.a"
    state = ["new_part"]
"""

import torch
from peirce.algebra import Predicates, Scope
from peirce.parts import Dims, NoOptions, PlainMap, PlainScope, StateOperator, plain_linear, plain_sigmoid
from torch import nn


class NewPart(StateOperator):
    """u(x) += sigmoid(G u(x)) * (W u(x)): a map of a token's properties, channel by channel behind a gate."""

    name = "new_part"
    typing = "U <- U"
    scope_rule = "none"
    source = "gated linear units (Dauphin et al., 2017), eq. 1, without the convolution"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.content = nn.Linear(dims.unary, dims.unary)
        self.gate = nn.Linear(dims.unary, dims.unary)

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments [b, x, d1]; relations stay as they are."""
        unary = self.gate(state.unary).sigmoid() * self.content(state.unary)
        return Predicates(unary, None if state.binary is None else torch.zeros_like(state.binary))

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Token by token: the gate times the content."""
        gate, content = (
            plain_linear(given["unary"], parameters, name, dims.unary) for name in ("gate", "content")
        )
        return {"unary": plain_sigmoid(gate) * content}
