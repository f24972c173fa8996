"""A mixing stage on a CPU, by blocks of rows: what only one block needs never leaves the CPU's cache.

Keys and values are read first, for every pair. Then each block of rows is normalised, read, inferred, written and added
to its atoms before the next one begins. So no other channels ever exist for every pair. In training the backward pass
recomputes a block's channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from peirce.algebra import Norm, Predicates, Scope, standardise
from peirce.kernels import FusedLinear, PairBias, blocked, blocked_training, in_blocks
from peirce.parts.mixing import CachedState, Group, Mixing, Projections, channels_of, treat
from peirce.parts.plan import Plan

Channels = dict[tuple[int, str], Tensor]
"""What was read, by the place of its operator in the stage and its role."""


class RowMixing(Mixing):
    """A mixing stage that can also be worked through by blocks of rows.

    An operator whose kernel is attended to needs every row at once. All others infer a row from that row's channels and
    from the keys and values.

    Args:
        plan: as for `Mixing`.
        operators: as for `Mixing`.
    """

    def __init__(self, plan: Plan, operators: Sequence[Projections]) -> None:
        super().__init__(plan, operators)
        self.at_once = [i for i, p in enumerate(self.plans) if p.kernel is not None and p.kernel.cached]
        early = [g for g in self.groups["B"] if g.cached_as is not None or g.operator in self.at_once]
        late = [g for g in self.groups["B"] if g not in early]
        self._early, self._late = _products(early, operators), _products(late, operators)
        self.fused.extend(product.reader for product in (*self._early, *self._late))

    def by_rows(self, atoms: Tensor | None, biases: Sequence[PairBias] = ()) -> bool:
        """Whether this pass works through the stage by blocks, for binary atoms `atoms`.

        In training it does not where pair biases want gradients: their products have blocks of their own.
        """
        if atoms is None or not self.fuse or self.is_read():
            return False
        if blocked_training(atoms):
            return not any(isinstance(t, Tensor) and t.requires_grad for bias in biases for t in bias)
        return blocked(atoms) and not self.training

    def deduce(
        self,
        unary: Tensor,
        binary: Tensor,
        norm: Norm,
        scope: Scope,
        biases: Sequence[PairBias] = (),
        cache: CachedState | None = None,
    ) -> tuple[Predicates, CachedState]:
        """What `forward` infers, with the binary atoms' norm before it and their residual sum after it.

        Args:
            unary: normalised unary atoms, [b, x, d1].
            binary: binary atoms before their norm, [b, x, y, d2].
            norm: of the binary atoms.
            scope: as in `forward`.
            biases: as in `forward`.
            cache: as in `forward`.

        Returns:
            The increment of the unary atoms and the new binary atoms, in a tensor of their own; and the next cache.
        """
        channels: Channels = {}
        if self.groups["U"]:
            self._read("U", unary, scope, channels, fused=self._fuses(binary))
        self._read_early(binary, norm, scope, channels)
        kept = {} if cache is None else self._extend_cache(channels, cache)
        inferred = {i: self._infer(i, channels, scope, biases) for i in self.at_once}
        deduced = self._infer_rows(binary, norm, scope, biases, channels, inferred)
        increment = self._write("U", inferred, fused=self._fuses(binary))
        return Predicates(torch.zeros_like(unary) if increment is None else increment, deduced), kept

    def _read_early(self, atoms: Tensor, norm: Norm, scope: Scope, channels: Channels) -> None:
        """Read keys, values and what is needed of all rows at once, each group in its own layout."""
        batch, length, width = atoms.shape[:3]
        groups = [group for product in self._early for group in product.groups]
        if not groups:
            return

        def read(items: slice, rows: slice, own: Tensor, *weights: Tensor | None) -> list[Tensor]:
            part = scope.part(items, rows)
            pieces = self._read_block(self._early, own, weights, part)
            return [pieces[group.operator, group.role].flatten(3) for group in groups]

        places = [
            atoms.new_empty(batch, group.width, length, width).permute(0, 2, 3, 1)
            if group.tokens_last
            else atoms.new_empty(batch, length, width, group.width)
            for group in groups
        ]
        read_pieces = in_blocks(
            read,
            places,
            channels=_widest(self._early),
            rows=[atoms],
            whole=_weights(norm, self._early),
            random=self._rate > 0,
        )
        for group, piece in zip(groups, read_pieces, strict=True):
            channels[group.operator, group.role] = piece.view(batch, length, width, *group.shape)

    def _infer_rows(
        self,
        binary: Tensor,
        norm: Norm,
        scope: Scope,
        biases: Sequence[PairBias],
        channels: Channels,
        inferred: dict[int, Tensor],
    ) -> Tensor:
        """Infer what is not inferred yet, row by row, to `inferred`; the new binary atoms."""
        late = [i for i in range(len(self.plans)) if i not in inferred]
        attended = {
            (g.operator, g.role) for each in self.groups.values() for g in each if g.cached_as is not None
        }
        apart = [place for place in channels if place[0] in late and place not in attended]
        whole = [place for place in channels if place[0] in late and place in attended]
        ready = [i for i in inferred if i in self.writes["B"]]
        unary = [i for i in late if i in self.writes["U"]]
        writer = self.writers.get("B")

        def infer(items: slice, rows: slice, own: Tensor, *tensors: Tensor | None) -> list[Tensor]:
            given = iter(tensors)
            results = {i: cast(Tensor, next(given)) for i in ready}
            mine = {place: cast(Tensor, next(given)) for place in (*apart, *whole)}
            *weights, weight, bias = given
            part, near = scope.part(items, rows), [bias.part(items, rows) for bias in biases]
            mine |= self._read_block(self._late, own, weights, part)
            results |= {i: self._infer(i, mine, part, near) for i in late}
            return [self._written(own, results, weight, bias), *(results[i].flatten(2) for i in unary)]

        places = [torch.empty_like(binary)]
        places += [binary.new_empty(*binary.shape[:2], self._width(i)) for i in unary]
        deduced, *results = in_blocks(
            infer,
            places,
            channels=_widest(self._late),
            rows=[binary, *(inferred[i] for i in ready), *(channels[place] for place in apart)],
            items=[channels[place] for place in whole],
            whole=[*_weights(norm, self._late), *((None, None) if writer is None else writer.weights())],
            random=self._rate > 0,
        )
        inferred |= zip(unary, results, strict=True)
        return deduced

    def _read_block(
        self, products: Sequence[_Product], atoms: Tensor, weights: Sequence[Tensor | None], scope: Scope
    ) -> Channels:
        """Normalise a block of atoms, read channel groups from it, and keep the mask contract of each.

        `weights` are those of `_weights`.
        """
        scale, shift, *maps = weights
        normal = scope.zero_binary(standardise(atoms, scale, shift))
        channels: Channels = {}
        for product, weight, bias in zip(products, maps[::2], maps[1::2], strict=True):
            assert weight is not None
            for group, read in zip(product.groups, product.read(normal, weight, bias), strict=True):
                (piece,) = treat(read, [group], scope, self._rate, tokens_last=group.tokens_last)
                channels[group.operator, group.role] = piece.view(*piece.shape[:-1], *group.shape)
        return channels

    def _written(
        self, atoms: Tensor, inferred: Mapping[int, Tensor], weight: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        """The atoms of a block and what its operators write to them, [b, x, y, d2]."""
        if weight is None:
            return atoms.clone()
        first, *rest = (inferred[i].reshape(atoms.shape[:3].numel(), -1) for i in self.writes["B"])
        own, *others = weight.split_with_sizes(self.writers["B"].widths, 1)
        total = F.linear(first, own, bias)
        for each, other in zip(rest, others, strict=True):
            total.addmm_(each.to(total.dtype), other.to(total.dtype).t())  # which autocast leaves alone
        return atoms + F.dropout(total.view(atoms.shape), self._rate, self._rate > 0)

    def _width(self, i: int) -> int:
        output = self.plans[i].output
        assert output is not None
        return channels_of(output)

    @property
    def _rate(self) -> float:
        """The rate at which this pass drops weights and increments."""
        return self.dropout if self.training else 0.0


class _Product(NamedTuple):
    """Channel groups of the binary branch that one product reads, all in one layout."""

    groups: list[Group]
    reader: FusedLinear
    tokens_last: bool

    def read(self, atoms: Tensor, weight: Tensor, bias: Tensor | None) -> Sequence[Tensor]:
        """[b, x, y, d2] -> one [b, x, y, channels] a group, in the product's layout.

        The gradients of the groups are joined in that layout too. With tokens last each is one stretch of memory.
        """
        if not self.tokens_last:
            return F.linear(atoms, weight, bias).split_with_sizes(self.reader.widths, -1)
        flat = atoms.flatten(0, 2).t()
        read = weight @ flat if bias is None else torch.addmm(bias.unsqueeze(1), weight, flat)
        pieces = read.split_with_sizes(self.reader.widths)
        return [piece.view(-1, *atoms.shape[:3]).permute(1, 2, 3, 0) for piece in pieces]


def _products(groups: Sequence[Group], operators: Sequence[Projections]) -> list[_Product]:
    """One product for each layout that there is."""
    products = []
    for tokens_last in (True, False):
        own = [group for group in groups if group.tokens_last == tokens_last]
        if own:
            maps = [(getattr(operators[g.operator], g.role), g.scale) for g in own]
            products.append(_Product(own, FusedLinear(maps, "outputs"), tokens_last))
    return products


def _weights(norm: Norm, products: Sequence[_Product]) -> list[Tensor | None]:
    """What a block needs of a norm's and of products' parameters: a scale and a shift each."""
    return [norm.weight, norm.bias, *(each for product in products for each in product.reader.weights())]


def _widest(products: Sequence[_Product]) -> int:
    """The most channels that one product reads."""
    return max((sum(product.reader.widths) for product in products), default=1)
