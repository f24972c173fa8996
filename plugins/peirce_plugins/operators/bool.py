"""bool: Boolean functions of the atoms at one place, as a multilayer perceptron on each branch."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from peirce.blocks import again, blocked, blocked_training, blocks, row_splits
from peirce.components import Dims, StateOperator
from peirce.predicates import Predicates
from peirce.scope import Scope
from torch import Tensor, nn


@frozen(kw_only=True)
class BoolOptions:
    """How the hidden layer is activated.

    Args:
        mlp: `gelu` for gelu(W x) (exact, by the error function), `reglu` for relu(G x) * (W x).
    """

    mlp: Literal["gelu", "reglu"] = field(default="gelu", validator=validators.in_(("gelu", "reglu")))


class Bool(StateOperator):
    """u(x) += MLP(u(x)) and u(x,y) += MLP([u(x,y), u(y,x)]) + S u(y,x): what the other operators' atoms imply here."""

    name = "bool"
    letter = "b"
    typing = "UB <- UB"
    scope_rule = "pairwise"
    source = "FOLNet (Chen, 2023), Appendix A.3"
    Options = BoolOptions

    def __init__(self, options: BoolOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        gated = options.mlp == "reglu"
        self.unary = Clause(dims.unary, dims.feedforward_unary, dims.unary, gated=gated)
        self.binary = self.converse = None
        if dims.binary:
            self.binary = Clause(2 * dims.binary, dims.feedforward_binary, dims.binary, gated=gated)
            self.converse = nn.Linear(dims.binary, dims.binary)

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of both branches; relations see their converse, which is zero outside the scope."""
        binary = None if state.binary is None else self._pairs(state.binary, scope.converse(state.binary))
        return Predicates(self.unary(state.unary), binary)

    def _pairs(self, atoms: Tensor, converse: Tensor) -> Tensor:
        """u(x,y) and u(y,x), both [b, x, y, d2] -> [b, x, y, d2]."""
        assert self.binary is not None
        hidden = self.binary.hidden.out_features
        if blocked_training(atoms):
            pairs = zip(row_splits(atoms, hidden), row_splits(converse, hidden), strict=True)
            return torch.cat([again(self._rows, *each) for each in pairs]).view_as(atoms)
        if not blocked(atoms):
            return self._rows(atoms, converse)
        result = torch.empty_like(atoms)
        for block in blocks(atoms, hidden):
            result[block] = self._rows(atoms[block], converse[block])
        return result

    def _rows(self, atoms: Tensor, converse: Tensor) -> Tensor:
        """u(x,y) and u(y,x) of some rows, both [..., d2] -> [..., d2]."""
        assert self.binary is not None
        assert self.converse is not None
        converse = converse.contiguous()  # once, and not in each of the two products that read it
        return self.binary(torch.cat([atoms, converse], -1)) + self.converse(converse)


class Clause(nn.Module):
    """A multilayer perceptron with one hidden layer, gated or not."""

    def __init__(self, width: int, hidden: int, output: int, *, gated: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden)
        self.gate = nn.Linear(width, hidden) if gated else None
        self.output = nn.Linear(hidden, output)

    def forward(self, atoms: Tensor) -> Tensor:
        """[..., width] -> [..., output]."""
        hidden = self.hidden(atoms)
        return self.output(F.gelu(hidden) if self.gate is None else F.relu(self.gate(atoms)) * hidden)
