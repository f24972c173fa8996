"""Positions as checks see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from attrs import define
from torch import Tensor

from peirce.algebra import Scope
from peirce.kernels import PairBias
from peirce.parts import BinaryPosition, Dims, PairPosition, ScopePosition, UnaryPosition
from peirce.testing.failures import BrokenError
from peirce.testing.subjects.base import Outputs, atoms
from peirce.testing.subjects.tokens import TokenSubject
from peirce.testing.views import Slot, View


@define
class PositionSubject(TokenSubject):
    """A position, asked at every place that it serves; a pair bias shows the vector of every pair."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """One, since positions see no scope."""
        return ("bidirectional",)

    def reads(self) -> tuple[Slot, ...]:
        """The tokens."""
        return self.token_slots()

    def writes(self, made: Any) -> tuple[Slot, ...]:
        """What each place is given, but the vectors of pairs, whose tables say how many there are."""
        declared = []
        if isinstance(made, UnaryPosition):
            declared.append(atoms("unary", "U", {"d": self.dims.unary}))
        if isinstance(made, BinaryPosition):
            declared.append(atoms("binary", "B", {"d": self.dims.binary}))
        if isinstance(made, ScopePosition):
            declared.append(Slot("scope", ("batch", "length", "length"), "bool"))
        return tuple(declared)

    def gives(self, made: Any, tensors: Sequence[Tensor], view: View, scope: Scope) -> Outputs:
        """What each place is given."""
        tokens = self.tokens(tensors, view)
        given: list[Tensor] = []
        if isinstance(made, UnaryPosition):
            given.append(made.unary(tokens))
        if isinstance(made, BinaryPosition):
            given.append(made.binary(tokens))
        if isinstance(made, ScopePosition):
            given.append(made.scope(tokens))
        outputs = list(zip(self.writes(made), given, strict=True))
        if isinstance(made, PairPosition):
            biases = made.pairs(tokens)
            if len(biases) != self.dims.layers:
                raise BrokenError(f"pairs gives {len(biases)} biases for {self.dims.layers} layers")
            for layer, bias in enumerate(biases):
                outputs += _pair_vectors(bias, f"layer {layer}", self.dims)
        return outputs

    def settled(self, outputs: Outputs, view: View, scope: Scope) -> Outputs:
        """A batch axis of size 1 holds for every example."""
        return [(slot, _spread(tensor, slot, view)) for slot, tensor in outputs]


def _pair_vectors(bias: PairBias, name: str, dims: Dims) -> Outputs:
    """Every pair's key and value vector and score, as the definition of a pair bias says, table row by table row."""
    rows = torch.zeros_like(bias.ids[:, :, 0]) if bias.rows is None else bias.rows
    outputs = []
    for role, table, size in (
        ("key", bias.key, (dims.heads, dims.head_size)),
        ("query", bias.query, (dims.heads, dims.head_size)),
        ("value", bias.value, (dims.heads, dims.head_size)),
        ("score", bias.score, (dims.heads,)),
    ):
        if table is not None:
            vectors = table[rows.unsqueeze(2), bias.ids].expand(-1, -1, -1, *size)
            outputs.append((Slot(f"{name} {role}", ("batch", "length", "length", *size)), vectors))
    return outputs


def _spread(tensor: Tensor, slot: Slot, view: View) -> Tensor:
    batch = tensor.shape[slot.axes.index("batch")]
    return tensor.expand(view.batch, *tensor.shape[1:]) if batch == 1 else tensor
