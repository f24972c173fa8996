"""Who may attend to whom: padding, causal, prefix and any boolean relation, and what follows for softmaxes.

A scope is a relation over tokens. One rule holds everywhere: a row with nothing in scope gives zeros, never NaN.

Rows x are the tokens that are inferred, columns a those that they attend to. Most often they are the same. In
generation the rows are the last tokens alone. In a decoder the source tokens are columns before the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from peirce.algebra.predicates import at_least_float32, sums_in_float32, without_autocast


@final
@dataclass(frozen=True, eq=False)  # not attrs: torch.compile cannot trace the setters of its frozen classes
class Scope:
    """Which pairs (x, a) of tokens a model may use; scopes combine with `&`.

    Args:
        tokens: bool [b, x], the real rows; None when all are.
        pairs: bool [b or 1, x, a], whether x may attend to a, padding included; None when every token may to every one.
        uniform: every real row attends to the same tokens, so a softmax over them has one denominator.
        causal: the pairs are exactly the real ones with a <= x, which has a fast path.
        dropout: the rate at which weights that `infer` makes are dropped, as `peirce.kernels.weigh` does; the composer
            sets it in training.
        before: how many columns stand before the rows; None when every token is a row.
        places: the positions of rows and columns, which `rows` and `columns` hand out.
    """

    tokens: Tensor | None = None
    pairs: Tensor | None = None
    uniform: bool = True
    causal: bool = False
    dropout: float = 0.0
    before: int | None = None
    places: tuple[Tensor, Tensor] | None = None

    @property
    def rows(self) -> Tensor:
        """Each row's position counted over real tokens, int64 [b or 1, x]."""
        return self._positions(0)

    @property
    def columns(self) -> Tensor:
        """Each column's position counted over real tokens, int64 [b or 1, a]; a source is counted by itself."""
        return self._positions(1)

    def _positions(self, side: int) -> Tensor:
        if self.places is None:
            raise ValueError("this scope was made without positions; `Scope.at` says where its tokens stand")
        return self.places[side]

    @classmethod
    def padding(cls, tokens: Tensor | None, before: int | None = None) -> Scope:
        """Every real row sees every real token.

        Args:
            tokens: bool [b, a], the real tokens; None for no padding at all.
            before: how many of them stand before the rows; None when every token is a row.
        """
        if tokens is None:
            return cls(uniform=before is None, before=before)
        rows = tokens if before is None else tokens.narrow(1, before, tokens.shape[1] - before)
        pairs = rows.unsqueeze(2) & tokens.unsqueeze(1)
        return cls(tokens=rows, pairs=pairs, uniform=before is None, before=before)

    @classmethod
    def past(cls, length: int, device: torch.device | None = None, before: int | None = None) -> Scope:
        """The causal scope: a token sees itself and what lies before it, which for a decoder is all of its source too.

        Args:
            length: the number of tokens a.
            device: of the pairs.
            before: how many of them stand before the rows; None when every token is a row.
        """
        pairs = _causal_pairs(length, device)
        if before is None:
            return cls(pairs=pairs, uniform=False, causal=True)
        return cls(pairs=pairs.narrow(1, before, length - before), uniform=False, before=before)

    @classmethod
    def prefix(cls, lengths: Tensor, index: Tensor) -> Scope:
        """The prefix scope: both ways within the first tokens, causal after them (FOLNet, Fig. 4(b)).

        Args:
            lengths: int64 [b], how many tokens are prefix.
            index: int64 [b or 1, x], each token's position counted over real tokens.
        """
        within = index < lengths.unsqueeze(1)
        past = _causal_pairs(index.shape[1], index.device)
        return cls(pairs=past | (within.unsqueeze(2) & within.unsqueeze(1)), uniform=False)

    @classmethod
    def relation(cls, pairs: Tensor) -> Scope:
        """Any relation. `pairs`: bool [b or 1, x, a]."""
        return cls(pairs=pairs, uniform=False)

    def __and__(self, other: Scope) -> Scope:
        if self.dropout or other.dropout:
            raise AssertionError("scopes combine before the composer sets their dropout")
        return Scope(
            tokens=_intersection(self.tokens, other.tokens),
            pairs=_intersection(self.pairs, other.pairs),
            uniform=self.uniform and other.uniform,
            causal=(self.causal and (other.causal or other.uniform)) or (other.causal and self.uniform),
            before=self.before if other.before is None else other.before,
            places=self.places or other.places,
        )

    def at(self, rows: Tensor, columns: Tensor) -> Scope:
        """The same scope, whose tokens stand at these positions, int64 [b or 1, x] and [b or 1, a]."""
        return replace(self, places=(rows, columns))

    def dropping(self, rate: float) -> Scope:
        """The same scope, with weights dropped at `rate` by `weigh`."""
        return replace(self, dropout=rate)

    def part(self, items: slice, rows: slice) -> Scope:
        """The scope of some rows x of some examples, for work on those rows alone."""

        def cut_values(values: Tensor, *cut: slice) -> Tensor:
            return values[(items if len(values) > 1 else slice(None), *cut)]

        places = (
            None if self.places is None else (cut_values(self.places[0], rows), cut_values(self.places[1]))
        )
        if self.pairs is None:
            return replace(self, places=places)
        tokens = None if self.tokens is None else self.tokens[items, rows]
        return replace(
            self,
            tokens=tokens,
            pairs=cut_values(self.pairs, rows),
            uniform=False,
            causal=False,
            places=places,
        )

    def zero_unary(self, atoms: Tensor) -> Tensor:
        """Unary atoms [b, x, ...] with exact zeros at padding, whatever the values there were."""
        return atoms if self.tokens is None else _zero_outside(self.tokens, atoms)

    def zero_binary(self, atoms: Tensor) -> Tensor:
        """Binary atoms [b, x, y, ...] with exact zeros outside the scope, whatever the values there were."""
        return atoms if self.pairs is None else _zero_outside(self.pairs, atoms)

    def converse(self, atoms: Tensor) -> Tensor:
        """u(y, x) for each of the atoms u(x, y), [b, x, y, ...] -> [b, x, y, ...].

        Columns before the rows have no converse atom: no earlier token attends to a row, so it is zero.
        """
        if self.before is None:
            return atoms.transpose(1, 2)
        rows = atoms.narrow(2, self.before, atoms.shape[1]).transpose(1, 2)
        return torch.cat([torch.zeros_like(atoms.narrow(2, 0, self.before)), rows], 2)

    def diagonal(self, atoms: Tensor) -> Tensor:
        """What relates each row to itself: [b, x, y, d] -> [b, x, d]."""
        # Not `diagonal`, which is exported as an EyeLike of a symbolic size; TensorRT takes none.
        index = torch.arange(atoms.shape[1], device=atoms.device) + (self.before or 0)
        return atoms.gather(2, index.view(1, -1, 1, 1).expand(atoms.shape[0], -1, 1, atoms.shape[3])).squeeze(
            2
        )

    def softmax(self, logits: Tensor, *, tokens_last: bool = False) -> Tensor:
        """Normalise [b, x, a, ...] over the tokens a that x may attend to, in at least float32; zeros elsewhere.

        With `tokens_last`, the logits [b, x, a, c] and the result lie in memory with channels first and tokens last.
        """
        exact = logits if sums_in_float32(logits) else at_least_float32(logits)
        outside = None if self.pairs is None else ~stretch(self.pairs, logits)
        if outside is not None:
            exact = exact.masked_fill(outside, torch.finfo(exact.dtype).min)
        # A softmax is computed over contiguous memory: in the order that the logits have, nothing is copied.
        with without_autocast(exact):
            weights = (
                exact.permute(3, 0, 1, 2).softmax(3).permute(1, 2, 3, 0) if tokens_last else exact.softmax(2)
            )
        if outside is not None:
            weights = weights.masked_fill(outside, 0.0)
        return weights if weights.dtype == logits.dtype else weights.to(logits.dtype)


def _causal_pairs(length: int, device: torch.device | None) -> Tensor:
    """bool [1, x, a], a <= x."""
    index = torch.arange(length, device=device)
    return (index.unsqueeze(0) <= index.unsqueeze(1)).unsqueeze(0)


def _intersection(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other


def stretch(mask: Tensor, values: Tensor) -> Tensor:
    """A mask over the leading axes, with axes of size one for the channels of `values`."""
    return mask.reshape(*mask.shape, *[1] * (values.dim() - mask.dim()))


def _zero_outside(mask: Tensor, atoms: Tensor) -> Tensor:
    return torch.where(stretch(mask, atoms), atoms, torch.zeros((), dtype=atoms.dtype, device=atoms.device))
