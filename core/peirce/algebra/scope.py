"""Who may attend to whom: padding, causal, prefix and any boolean relation, and what follows for sums and softmaxes.

A scope is a relation over tokens. One rule holds everywhere: a row with nothing in scope gives zeros, never NaN.

Rows x are the tokens that are inferred, columns a those that they attend to. Most often they are the same. In
generation the rows are the last tokens alone. In a decoder the source tokens are columns before the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from peirce.algebra.predicates import at_least_float32
from peirce.algebra.recompute import recomputed

TRACED_STEPS = 4
"""In how many steps a traced graph weighs all groups of a kernel."""
CAUSAL_BLOCK = 16
"""Rows that `Scope.weigh` treats at once in a causal scope: the softmax inside a block is explicit."""


@dataclass(frozen=True, eq=False)  # not attrs: torch.compile cannot trace the setters of its frozen classes
class Scope:
    """Which pairs (x, a) of tokens a model may use; scopes combine with `&`.

    Args:
        tokens: bool [b, x], the real rows; None when all are.
        pairs: bool [b or 1, x, a], whether x may attend to a, padding included; None when every token may to every one.
        uniform: every real row attends to the same tokens, so a softmax over them has one denominator.
        causal: the pairs are exactly the real ones with a <= x, which has a fast path.
        dropout: the rate at which `weigh` drops weights; the composer sets it in training.
        before: how many columns stand before the rows; None when every token is a row.
    """

    tokens: Tensor | None = None
    pairs: Tensor | None = None
    uniform: bool = True
    causal: bool = False
    dropout: float = 0.0
    before: int | None = None

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
        pairs = _past(length, device)
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
        past = _past(index.shape[1], index.device)
        return cls(pairs=past | (within.unsqueeze(2) & within.unsqueeze(1)), uniform=False)

    @classmethod
    def relation(cls, pairs: Tensor) -> Scope:
        """Any relation. `pairs`: bool [b or 1, x, a]."""
        return cls(pairs=pairs, uniform=False)

    def __and__(self, other: Scope) -> Scope:
        if self.dropout or other.dropout:
            raise AssertionError("scopes combine before the composer sets their dropout")
        return Scope(
            tokens=_both(self.tokens, other.tokens),
            pairs=_both(self.pairs, other.pairs),
            uniform=self.uniform and other.uniform,
            causal=(self.causal and (other.causal or other.uniform)) or (other.causal and self.uniform),
            before=self.before if other.before is None else other.before,
        )

    def dropping(self, rate: float) -> Scope:
        """The same scope, with weights dropped at `rate` by `weigh`."""
        return replace(self, dropout=rate)

    def part(self, items: slice, rows: slice) -> Scope:
        """The scope of some rows x of some examples, for work on those rows alone."""
        if self.pairs is None:
            return self
        tokens = None if self.tokens is None else self.tokens[items, rows]
        pairs = self.pairs[items if len(self.pairs) > 1 else slice(None), rows]
        return replace(self, tokens=tokens, pairs=pairs, uniform=False, causal=False)

    def zero_unary(self, atoms: Tensor) -> Tensor:
        """Unary atoms [b, x, ...] with exact zeros at padding, whatever stood there."""
        return atoms if self.tokens is None else _where(self.tokens, atoms)

    def zero_binary(self, atoms: Tensor) -> Tensor:
        """Binary atoms [b, x, y, ...] with exact zeros outside the scope, whatever stood there."""
        return atoms if self.pairs is None else _where(self.pairs, atoms)

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
        own = torch.arange(atoms.shape[1], device=atoms.device) + (self.before or 0)
        return atoms.gather(2, own.view(1, -1, 1, 1).expand(atoms.shape[0], -1, 1, atoms.shape[3])).squeeze(2)

    def softmax(self, logits: Tensor, *, tokens_last: bool = False) -> Tensor:
        """Normalise [b, x, a, ...] over the tokens a that x may attend to, in at least float32; zeros elsewhere.

        With `tokens_last`, the logits [b, x, a, c] and the result lie in memory with channels first and tokens last.
        """
        exact = at_least_float32(logits)
        if self.pairs is not None:
            pairs = _stretch(self.pairs, logits)
            exact = exact.masked_fill(~pairs, torch.finfo(exact.dtype).min)
        # A softmax is computed over contiguous memory: in the order that the logits have, nothing is copied.
        weights = (
            exact.permute(3, 0, 1, 2).softmax(3).permute(1, 2, 3, 0) if tokens_last else exact.softmax(2)
        )
        if self.pairs is not None:
            weights = weights.masked_fill(~pairs, 0.0)
        return weights.to(logits.dtype)

    def weigh(self, logits: Tensor, values: Tensor) -> Tensor:
        """Sum a premise with unary weights that are normalised over what each row may attend to.

        u[g,n](x) = sum_a K[g,n](x,a) v[g](x,a) with K(x,a) = exp(k(a) - logsumexp of k over the scope of x).

        Args:
            logits: k, [b, a, g, n].
            values: v, [b, x, a, g], zero outside the scope.

        Returns:
            [b, x, g, n].
        """
        if self.uniform:
            return self._weigh_uniform(logits, values)
        if isinstance(values.shape[1], int) and values.shape[1] == 1:  # a symbolic size is not asked
            return self._weigh_one(logits, values)
        if self.causal and not torch.compiler.is_compiling():
            return self._weigh_causal(logits, values)
        return self._weigh_rows(logits, values)

    def _weigh_uniform(self, logits: Tensor, values: Tensor) -> Tensor:
        exact = at_least_float32(logits)
        if self.tokens is not None:
            tokens = _stretch(self.tokens, exact)
            exact = exact.masked_fill(~tokens, torch.finfo(exact.dtype).min)
        weights = exact.softmax(1)
        if self.tokens is not None:
            weights = weights.masked_fill(~tokens, 0.0)
        weights = self._drop(weights.to(logits.dtype))
        return torch.matmul(values.permute(0, 3, 1, 2), weights.permute(0, 2, 1, 3)).transpose(1, 2)

    def _weigh_one(self, logits: Tensor, values: Tensor) -> Tensor:
        """One row has one denominator: a product over its columns, as in a uniform scope."""
        weights = self._drop(self.softmax(logits.unsqueeze(1)).squeeze(1))
        return torch.matmul(values.permute(0, 3, 1, 2), weights.permute(0, 2, 1, 3)).transpose(1, 2)

    def _weigh_rows(self, logits: Tensor, values: Tensor) -> Tensor:
        """A few groups g at a time: [b, x, a, g, n] at most, recomputed in the backward pass.

        One by one they take the least memory. A traced graph repeats the nodes of every step, so there the steps are
        few: with a step for each of 64 groups, in 12 layers, an exporter's optimiser does not come to an end.
        """
        count = logits.shape[2]
        step = -(-count // TRACED_STEPS) if torch.compiler.is_compiling() else 1
        keep = self._drop(torch.ones_like(logits))
        groups = []
        for start in range(0, count, step):
            part = slice(start, start + step)
            groups.append(
                recomputed(self._weigh_groups, logits[:, :, part], values[..., part], keep[:, :, part])
            )
        return torch.cat(groups, 2)

    def _weigh_groups(self, logits: Tensor, values: Tensor, keep: Tensor) -> Tensor:
        """logits [b, a, g, n], values [b, x, a, g], keep [b, a, g, n] -> [b, x, g, n]."""
        weights = self.softmax(logits.unsqueeze(1).expand(-1, values.shape[1], -1, -1, -1))
        return ((weights * keep.unsqueeze(1)) * values.unsqueeze(-1)).sum(2)

    def _weigh_causal(self, logits: Tensor, values: Tensor) -> Tensor:
        """Blocks of rows: the past of a block enters by one product, scaled by its own running maximum.

        Every exponential is of a number <= 0. The maximum of a row is over its own past alone. So nothing of the future
        enters, not even its rounding.
        """
        exact = at_least_float32(logits).permute(0, 2, 3, 1)  # [b, g, n, a]
        low = torch.finfo(exact.dtype).min
        if self.tokens is not None:
            exact = exact.masked_fill(~self.tokens[:, None, None, :], low)
        keep = self._drop(torch.ones_like(exact))
        sums = values.permute(0, 3, 1, 2).to(exact.dtype)  # [b, g, x, a]
        length, blocks = exact.shape[-1], []
        for start in range(0, length, CAUSAL_BLOCK):
            stop = min(start + CAUSAL_BLOCK, length)
            block = recomputed(
                _causal_block, exact[..., :stop], sums[:, :, start:stop, :stop], keep[..., :stop], start
            )
            blocks.append(block)
        return torch.cat(blocks, 1).to(logits.dtype)

    def _drop(self, weights: Tensor) -> Tensor:
        return torch.dropout(weights, self.dropout, True) if self.dropout else weights


def _past(length: int, device: torch.device | None) -> Tensor:
    """bool [1, x, a], a <= x."""
    index = torch.arange(length, device=device)
    return (index.unsqueeze(0) <= index.unsqueeze(1)).unsqueeze(0)


def _causal_block(logits: Tensor, values: Tensor, keep: Tensor, start: int) -> Tensor:
    """Rows start.. of a causal scope: logits, keep [b, g, n, stop], values [b, g, rows, stop] -> [b, rows, g, n]."""
    low = torch.finfo(logits.dtype).min
    rows = logits.shape[-1] - start
    here = logits[..., start:].unsqueeze(-2).expand(*logits.shape[:-1], rows, rows)
    future = torch.ones(rows, rows, dtype=torch.bool, device=logits.device).triu(1)
    here = here.masked_fill(future, low)  # [b, g, n, row, a]
    peak = here.amax(-1)  # [b, g, n, row]
    past_peak = None
    if start:
        past_peak = logits[..., :start].amax(-1, keepdim=True)
        peak = torch.maximum(peak, past_peak)
    peak = peak.detach()
    weights = (here - peak.unsqueeze(-1)).exp().masked_fill(here == low, 0.0)
    total = weights.sum(-1)
    mixed = torch.einsum("bgnra,bgna,bgra->bgnr", weights, keep[..., start:], values[..., start:])
    if past_peak is not None:
        past_peak = past_peak.detach()
        past = (logits[..., :start] - past_peak).exp().masked_fill(logits[..., :start] == low, 0.0)
        rescale = (past_peak - peak).exp()
        total = total + past.sum(-1, keepdim=True) * rescale
        carried = torch.matmul(past * keep[..., :start], values[..., :start].transpose(-1, -2))
        mixed = mixed + carried * rescale
    empty = total == 0
    mixed = (mixed / total.masked_fill(empty, 1.0)).masked_fill(empty, 0.0)
    return mixed.permute(0, 3, 1, 2)


def _both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other


def _stretch(mask: Tensor, values: Tensor) -> Tensor:
    """A mask over the leading axes, with axes of size one for the channels of `values`."""
    return mask.reshape(*mask.shape, *[1] * (values.dim() - mask.dim()))


def _where(mask: Tensor, atoms: Tensor) -> Tensor:
    return torch.where(_stretch(mask, atoms), atoms, torch.zeros((), dtype=atoms.dtype, device=atoms.device))
