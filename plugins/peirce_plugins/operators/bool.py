"""bool: Boolean functions of the atoms at one place, as a multilayer perceptron on each branch."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from peirce.blocks import blocked, row_blocks
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
        self.unary = Clause(dims.unary, dims.feedforward_unary, gated=gated)
        self.binary = PairClause(dims.binary, dims.feedforward_binary, gated=gated) if dims.binary else None

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of both branches; relations see their converse, which is zero outside the scope."""
        binary = None
        if self.binary is not None:
            assert state.binary is not None
            binary = self.binary(state.binary)
        return Predicates(self.unary(state.unary), binary)


class Clause(nn.Module):
    """A multilayer perceptron with one hidden layer, gated or not."""

    def __init__(self, width: int, hidden: int, *, gated: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden)
        self.gate = nn.Linear(width, hidden) if gated else None
        self.output = nn.Linear(hidden, width)

    def forward(self, atoms: Tensor) -> Tensor:
        """[..., d] -> [..., d]."""
        hidden = self.hidden(atoms)
        return self.output(F.gelu(hidden) if self.gate is None else F.relu(self.gate(atoms)) * hidden)


class PairClause(nn.Module):
    """The binary form: it reads a relation beside its converse."""

    def __init__(self, width: int, hidden: int, *, gated: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(2 * width, hidden)
        self.gate = nn.Linear(2 * width, hidden) if gated else None
        self.output = nn.Linear(hidden, width)
        self.converse = nn.Linear(width, width)

    def forward(self, atoms: Tensor) -> Tensor:
        """[b, x, y, d] -> [b, x, y, d]."""
        if not blocked(atoms):
            return self._rows(atoms, atoms.transpose(1, 2))
        result = torch.empty_like(atoms)
        for rows in row_blocks(atoms, self.hidden.out_features):
            result[:, rows] = self._rows(atoms[:, rows], atoms[:, :, rows].transpose(1, 2))
        return result

    def _rows(self, atoms: Tensor, converse: Tensor) -> Tensor:
        """u(x,y) and u(y,x) of some rows x, both [b, x, y, d] -> [b, x, y, d]."""
        both = torch.cat([atoms, converse], -1)
        hidden = self.hidden(both)
        hidden = F.gelu(hidden) if self.gate is None else F.relu(self.gate(both)) * hidden
        return self.output(hidden) + self.converse(converse)
