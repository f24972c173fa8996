"""From a plan's operators to one stage of a network.

`Mixing` wires the operators of a layer that mix tokens: it reads their kernels and premises from the branches, keeps
their mask contract, and writes what they infer. Its projections are fused, and a third party's operator is fused like
any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peirce import pairs
from peirce.blocks import blocked, row_blocks
from peirce.components import Branch, Dims, Reader, Writer
from peirce.fusion import FusedLinear, folded
from peirce.pairs import PairBias
from peirce.plan import Plan, Planned, PlannedOperator, resolve
from peirce.predicates import Predicates
from peirce.scope import Scope

__all__ = [
    "Mixing",
    "Plan",
    "Planned",
    "PlannedOperator",
    "Projections",
    "activate",
    "add_pairs",
    "folded",
    "resolve",
]


class Projections(nn.Module):
    """The projections of one operator, under the names that the state dict keeps: kernel, premise, output."""

    def __init__(
        self,
        dims: Dims,
        kernel: Reader | None = None,
        premise: Reader | None = None,
        output: Writer | None = None,
    ) -> None:
        super().__init__()
        if kernel is not None:
            self.kernel = nn.Linear(_width(dims, kernel), _channels(kernel), bias=kernel.bias)
        if premise is not None:
            self.premise = nn.Linear(_width(dims, premise), _channels(premise), bias=premise.bias)
        if output is not None:
            self.output = nn.Linear(_channels(output), _width(dims, output), bias=output.bias)


class _Read(NamedTuple):
    """One channel group of a branch: whose it is, which role it plays, and how it is treated.

    Groups that are treated alike stand side by side (`order`), so that one softmax and one mask serve them all: 0 and 1
    are the softmax kernels with and without dropout, 2 the premises that are zero outside the scope, 3 the rest.
    """

    operator: int
    role: str
    branch: Branch
    order: int
    width: int
    shape: tuple[int, ...]
    tokens_last: bool

    @classmethod
    def of(cls, operator: int, role: str, reader: Reader, rule: str) -> _Read:
        if reader.branch == "U":
            order = 3
        elif reader.activation == "softmax":
            order = 0 if reader.dropout else 1
        else:
            order = 2 if rule == "reduce" else 3
        shape = tuple(reader.shape.values())
        return cls(operator, role, reader.branch, order, _channels(reader), shape, reader.tokens_last)


class Mixing(nn.Module):
    """The operators of one layer that mix tokens, in parallel: one increment for each branch.

    Args:
        plan: the plan; its `mixing` operators are wired.
        operators: the projections of each operator, owned by the layer under their canonical names.
    """

    def __init__(self, plan: Plan, operators: Sequence[Projections]) -> None:
        super().__init__()
        self.plans = plan.mixing
        self.dropout = plan.dims.dropout
        self.fuse = plan.fuse
        self.reads: dict[Branch, list[_Read]] = {"U": [], "B": []}
        self.writes: dict[Branch, list[int]] = {"U": [], "B": []}
        for i, planned in enumerate(self.plans):
            assert planned.kernel is not None
            assert planned.premise is not None
            assert planned.output is not None
            rule = planned.part.scope_rule
            for role, reader in (("kernel", planned.kernel), ("premise", planned.premise)):
                self.reads[reader.branch].append(_Read.of(i, role, reader, rule))
            self.writes[planned.output.branch].append(i)
        self.readers: dict[Branch, FusedLinear] = {}
        self.writers: dict[Branch, FusedLinear] = {}
        for branch, reads in self.reads.items():
            reads.sort(key=lambda read: read.order)
            if reads:
                maps = [(getattr(operators[r.operator], r.role), self._reader(r).scale) for r in reads]
                self.readers[branch] = FusedLinear(maps, "outputs", fuse=plan.fuse)
            if self.writes[branch]:
                maps = [(operators[i].output, 1.0) for i in self.writes[branch]]
                self.writers[branch] = FusedLinear(maps, "inputs", fuse=plan.fuse)
        self.fused = nn.ModuleList([*self.readers.values(), *self.writers.values()])

    def forward(self, state: Predicates, scope: Scope, biases: Sequence[PairBias] = ()) -> Predicates:
        """The increments of both branches.

        Args:
            state: normalised atoms, zero outside the scope; unary [b, x, d1], binary [b, x, y, d2].
            scope: who may look at whom.
            biases: pair biases to add beside the operators that score pairs and sum values.

        Returns:
            Increments; zero unary atoms, or None for binary ones, where no operator writes the branch.
        """
        channels: dict[tuple[int, str], Tensor] = {}
        if self.reads["U"]:
            self._read("U", state.unary, scope, channels)
        if self.reads["B"]:
            assert state.binary is not None
            self._read("B", state.binary, scope, channels)
        results = [self._infer(i, channels, scope, biases) for i in range(len(self.plans))]
        unary, binary = self._write("U", results), self._write("B", results)
        return Predicates(torch.zeros_like(state.unary) if unary is None else unary, binary)

    def _read(
        self, branch: Branch, atoms: Tensor, scope: Scope, channels: dict[tuple[int, str], Tensor]
    ) -> None:
        """Read every channel group of one branch, and keep the mask contract of each."""
        reads = self.reads[branch]
        if self.fuse and branch == "B" and blocked(atoms):
            pieces = self._by_blocks(atoms, scope)
        elif self.fuse:
            pieces = self._together(self.readers[branch].read(atoms), reads, scope)
        else:
            apart = zip(self.readers[branch].read_each(atoms), reads, strict=True)
            pieces = [piece for each, read in apart for piece in self._together(each, [read], scope)]
        for read, piece in zip(reads, pieces, strict=True):
            channels[read.operator, read.role] = piece.view(*piece.shape[:-1], *read.shape)

    def _by_blocks(self, atoms: Tensor, scope: Scope) -> list[Tensor]:
        """The channel groups of the binary branch, each in its own place and layout, by blocks of rows."""
        reads, (weight, bias) = self.reads["B"], self.readers["B"].weights()
        batch, length = atoms.shape[:2]
        places = []
        for read in reads:
            if read.tokens_last:
                places.append(atoms.new_empty(batch, read.width, length, length).permute(0, 2, 3, 1))
            else:
                places.append(atoms.new_empty(batch, length, length, read.width))
        for rows in row_blocks(atoms, len(weight)):
            block = F.linear(atoms[:, rows], weight, bias)
            for place, piece in zip(places, self._together(block, reads, scope.rows(rows)), strict=True):
                place[:, rows] = piece
        return places

    def _together(self, read: Tensor, reads: Sequence[_Read], scope: Scope) -> list[Tensor]:
        """The channel groups of one product: one softmax serves all kernels that have one, one mask all premises."""
        groups = [[r.width for r in reads if r.order == order] for order in range(4)]
        dropped, plain, zeroed, rest = (sum(widths) for widths in groups)
        weights, premises, others = read.split_with_sizes([dropped + plain, zeroed, rest], -1)
        if dropped or plain:
            weights = scope.softmax(weights)
        if zeroed:
            premises = scope.zero_binary(premises)
        treated = [weights[..., :dropped], weights[..., dropped:], premises, others]
        if dropped:
            treated[0] = F.dropout(treated[0], self.dropout, self.training)
        parts = zip(treated, groups, strict=True)
        return [piece for part, widths in parts if widths for piece in part.split_with_sizes(widths, -1)]

    def _reader(self, read: _Read) -> Reader:
        reader: Reader = getattr(self.plans[read.operator], read.role)
        return reader

    def _write(self, branch: Branch, results: Sequence[Tensor]) -> Tensor | None:
        """The sum of what the operators that write a branch infer, or None where none does."""
        if branch not in self.writers:
            return None
        writer, first_channel = self.writers[branch], 2 if branch == "U" else 3
        channels = [results[i].flatten(first_channel) for i in self.writes[branch]]
        if not self.fuse or branch == "U" or not blocked(channels[0]):
            return writer.write(channels)
        weight, bias = writer.weights()
        written = channels[0].new_empty(*channels[0].shape[:-1], len(weight))
        for rows in row_blocks(written, weight.shape[1]):
            written[:, rows] = F.linear(torch.cat([c[:, rows] for c in channels], -1), weight, bias)
        return written

    def _infer(
        self, i: int, channels: Mapping[tuple[int, str], Tensor], scope: Scope, biases: Sequence[PairBias]
    ) -> Tensor:
        planned = self.plans[i]
        assert planned.operator is not None
        assert planned.kernel is not None
        kernel, premise = channels[i, "kernel"], channels[i, "premise"]
        drops = planned.kernel.branch == "U" and planned.kernel.dropout and self.training
        result = planned.operator.infer(kernel, premise, scope.dropping(self.dropout) if drops else scope)
        result = add_pairs(planned, result, kernel, biases)
        return activate(planned.activation, result)


def add_pairs(planned: PlannedOperator, result: Tensor, kernel: Tensor, biases: Sequence[PairBias]) -> Tensor:
    """A static key term beside an operator that scores pairs, a static value term beside one that sums values.

    FOLNet, Appendix E: the key term is prod, and the value term mu, with premises that depend on the positions alone.
    """
    role = planned.part.pair
    for bias in biases:
        if role == "score" and (bias.key is not None or bias.score is not None):
            assert planned.premise is not None
            result = result + pairs.scores(kernel * planned.premise.scale, bias)
        elif role == "value" and bias.value is not None:
            result = result + pairs.mix(kernel, bias)
    return result


def activate(name: str, logits: Tensor) -> Tensor:
    """The implication's activation on inferred logits: ln(1 + 2 exp z), or its ReLU bound; FOLNet, eq. 9, 27-29."""
    if name == "none":
        return logits
    shifted = logits + math.log(2.0)
    return F.softplus(shifted) if name == "modus_ponens" else F.relu(shifted)


def _width(dims: Dims, channels: Reader | Writer) -> int:
    return dims.unary if channels.branch == "U" else dims.binary


def _channels(channels: Reader | Writer) -> int:
    return math.prod(channels.shape.values())
