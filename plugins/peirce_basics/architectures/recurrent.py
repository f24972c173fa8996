"""recurrent: LSTM or GRU layers over the tokens, in both directions or one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from peirce.algebra import at_least_float32
from peirce.parts import (
    Architecture,
    Encoded,
    Plan,
    Pooler,
    TensorSpec,
    TokenInput,
    Tokens,
    pooled_output,
    unary_output,
)
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan

CELLS: Mapping[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
DIRECTIONS = ("both", "forward")


@frozen(kw_only=True)
class RecurrentDims:
    """The sizes of a recurrent network; every one is a count.

    Args:
        layers: recurrences on top of each other.
        unary: width of the atoms; each of two directions has half of it.
    """

    layers: int = field(validator=validators.ge(1))
    unary: int = field(validator=validators.ge(1))


@frozen(kw_only=True)
class RecurrentOptions:
    """Which recurrence it is.

    Args:
        cell: `lstm` or `gru`.
        directions: `both` joins a recurrence from the left and one from the right; `forward` reads from the left alone.
        pooler: whether there is a pooled output.
    """

    cell: Literal["lstm", "gru"] = field(default="lstm", validator=validators.in_(tuple(CELLS)))
    directions: Literal["both", "forward"] = field(default="both", validator=validators.in_(DIRECTIONS))
    pooler: bool = True


class Recurrent(Architecture):
    """Each layer reads the atoms of the one below, token by token; it has no operators and keeps no relations.

    Real tokens are brought together before a recurrence and taken back after it, so padding takes no part wherever it
    stands.
    """

    name = "recurrent"
    source = "SQE-LSTM (Bai et al., 2023); LSTM: Hochreiter & Schmidhuber (1997); GRU: Cho et al. (2014)"
    Dims = RecurrentDims
    Options = RecurrentOptions
    places = frozenset({"unary"})
    branches = "U"
    layer = ""
    scope = "bidirectional"
    fixed_layer = True

    @classmethod
    def sizes(cls, options: RecurrentOptions, dims: RecurrentDims) -> Mapping[str, int]:
        """Layers and a width: there are no heads and no hidden width."""
        return {"layers": dims.layers, "unary": dims.unary}

    @classmethod
    def check(cls, options: RecurrentOptions, dims: RecurrentDims) -> str | None:
        """Two directions share the width evenly."""
        if options.directions == "both" and dims.unary % 2:
            return f'unary = {dims.unary} cannot be shared by two directions; make it even, or directions = "forward"'
        return None

    @classmethod
    def gives(cls, options: RecurrentOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """A pooled output with a pooler."""
        return frozenset({"pooled"} if options.pooler else ())

    def __init__(self, options: RecurrentOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.plan = plan
        self.input = TokenInput(plan, sorted(self.places))
        self.layers = nn.ModuleList(Layer(plan.dims.unary, options) for _ in range(plan.dims.layers))
        self.pooler = Pooler(plan.dims.unary) if options.pooler else None

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Token ids, mask, token types, and what the parts add."""
        return self.input.specs()

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The atoms, and the pooled output."""
        pooled = (pooled_output(self.plan.dims.unary),) if self.pooler is not None else ()
        return (unary_output(self.plan.dims.unary), *pooled)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, bring the real tokens together, read layer by layer, take them back, pool."""
        tokens = self.input.tokens(inputs)
        scope = self.input.scope(tokens)
        order = _Order.of(tokens)
        atoms = self._dropped(order.together(self.input.unary(tokens)))
        for layer in self.layers:
            atoms = self._dropped(layer(atoms, order))
        atoms = scope.zero_unary(order.back(atoms))
        pooled = self.pooler(atoms, tokens.real) if self.pooler is not None else None
        return Encoded(atoms, None, pooled, scope, self.input.words()), tokens

    def _dropped(self, atoms: Tensor) -> Tensor:
        return F.dropout(atoms, self.plan.dims.dropout, self.training)


class Layer(nn.Module):
    """One recurrence, or one from either end."""

    def __init__(self, width: int, options: RecurrentOptions) -> None:
        super().__init__()
        both = options.directions == "both"
        cell = CELLS[options.cell]
        self.forwards = cell(width, width // 2 if both else width, batch_first=True)
        self.backwards = cell(width, width // 2, batch_first=True) if both else None

    def forward(self, atoms: Tensor, order: _Order) -> Tensor:
        """[b, x, d1] -> [b, x, d1], the real tokens first."""
        read = recur(self.forwards, atoms)
        if self.backwards is None:
            return read
        return torch.cat([read, order.reversed(recur(self.backwards, order.reversed(atoms)))], 2)


def recur(cell: nn.RNNBase, atoms: Tensor) -> Tensor:
    """The states of a recurrence from zero, [b, x, d] -> [b, x, h].

    In a traced graph it is a scan over a symbolic length, which torch's own recurrences would fix. Its states are in
    at least float32, since each is rounded once more than the one before.
    """
    if not torch.compiler.is_compiling():
        return cell(atoms)[0]
    gates = F.linear(atoms, cell.get_parameter("weight_ih_l0"), cell.get_parameter("bias_ih_l0"))
    gates = at_least_float32(gates)
    weight, bias = (at_least_float32(cell.get_parameter(f"{name}_hh_l0")) for name in ("weight", "bias"))
    size = cell.hidden_size
    zeros = gates.new_zeros(atoms.shape[0], size)

    def lstm(state: tuple[Tensor, Tensor], gate: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        last, memory = state
        mixed = (gate + F.linear(last, weight, bias)).split_with_sizes([size] * 4, -1)
        entry, keep, content, exit_ = mixed
        memory = keep.sigmoid() * memory + entry.sigmoid() * content.tanh()
        last = exit_.sigmoid() * memory.tanh()
        return (last, memory), last.clone()

    def gru(state: tuple[Tensor], gate: Tensor) -> tuple[tuple[Tensor], Tensor]:
        (last,) = state
        reset, update, content = gate.split_with_sizes([size] * 3, -1)
        own = F.linear(last, weight, bias).split_with_sizes([size] * 3, -1)
        update = (update + own[1]).sigmoid()
        content = (content + (reset + own[0]).sigmoid() * own[2]).tanh()
        last = (1 - update) * content + update * last
        return (last,), last.clone()

    if isinstance(cell, nn.LSTM):
        _, states = scan(lstm, (zeros, zeros.clone()), gates.transpose(0, 1))
    else:
        _, states = scan(gru, (zeros,), gates.transpose(0, 1))
    return states.transpose(0, 1).to(atoms.dtype)


class _Order:
    """Where the real tokens are; without padding everything stays where it is.

    Args:
        places: int64 [b, x], where the i-th real token stands, then the padding.
        backwards: int64 [b or 1, x], the real tokens' numbers from the last to the first, then the padding.
    """

    def __init__(self, places: Tensor | None, backwards: Tensor) -> None:
        self.places, self.backwards = places, backwards

    @classmethod
    def of(cls, tokens: Tokens) -> _Order:
        """The order of a batch."""
        numbers = torch.arange(tokens.length, device=tokens.index.device).unsqueeze(0)
        if tokens.real is None:
            return cls(None, numbers.flip(1))
        padding = (~tokens.real).long()
        count = tokens.real.long().sum(1, keepdim=True)
        # Each token's new number: real ones are counted, and padding is counted on from there.
        numbered = torch.where(tokens.real, tokens.index, count + padding.cumsum(1) - 1)
        places = torch.zeros_like(numbered).scatter(1, numbered, numbers.expand_as(numbered))
        return cls(places, torch.where(numbers < count, count - 1 - numbers, numbers))

    def together(self, atoms: Tensor) -> Tensor:
        """Real tokens first."""
        return atoms if self.places is None else _picked(atoms, self.places)

    def back(self, atoms: Tensor) -> Tensor:
        """Every token to its own place; the inverse of `together`."""
        if self.places is None:
            return atoms
        numbers = torch.arange(atoms.shape[1], device=atoms.device).expand_as(self.places)
        return _picked(atoms, torch.zeros_like(self.places).scatter(1, self.places, numbers))

    def reversed(self, atoms: Tensor) -> Tensor:
        """The real tokens from the last to the first; its own inverse."""
        return _picked(atoms, self.backwards.expand(atoms.shape[0], -1))


def _picked(atoms: Tensor, places: Tensor) -> Tensor:
    """[b, x, d] with the tokens at `places` [b, x]."""
    return atoms.gather(1, places.unsqueeze(2).expand(-1, -1, atoms.shape[2]))
