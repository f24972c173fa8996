"""A mixing stage in inference on a processor, by blocks of rows: what only a block needs never leaves the cache.

First come the channels that rows look at. Then each block of rows is normalised, read, inferred, written and added to
its atoms before the next one begins, so that of all channels only those that are looked at exist for every pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from peirce.blocks import blocked, blocks
from peirce.compose import Group, Memory, Mixing, Projections, channels_of, treat
from peirce.fusion import FusedLinear
from peirce.pairs import PairBias
from peirce.plan import Plan
from peirce.predicates import Predicates
from peirce.scope import Scope

Channels = dict[tuple[int, str], Tensor]
"""What was read, by the place of its operator in the stage and its role."""


class RowMixing(Mixing):
    """A mixing stage that can also be worked through by blocks of rows.

    An operator whose kernel is looked at needs every row at once. All others infer a row from that row's channels and
    from those that are looked at.

    Args:
        plan: as for `Mixing`.
        operators: as for `Mixing`.
    """

    def __init__(self, plan: Plan, operators: Sequence[Projections]) -> None:
        super().__init__(plan, operators)
        self.at_once = [i for i, p in enumerate(self.plans) if p.kernel is not None and p.kernel.looked_at]
        early = [g for g in self.groups["B"] if g.memory is not None or g.operator in self.at_once]
        late = [g for g in self.groups["B"] if g not in early]
        self._early, self._late = _products(early, operators), _products(late, operators)
        self.fused.extend(product.reader for product in (*self._early, *self._late))

    def by_rows(self, atoms: Tensor | None) -> bool:
        """Whether the stage is worked through by blocks here and now, for binary atoms `atoms`."""
        return self.fuse and not self.training and atoms is not None and blocked(atoms) and not self.is_read()

    def deduce(
        self,
        unary: Tensor,
        binary: Tensor,
        norm: Callable[[Tensor, Scope], Tensor],
        scope: Scope,
        biases: Sequence[PairBias] = (),
        memory: Memory | None = None,
    ) -> tuple[Predicates, Memory]:
        """What `forward` infers, with the binary atoms' norm before it and their residual sum after it.

        Args:
            unary: normalised unary atoms, [b, x, d1].
            binary: binary atoms before their norm, [b, x, y, d2].
            norm: gives the normalised atoms of a block, zero outside its scope.
            scope: as in `forward`.
            biases: as in `forward`.
            memory: as in `forward`.

        Returns:
            The increment of the unary atoms and the new binary atoms, in a tensor of their own; and the memory.
        """
        channels: Channels = {}
        if self.groups["U"]:
            self._read("U", unary, scope, channels, fused=True)
        self._read_early(binary, norm, scope, channels)
        kept = {} if memory is None else self._remember(channels, memory)
        results = {i: self._infer(i, channels, scope, biases) for i in self.at_once}
        for i in self.writes["U"]:
            if i not in results:
                results[i] = unary.new_empty(*unary.shape[:2], self._width(i))
        deduced = torch.empty_like(binary)
        for items, rows in blocks(binary, _widest(self._late)):
            part, block = scope.part(items, rows), binary[items, rows]
            own = self._of_rows(channels, items, rows)
            _read(self._late, norm(block, part), part, own)
            near = [bias.part(items, rows) for bias in biases]
            inferred = {i: result[items, rows] for i, result in results.items() if i in self.at_once}
            for i in range(len(self.plans)):
                if i not in inferred:
                    inferred[i] = self._infer(i, own, part, near)
                    if i in results:
                        results[i][items, rows] = inferred[i].flatten(2)
            self._add(block, inferred, deduced[items, rows])
        increment = self._write("U", results, fused=True)
        return Predicates(torch.zeros_like(unary) if increment is None else increment, deduced), kept

    def _read_early(
        self, atoms: Tensor, norm: Callable[[Tensor, Scope], Tensor], scope: Scope, channels: Channels
    ) -> None:
        """Read what rows look at, and what is needed of all rows at once, each group in its own layout."""
        batch, length, width = atoms.shape[:3]
        groups = [group for product in self._early for group in product.groups]
        for group in groups:
            if group.tokens_last:
                place = atoms.new_empty(batch, group.width, length, width).permute(0, 2, 3, 1)
            else:
                place = atoms.new_empty(batch, length, width, group.width)
            channels[group.operator, group.role] = place
        if groups:
            for items, rows in blocks(atoms, _widest(self._early)):
                own: Channels = {}
                part = scope.part(items, rows)
                _read(self._early, norm(atoms[items, rows], part), part, own)
                for whose, piece in own.items():
                    channels[whose][items, rows] = piece.flatten(3)
        for group in groups:
            whose = group.operator, group.role
            channels[whose] = channels[whose].view(batch, length, width, *group.shape)

    def _of_rows(self, channels: Channels, items: slice, rows: slice) -> Channels:
        """What was read for all rows, for a block of them: its own part, and what it looks at whole."""
        looked = {(g.operator, g.role) for each in self.groups.values() for g in each if g.memory is not None}
        return {place: c[items] if place in looked else c[items, rows] for place, c in channels.items()}

    def _add(self, atoms: Tensor, inferred: dict[int, Tensor], place: Tensor) -> None:
        """The atoms of a block and what its operators write to them, [b, x, y, d2], to `place`."""
        if not self.writes["B"]:
            place.copy_(atoms)
            return
        writer = self.writers["B"]
        weight, bias = writer.weights()
        flat = place.view(-1, len(weight))
        if bias is None:
            place.copy_(atoms)
        else:
            torch.add(atoms, bias, out=place)
        for i, own in zip(self.writes["B"], weight.split_with_sizes(writer.widths, 1), strict=True):
            flat.addmm_(inferred[i].reshape(len(flat), -1), own.t())

    def _width(self, i: int) -> int:
        output = self.plans[i].output
        assert output is not None
        return channels_of(output)


class _Product(NamedTuple):
    """Channel groups of the binary branch that one product reads, all in one layout."""

    groups: list[Group]
    reader: FusedLinear
    tokens_last: bool

    def __call__(self, atoms: Tensor) -> Tensor:
        """[b, x, y, d2] -> [b, x, y, channels], in the product's layout."""
        if not self.tokens_last:
            return self.reader.read(atoms)
        weight, bias = self.reader.weights()
        flat = atoms.flatten(0, 2).t()
        read = weight @ flat if bias is None else torch.addmm(bias.unsqueeze(1), weight, flat)
        return read.view(-1, *atoms.shape[:3]).permute(1, 2, 3, 0)


def _products(groups: Sequence[Group], operators: Sequence[Projections]) -> list[_Product]:
    """One product for each layout that there is."""
    products = []
    for tokens_last in (True, False):
        own = [group for group in groups if group.tokens_last == tokens_last]
        if own:
            maps = [(getattr(operators[g.operator], g.role), g.scale) for g in own]
            products.append(_Product(own, FusedLinear(maps, "outputs"), tokens_last))
    return products


def _widest(products: Sequence[_Product]) -> int:
    """The most channels that one product reads."""
    return max((sum(product.reader.widths) for product in products), default=1)


def _read(products: Sequence[_Product], atoms: Tensor, scope: Scope, channels: Channels) -> None:
    """Read channel groups from a block of normalised atoms, and keep the mask contract of each."""
    for product in products:
        pieces = treat(product(atoms), product.groups, scope, tokens_last=product.tokens_last)
        for group, piece in zip(product.groups, pieces, strict=True):
            channels[group.operator, group.role] = piece.view(*piece.shape[:-1], *group.shape)
