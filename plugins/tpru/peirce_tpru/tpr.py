"""tpr: a tensor product representation of each token, unbound into fillers and bound again with roles."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import at_least_float32
from peirce.parts import (
    Augmenter,
    Dims,
    PlainMap,
    PlainScope,
    Tokens,
    plain_linear,
    plain_relu,
    set_small_normal,
)

LEAST_SUM = 1e-7
"""The sum that fillers are divided by is at least this, so that a token without any has zeros."""


@frozen(kw_only=True)
class TensorProductOptions:
    """The sizes of the representation.

    Args:
        roles: N, the number of roles and of fillers.
        size: d, the width of a binding complex; None for that of the token embeddings, and then nothing maps
            it back.
    """

    roles: int = field(default=64, validator=validators.ge(1))
    size: int | None = field(default=None, validator=validators.optional(validators.ge(1)))


class TensorProduct(Augmenter):
    """x + b with b = R f, f[n] = g[n]^2 / sum_m g[m]^2 and g = relu(U' W x + b_x); no recurrence.

    U = W_u V unbinds and R = W_r V binds; V is a fixed d x N matrix of standard normal numbers.
    """

    name = "tpr"
    source = "TPRU (Tang et al., 2018), eq. 1 and 4-7 and Section 3.3"
    expected_failures: ClassVar = {
        "words": "heads tie to the embeddings before the representation, as in every model saved so far"
    }
    Options = TensorProductOptions

    def __init__(self, options: TensorProductOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        size = options.size or dims.unary
        self.register_buffer("basis", torch.randn(options.roles, size))
        self.reader = nn.Linear(dims.unary, size, bias=False)
        self.unbinding = nn.Linear(size, size, bias=False)
        self.binding = nn.Linear(size, size, bias=False)
        self.shift = nn.Parameter(torch.ones(()))
        self.writer = nn.Linear(size, dims.unary, bias=False) if size != dims.unary else None
        for linear in (self.reader, self.unbinding, self.binding, self.writer):
            if linear is not None:
                set_small_normal(linear)

    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        """[b, x, d1] -> [b, x, d1]."""
        complexes = self.fillers(embeddings) @ self.binding(self.get_buffer("basis"))
        return embeddings + (complexes if self.writer is None else self.writer(complexes))

    def fillers(self, embeddings: Tensor) -> Tensor:
        """Each token's distribution over the roles, in at least float32 inside: [b, x, d1] -> [b, x, N]."""
        unbound = self.reader(embeddings) @ self.unbinding(self.get_buffer("basis")).T
        squares = F.relu(at_least_float32(unbound) + self.shift).square()
        return (squares / squares.sum(-1, keepdim=True).clamp_min(LEAST_SUM)).to(embeddings.dtype)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Token by token: the fillers of its roles, and their binding complex."""
        size, basis = self.options.size or dims.unary, parameters["basis"]
        unbinding, binding = (
            plain_linear(basis, parameters, name, size, bias=False) for name in ("unbinding", "binding")
        )
        found = []
        for atoms in given["embeddings"]:
            read = plain_linear(atoms, parameters, "reader", size, bias=False)
            squares = [float(plain_relu(sum(read * role) + parameters["shift"])) ** 2 for role in unbinding]
            total = max(sum(squares), LEAST_SUM)
            bound = sum(square / total * role for square, role in zip(squares, binding, strict=True))
            if size != dims.unary:
                bound = plain_linear(bound, parameters, "writer", dims.unary, bias=False)
            found.append(atoms + bound)
        return {"embeddings": found}
