"""From a plan's operators to one stage of a network.

`Mixing` wires the operators of a layer that mix tokens: it reads their kernels and premises from the branches, keeps
their mask contract, and writes what they infer. Its projections are fused, and a third party's operator is fused like
any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peirce.algebra import Attended, Predicates, Scope
from peirce.kernels import FusedLinear, PairBias, blocked_training, pair_scores, pair_values
from peirce.parts.base import Dims
from peirce.parts.operator import Branch, Reader, Writer
from peirce.parts.plan import Plan, PlannedOperator

CachedState = Mapping[str, Tensor]
"""The cached keys and values of earlier tokens, by name: channels of `cached` readers, [b, a, *shape] from unary
atoms and [b, a, y, *shape] from binary ones."""


class Projections(nn.Module):
    """The projections of one operator, under the names that the state dict keeps: kernel, premise, output.

    Args:
        dims: the sizes.
        kernel: what the kernel is read from.
        premise: what the premise is read from.
        output: what the result is written to.
        source: whether the `cached` readers also read a source's final atoms, as `source_kernel` or
            `source_premise`. A decoder's do.
    """

    def __init__(
        self,
        dims: Dims,
        kernel: Reader | None = None,
        premise: Reader | None = None,
        output: Writer | None = None,
        *,
        source: bool = False,
    ) -> None:
        super().__init__()
        if kernel is not None:
            self.kernel = nn.Linear(_width(dims, kernel), channels_of(kernel), bias=kernel.bias)
        if premise is not None:
            self.premise = nn.Linear(_width(dims, premise), channels_of(premise), bias=premise.bias)
        if output is not None:
            self.output = nn.Linear(channels_of(output), _width(dims, output), bias=output.bias)
        for role, reader in (("kernel", kernel), ("premise", premise)):
            if source and reader is not None and reader.cached:
                linear = nn.Linear(_width(dims, reader), channels_of(reader), bias=reader.bias)
                self.add_module(f"source_{role}", linear)


class Group(NamedTuple):
    """One channel group of a branch: whose it is, which role it plays, and how it is treated.

    Groups that are treated alike stand side by side, so that one softmax and one mask serve them all. `order` is their
    kind: 0 and 1 are softmax kernels with and without dropout, 2 premises that are zero outside the scope, 3 the rest.
    `cached_as` is the name of the channels in the cached state; None where they are not cached.
    """

    operator: int
    role: str
    branch: Branch
    order: int
    width: int
    shape: tuple[int, ...]
    scale: float
    tokens_last: bool
    cached_as: str | None

    @classmethod
    def of(cls, operator: int, role: str, reader: Reader, planned: PlannedOperator) -> Group:
        """The group that the `role` of an operator, the one at place `operator` of its layer, reads."""
        if reader.branch == "U":
            order = 3
        elif reader.activation == "softmax":
            order = 0 if reader.dropout else 1
        else:
            order = 2 if planned.part.scope_rule == "reduce" else 3
        return cls(
            operator,
            role,
            reader.branch,
            order,
            width=channels_of(reader),
            shape=tuple(reader.shape.values()),
            scale=reader.scale,
            tokens_last=reader.tokens_last,
            cached_as=f"{operator}_{planned.name}_{role}" if reader.cached else None,
        )

    def with_cached(self, channels: Tensor, cache: CachedState) -> Tensor:
        """The cached channels of the tokens before, then those of the rows.

        Relations of earlier tokens to later ones are zero: a token does not attend to later ones.
        """
        assert self.cached_as is not None
        if self.cached_as not in cache:
            return channels
        past = cache[self.cached_as]
        if self.branch == "B":
            later = channels.shape[2] - past.shape[2]
            past = torch.cat([past, past.new_zeros(*past.shape[:2], later, *past.shape[3:])], 2)
        return torch.cat([past, channels], 1)


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
        self.groups: dict[Branch, list[Group]] = {"U": [], "B": []}
        self.writes: dict[Branch, list[int]] = {"U": [], "B": []}
        for i, planned in enumerate(self.plans):
            assert planned.kernel is not None
            assert planned.premise is not None
            assert planned.output is not None
            for role, reader in (("kernel", planned.kernel), ("premise", planned.premise)):
                self.groups[reader.branch].append(Group.of(i, role, reader, planned))
            self.writes[planned.output.branch].append(i)
        self.readers: dict[Branch, FusedLinear] = {}
        self.writers: dict[Branch, FusedLinear] = {}
        for branch, groups in self.groups.items():
            groups.sort(key=lambda group: group.order)
            if groups:
                maps = [(getattr(operators[g.operator], g.role), g.scale) for g in groups]
                self.readers[branch] = FusedLinear(maps, "outputs", fuse=plan.fuse)
            if self.writes[branch]:
                maps = [(operators[i].output, 1.0) for i in self.writes[branch]]
                self.writers[branch] = FusedLinear(maps, "inputs", fuse=plan.fuse)
        self.fused = nn.ModuleList([*self.readers.values(), *self.writers.values()])
        self.attended = nn.ModuleDict(
            {str(i): Attended() for i, planned in enumerate(self.plans) if _is_attention(planned)}
        )

    def forward(
        self,
        state: Predicates,
        scope: Scope,
        biases: Sequence[PairBias] = (),
        cache: CachedState | None = None,
    ) -> tuple[Predicates, CachedState]:
        """The increments of both branches.

        Args:
            state: normalised atoms, zero outside the scope; unary [b, x, d1], binary [b, x, y, d2].
            scope: who may attend to whom.
            biases: pair biases to add beside the operators that score pairs and sum values.
            cache: the keys and values of the tokens before; None when every token is a row and none follows.

        Returns:
            The increments, and the keys and values for later tokens. Where no operator writes a branch, its increment
            is zero (unary) or None (binary). Without `cache` there are no keys and values.
        """
        channels: dict[tuple[int, str], Tensor] = {}
        fused = self._fuses(state.binary)
        if self.groups["U"]:
            self._read("U", state.unary, scope, channels, fused=fused)
        if self.groups["B"]:
            assert state.binary is not None
            self._read("B", state.binary, scope, channels, fused=fused)
        kept = {} if cache is None else self._extend_cache(channels, cache)
        results = [self._infer(i, channels, scope, biases) for i in range(len(self.plans))]
        unary, binary = (self._write(branch, results, fused=fused) for branch in ("U", "B"))
        return Predicates(torch.zeros_like(state.unary) if unary is None else unary, binary), kept

    def is_read(self) -> bool:
        """Whether a hook reads the weights of its attention in this pass."""
        return any(cast(Attended, each).is_read for each in self.attended.values())

    def cached_channels(self) -> dict[str, tuple[Branch, tuple[int, ...]]]:
        """What is cached for later tokens: by name, the branch that it is read from and its channels."""
        groups = (group for branch in self.groups.values() for group in branch)
        return {
            group.cached_as: (group.branch, group.shape) for group in groups if group.cached_as is not None
        }

    def _extend_cache(self, channels: dict[tuple[int, str], Tensor], cache: CachedState) -> dict[str, Tensor]:
        """Put the cached channels in front of the rows' own; return both as the next cache."""
        kept = {}
        for groups in self.groups.values():
            for group in groups:
                if group.cached_as is not None:
                    place = group.operator, group.role
                    kept[group.cached_as] = channels[place] = group.with_cached(channels[place], cache)
        return kept

    def _read(
        self,
        branch: Branch,
        atoms: Tensor,
        scope: Scope,
        channels: dict[tuple[int, str], Tensor],
        *,
        fused: bool,
    ) -> None:
        """Read every channel group of one branch, and keep the mask contract of each."""
        groups, reader = self.groups[branch], self.readers[branch]
        rate = self.dropout if self.training else 0.0
        if fused:
            pieces = treat(reader.read(atoms), groups, scope, rate)
        else:
            apart = zip(reader.read_each(atoms), groups, strict=True)
            pieces = [piece for each, group in apart for piece in treat(each, [group], scope, rate)]
        for group, piece in zip(groups, pieces, strict=True):
            channels[group.operator, group.role] = piece.view(*piece.shape[:-1], *group.shape)

    def _write(
        self, branch: Branch, results: Sequence[Tensor] | Mapping[int, Tensor], *, fused: bool
    ) -> Tensor | None:
        """The sum of what the operators that write a branch infer, or None where none does."""
        if branch not in self.writers:
            return None
        first_channel = 2 if branch == "U" else 3
        channels = [results[i].flatten(first_channel) for i in self.writes[branch]]
        writer = self.writers[branch]
        return writer.write(channels) if fused else writer.write_each(channels)

    def _fuses(self, atoms: Tensor | None) -> bool:
        """Whether each branch is read and written in one product in this pass, for binary atoms `atoms`.

        In training on a CPU each map is a product of its own. Joining the weights, the channels of every pair and their
        gradients costs more than one large product gains.
        """
        return self.fuse and (atoms is None or not blocked_training(atoms))

    def _infer(
        self, i: int, channels: Mapping[tuple[int, str], Tensor], scope: Scope, biases: Sequence[PairBias]
    ) -> Tensor:
        planned = self.plans[i]
        assert planned.kernel is not None
        kernel, premise = channels[i, "kernel"], channels[i, "premise"]
        if str(i) in self.attended:
            kernel = self.attended[str(i)](kernel)
        drops = planned.kernel.branch == "U" and planned.kernel.dropout and self.training
        result = planned.infer(kernel, premise, scope.dropping(self.dropout) if drops else scope)
        result = add_pairs(planned, result, kernel, premise, biases)
        return activate(planned.activation, result)


class SourceReader(nn.Module):
    """A decoder's keys and values of its source tokens: its operators' channels, read from the source's final atoms.

    Args:
        plan: the plan.
        operators: the projections of each mixing operator, made with `source`.

    Source: FOLNet (Chen, 2023), Appendix A.5: premises of join and assoc and kernels of cjoin are joined to the
    decoder's own, and trans reads the encoder's relations v^E.
    """

    def __init__(self, plan: Plan, operators: Sequence[Projections]) -> None:
        super().__init__()
        self.groups: dict[Branch, list[Group]] = {"U": [], "B": []}
        for i, planned in enumerate(plan.mixing):
            for role, reader in (("kernel", planned.kernel), ("premise", planned.premise)):
                if reader is not None and reader.cached:
                    self.groups[reader.branch].append(Group.of(i, role, reader, planned))
        self.readers: dict[Branch, FusedLinear] = {}
        for branch, groups in self.groups.items():
            maps = [(operators[g.operator].get_submodule(f"source_{g.role}"), g.scale) for g in groups]
            if maps:
                self.readers[branch] = FusedLinear(cast(Any, maps), "outputs", fuse=plan.fuse)
        self.fused = nn.ModuleList(self.readers.values())

    def forward(self, source: Predicates, scope: Scope) -> dict[str, Tensor]:
        """The cached state of a decoder's layer before its first token.

        Args:
            source: the encoder's final atoms; unary [b, a, d1], binary [b, a, y, d2].
            scope: the encoder's.
        """
        cache = {}
        for branch, reader in self.readers.items():
            atoms = source.unary if branch == "U" else source.binary
            assert atoms is not None
            pieces = reader.read(atoms).split_with_sizes(reader.widths, -1)
            for group, piece in zip(self.groups[branch], pieces, strict=True):
                assert group.cached_as is not None
                channels = piece.view(*piece.shape[:-1], *group.shape)
                cache[group.cached_as] = scope.zero_binary(channels) if group.order == 2 else channels
        return cache


def treat(
    read: Tensor, groups: Sequence[Group], scope: Scope, dropout: float = 0.0, *, tokens_last: bool = False
) -> list[Tensor]:
    """Take the channel groups of one product apart, each normalised, dropped or zeroed as it must be.

    Args:
        read: [b, x, ..., channels].
        groups: whose the channels are, in order.
        scope: of the rows x.
        dropout: the rate at which softmax weights are dropped.
        tokens_last: whether `read` is [b, x, a, channels] with channels first and tokens last in memory.
    """
    widths = [[g.width for g in groups if g.order == order] for order in range(4)]
    dropped, plain, zeroed, rest = (sum(each) for each in widths)
    kernels, premises, others = _apart(read, [dropped + plain, zeroed, rest])
    if dropped or plain:
        kernels = scope.softmax(kernels, tokens_last=tokens_last)
    if zeroed:
        premises = scope.zero_binary(premises)
    treated = [*_apart(kernels, [dropped, plain]), premises, others]
    if dropped and dropout:
        treated[0] = F.dropout(treated[0], dropout)
    parts = zip(treated, widths, strict=True)
    return [piece for part, each in parts if each for piece in _apart(part, each)]


def _apart(channels: Tensor, widths: Sequence[int]) -> Sequence[Tensor]:
    """[..., sum of widths] -> one [..., width] each; where one piece is all of it, its gradient is not copied."""
    if channels.shape[-1] in widths:
        return [channels if width else channels[..., :0] for width in widths]
    return channels.split_with_sizes(list(widths), -1)


def add_pairs(
    planned: PlannedOperator, result: Tensor, kernel: Tensor, premise: Tensor, biases: Sequence[PairBias]
) -> Tensor:
    """Add static key and query terms to an operator that scores pairs, a static value term to one that sums values.

    FOLNet, Appendix E: the key term is prod, and the value term mu, with premises that depend on the positions alone.
    """
    role = planned.part.pair
    for bias in biases:
        if role == "score" and not (bias.key is None and bias.query is None and bias.score is None):
            assert planned.kernel is not None
            assert planned.premise is not None
            key = premise * planned.kernel.scale if bias.query is not None else None
            result = result + pair_scores(kernel * planned.premise.scale, bias, key)
        elif role == "value" and bias.value is not None:
            result = result + pair_values(kernel, bias)
    return result


def activate(name: str, logits: Tensor) -> Tensor:
    """The implication's activation on inferred logits: ln(1 + 2 exp z), or its ReLU bound; FOLNet, eq. 9, 27-29."""
    if name == "none":
        return logits
    shifted = logits + math.log(2.0)
    return F.softplus(shifted) if name == "modus_ponens" else F.relu(shifted)


def _is_attention(planned: PlannedOperator) -> bool:
    """Whether an operator sums values by weights between tokens, as join does."""
    kernel = planned.kernel
    return (
        planned.part.pair == "value"
        and kernel is not None
        and kernel.branch == "B"
        and kernel.activation == "softmax"
    )


def _width(dims: Dims, channels: Reader | Writer) -> int:
    return dims.unary if channels.branch == "U" else dims.binary


def channels_of(channels: Reader | Writer) -> int:
    """How many channels there are, of all names."""
    return math.prod(channels.shape.values())
