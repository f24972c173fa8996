"""What operators read from a branch: projections, groups of channels, and the one product that reads several groups."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peirce.algebra import Scope
from peirce.kernels import AtomBias, FusedLinear, PairTerm, Rotation
from peirce.parts import Branch, Dims, PlannedOperator, Reader, SharedReader, Weight, Writer

CachedState = Mapping[str, Tensor]
"""The cached keys and values of earlier tokens, by name: channels of `cached` readers, [b, a, *shape] from unary
atoms and [b, a, y, *shape] from binary ones."""
ReadingKey = tuple[int, str]
"""An operator's number in the stage, and the name of what it reads."""
Channels = dict[ReadingKey, Tensor]


@final
class Projections(nn.Module):
    """The projections of one operator, under the names that the state dict keeps: those of its readings, and output.

    Its weights are beside them, under theirs.

    Args:
        dims: the sizes.
        readings: what is read, by name.
        output: what the result is written to.
        source: whether the `cached` readers also read a source's final atoms, such as `source_premise` beside
            `premise`. A decoder's do.
        weights: what the equation learns besides, by name.
    """

    def __init__(
        self,
        dims: Dims,
        readings: Mapping[str, Reader],
        output: Writer | None = None,
        *,
        source: bool = False,
        weights: Mapping[str, Weight] | None = None,
    ) -> None:
        super().__init__()
        for role, reader in readings.items():
            shares = reader.shares if isinstance(reader, SharedReader) else ""
            self.add_module(role, self.get_submodule(shares) if shares else _linear(dims, reader))
        if output is not None:
            self.output = nn.Linear(channel_count(output), _width(dims, output), bias=output.bias)
        for role, reader in readings.items():
            if source and reader.cached:
                self.add_module(f"source_{role}", _linear(dims, reader))
        for name, weight in (weights or {}).items():
            entries = torch.full([*weight.shape.values()], weight.initial)
            if weight.spread:
                entries += weight.spread * torch.randn_like(entries)
            self.register_parameter(name, nn.Parameter(entries))

    @classmethod
    def of(cls, planned: PlannedOperator, dims: Dims, *, source: bool = False) -> Projections:
        """Those of an operator of a plan."""
        return cls(dims, planned.readings, planned.output, source=source, weights=planned.weights)


def read_terms(
    terms: Sequence[PairTerm | Rotation], planned: PlannedOperator, projections: Projections
) -> Sequence[PairTerm | Rotation]:
    """The terms of positions, those made of atoms as an operator's own maps of queries and keys read them."""
    if not planned.scored or not any(isinstance(term, AtomBias) for term in terms):
        return terms
    query, key = (projections.get_submodule(role) for role in planned.scored)
    heads, size = planned.readings[planned.scored[0]].shape.values()
    return [term.read(query, key, heads, size) if isinstance(term, AtomBias) else term for term in terms]


class Mask(IntEnum):
    """What happens to channels after they are read; groups of one kind stand side by side in a product."""

    DROPPED_SOFTMAX = 0
    SOFTMAX = 1
    ZERO_OUTSIDE_SCOPE = 2
    NONE = 3


class Group(NamedTuple):
    """The channels of one reading of an operator.

    `cached_as` is the name of the channels in the cached state; None where they are not cached. `rotates` says whether
    rotary positions turn them: those of queries and keys that an operator scores pairs with.
    """

    key: ReadingKey
    branch: Branch
    mask: Mask
    shape: tuple[int, ...]
    scale: float
    tokens_last: bool
    cached_as: str | None
    rotates: bool

    @classmethod
    def of(cls, operator: int, role: str, reader: Reader, planned: PlannedOperator) -> Group:
        """The group of the reading `role` of an operator, the one with the number `operator` in its layer."""
        mask = Mask.NONE
        if reader.branch == "B" and reader.activation == "softmax":
            mask = Mask.DROPPED_SOFTMAX if reader.dropout else Mask.SOFTMAX
        elif reader.branch == "B" and planned.part.scope_rule == "reduce":
            mask = Mask.ZERO_OUTSIDE_SCOPE
        return cls(
            (operator, role),
            reader.branch,
            mask,
            shape=tuple(reader.shape.values()),
            scale=reader.scale,
            tokens_last=reader.tokens_last,
            cached_as=f"{operator}_{planned.name}_{role}" if reader.cached else None,
            rotates=role in planned.scored and reader.branch == "U",
        )

    @property
    def width(self) -> int:
        """How many channels there are."""
        return math.prod(self.shape)

    def normalise(self, logits: Tensor, scope: Scope, rate: float) -> Tensor:
        """The weights of a softmax kernel of its logits [b, x, a, c], some of them dropped where the reader says so."""
        weights = scope.softmax(logits, tokens_last=self.tokens_last)
        return drop_out(weights, rate) if self.mask == Mask.DROPPED_SOFTMAX else weights

    def prepend_cached(self, channels: Tensor, cache: CachedState) -> Tensor:
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


def groups_of(plans: Sequence[PlannedOperator]) -> list[Group]:
    """What each operator of a stage reads."""
    return [
        Group.of(i, role, reader, planned)
        for i, planned in enumerate(plans)
        for role, reader in planned.readings.items()
    ]


@final
class Product:
    """Channel groups of one branch that one matrix product reads.

    Args:
        groups: whose channels they are.
        operators: the projections of every operator of the stage.
        tokens_last: whether channels come first and tokens last in memory: [b, x, y, c] is a view of [c, b, x, y].
        fuse: whether an export should fold the product's weights into one constant.
        prefix: before the role in a projection's name.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        operators: Sequence[Projections],
        *,
        tokens_last: bool = False,
        fuse: bool = True,
        prefix: str = "",
    ) -> None:
        self.groups = sorted(groups, key=lambda group: group.mask)
        maps = [(operators[g.key[0]], prefix + g.key[1], g.scale) for g in self.groups]
        self.reader = FusedLinear(maps, "outputs", fuse=fuse)
        self.tokens_last = tokens_last
        self.widths = self.reader.widths
        # The widths of the groups with each mask; the totals of softmaxes, of what is zeroed and of what has no mask.
        self._by_mask = [[g.width for g in self.groups if g.mask == mask] for mask in Mask]
        dropped, plain, zeroed, rest = map(sum, self._by_mask)
        self._runs, self._softmaxes = [dropped + plain, zeroed, rest], [dropped, plain]

    def read(
        self,
        atoms: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        scope: Scope,
        rate: float = 0.0,
        logits: Collection[int] = (),
    ) -> Channels:
        """The channels of each group, normalised, dropped or zeroed as its mask says.

        Args:
            atoms: [b, x, d1] or [b, x, y, d2].
            weight: as the reader's `weights` gives it.
            bias: likewise.
            scope: of the rows x.
            rate: at which softmax weights are dropped.
            logits: the operators whose softmax kernels stay as they are read.
        """
        if self.tokens_last:
            flat = atoms.flatten(0, 2).t()
            read = weight @ flat if bias is None else torch.addmm(bias.unsqueeze(1), weight, flat)
            # Each group is a stretch of memory of its own, and so is its gradient.
            pieces = [
                self._mask_one(
                    piece.view(-1, *atoms.shape[:3]).permute(1, 2, 3, 0), group, scope, rate, logits
                )
                for piece, group in zip(read.split_with_sizes(self.widths), self.groups, strict=True)
            ]
        else:
            plain = self.reader.is_plain()
            read = F.linear(atoms, weight, bias) if plain else torch.cat(list(self.reader.read(atoms)), -1)
            if any(group.key[0] in logits for group in self.groups):
                pieces = [
                    self._mask_one(piece, group, scope, rate, logits)
                    for piece, group in zip(_split(read, self.widths), self.groups, strict=True)
                ]
            else:
                pieces = self._mask_all(read, scope, rate)
        return {
            group.key: piece.view(*piece.shape[:-1], *group.shape)
            for group, piece in zip(self.groups, pieces, strict=True)
        }

    def _mask_one(
        self, channels: Tensor, group: Group, scope: Scope, rate: float, logits: Collection[int]
    ) -> Tensor:
        if group.mask <= Mask.SOFTMAX:
            return channels if group.key[0] in logits else group.normalise(channels, scope, rate)
        return scope.zero_binary(channels) if group.mask == Mask.ZERO_OUTSIDE_SCOPE else channels

    def _mask_all(self, read: Tensor, scope: Scope, rate: float) -> list[Tensor]:
        """One softmax serves all kernels, and one mask all else that is zeroed."""
        if self._runs[2] == read.shape[-1]:
            return list(_split(read, self.widths))
        kernels, zeroed, others = _split(read, self._runs)
        if self._runs[0]:
            kernels = scope.softmax(kernels)
        if self._runs[1]:
            zeroed = scope.zero_binary(zeroed)
        dropped, plain = _split(kernels, self._softmaxes) if self._runs[0] else (kernels, kernels)
        if self._softmaxes[0]:
            dropped = drop_out(dropped, rate)
        every = zip((dropped, plain, zeroed, others), self._by_mask, strict=True)
        return [piece for run, widths in every if widths for piece in _split(run, widths)]


def _split(channels: Tensor, widths: Sequence[int]) -> Sequence[Tensor]:
    """[..., sum of widths] -> one [..., width] each; the tensor itself for each where one width is the sum."""
    if channels.shape[-1] in widths:
        return [channels] * len(widths)
    return channels.split_with_sizes(list(widths), -1)


def drop_out(values: Tensor, rate: float) -> Tensor:
    """Dropout at a rate; the values themselves where it is 0."""
    return F.dropout(values, rate) if rate else values


def _linear(dims: Dims, reader: Reader) -> nn.Linear:
    return nn.Linear(_width(dims, reader), channel_count(reader), bias=reader.bias)


def _width(dims: Dims, channels: Reader | Writer) -> int:
    return dims.unary if channels.branch == "U" else dims.binary


def channel_count(channels: Reader | Writer) -> int:
    """How many channels there are, of all names."""
    return math.prod(channels.shape.values())
