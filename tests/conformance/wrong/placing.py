"""Positions whose tables, inputs or counts are not what they say."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from peirce.kernels import PairBias
from peirce.parts import (
    BinaryPosition,
    Dims,
    PairPosition,
    TensorSpec,
    Tokens,
    UnaryPosition,
    new_table,
    offsets,
)
from torch import Tensor, nn

from wrong import Pair


@frozen(kw_only=True)
class ClockOptions:
    """How fast the hands turn.

    Args:
        wave: the longest wavelength, in tokens, divided by 2 pi.
    """

    wave: float = field(default=100.0, validator=validators.gt(1))


class Clock(UnaryPosition):
    """u(x) += scale * sin(t(x) * wave ** -(i / d1)), with a learned scale for each channel i."""

    name = "clock"
    Options = ClockOptions

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.width = dims.unary
        self.scale = nn.Parameter(torch.ones(dims.unary))
        rates = options.wave ** -(torch.arange(dims.unary, dtype=torch.float64) / dims.unary)
        self.keep(torch.outer(torch.arange(dims.max_length, dtype=torch.float64), rates).sin())

    def keep(self, table: Tensor) -> None:
        """Make float64 [max_length, d1] the table."""
        self.table: Tensor
        self.register_buffer("table", table, persistent=False)

    def unary(self, tokens: Tokens) -> Tensor:
        return self.table[tokens.rows(tokens.index)].to(self.scale.dtype) * self.scale


class PlainTable(Clock):
    """Keeps its table as an attribute, which stays behind when the module moves."""

    name = "plain_table"

    def keep(self, table: Tensor) -> None:
        self.plain = table

    def unary(self, tokens: Tokens) -> Tensor:
        return self.plain.to(self.scale.dtype)[tokens.rows(tokens.index)] * self.scale


class SingleAngles(Clock):
    """Computes its angles in float32, whatever the model is in."""

    name = "single_angles"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.wave = options.wave

    def unary(self, tokens: Tokens) -> Tensor:
        at = torch.arange(self.width, device=self.scale.device) / self.width
        angles = tokens.rows(tokens.index).float().unsqueeze(2) * self.wave**-at
        return angles.sin().to(self.scale.dtype) * self.scale


class CountsInASmallNumber(Clock):
    """Counts in eight bits, which end at 127."""

    name = "counts_in_a_small_number"

    def unary(self, tokens: Tokens) -> Tensor:
        return F.embedding(tokens.rows(tokens.index).to(torch.int8).long(), self.table) * self.scale


class EveryTokenIsARow(Clock):
    """Gives a vector to every token, where only some are rows."""

    name = "every_token_is_a_row"

    def unary(self, tokens: Tokens) -> Tensor:
        return self.table[tokens.index] * self.scale


class KeepsTheProduct(Clock):
    """Computes its vectors once, from the scale of that day."""

    name = "keeps_the_product"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.product: Tensor | None = None

    def unary(self, tokens: Tokens) -> Tensor:
        if self.product is None or self.product.dtype != self.scale.dtype:
            self.product = (self.table * self.scale).detach()
        return self.product[tokens.rows(tokens.index)]


class WaveIsFixed(Clock):
    """Has an option that nothing reads."""

    name = "wave_is_fixed"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(ClockOptions(), dims)


class SetsTheDefault(Clock):
    """Changes the default dtype of the whole process to make its table."""

    name = "sets_the_default"

    def __init__(self, options: Any, dims: Dims) -> None:
        torch.set_default_dtype(torch.float64)
        super().__init__(options, dims)


class SeedsItself(Clock):
    """Seeds torch, so that its scale is the same in every model."""

    name = "seeds_itself"

    def __init__(self, options: Any, dims: Dims) -> None:
        torch.manual_seed(0)
        super().__init__(options, dims)


@frozen(kw_only=True)
class DepthOptions:
    """How deep trees are.

    Args:
        deepest: depths from it on share a vector.
    """

    deepest: int = field(default=4, validator=validators.ge(1))


class Depth(UnaryPosition):
    """u(x) += table[depth of x in a tree]; depths are an input, and 0 where it is absent."""

    name = "depth_of"
    Options = DepthOptions
    high: int | None = None

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.deepest = options.deepest
        self.table = new_table(options.deepest + 1, dims.unary)

    def inputs(self) -> tuple[TensorSpec, ...]:
        return (
            TensorSpec(
                name="depths", dtype="int64", dims=("batch", "length"), required=False, default=0,
                high=self.high, meaning="How deep in its tree each token stands.",
            ),
        )  # fmt: skip

    def unary(self, tokens: Tokens) -> Tensor:
        given = tokens.inputs.get("depths")
        depths = self.absent(tokens) if given is None else given
        return self.table(tokens.rows(self.clipped(depths)))

    def absent(self, tokens: Tokens) -> Tensor:
        """int64 [b or 1, a]: the depths where the input is absent."""
        return torch.zeros_like(tokens.index)

    def clipped(self, depths: Tensor) -> Tensor:
        """The rows of the table."""
        return depths.clamp_max(self.deepest)


class AnotherDefault(Depth):
    """Takes absent depths for 1."""

    name = "another_default"

    def absent(self, tokens: Tokens) -> Tensor:
        return torch.ones_like(tokens.index)


class NeedsWhatIsOptional(Depth):
    """Declares its input optional and fails without it."""

    name = "needs_what_is_optional"

    def unary(self, tokens: Tokens) -> Tensor:
        return self.table(tokens.rows(self.clipped(tokens.inputs["depths"])))


class OneTooMany(Depth):
    """Allows one depth more than its table has."""

    name = "one_too_many"
    high = 6

    def clipped(self, depths: Tensor) -> Tensor:
        return depths


class Frozen(Depth):
    """Looks its vectors up without a gradient."""

    name = "frozen_depth"

    def unary(self, tokens: Tokens) -> Tensor:
        return super().unary(tokens).detach()


class Seeded(Depth):
    """Begins with vectors from elsewhere, such as a file."""

    name = "seeded_depth"

    def begin(self) -> None:
        with torch.no_grad():
            steps = torch.arange(self.table.weight.shape[0], dtype=self.table.weight.dtype)
            self.table.weight.copy_(steps[:, None].expand_as(self.table.weight) / 10)


class LosesItsBeginning(Seeded):
    """Keeps what it begins with where no file does."""

    name = "loses_its_beginning"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.more: Tensor
        self.register_buffer("more", torch.zeros(options.deepest + 1, dims.unary), persistent=False)

    def begin(self) -> None:
        self.more += torch.arange(self.more.shape[1])

    def unary(self, tokens: Tokens) -> Tensor:
        given = tokens.inputs.get("depths")
        depths = tokens.rows(self.clipped(self.absent(tokens) if given is None else given))
        return self.table(depths) + self.more[depths]


class Near(PairPosition, BinaryPosition):
    """score[h](x,y) += table[clip(y - x), h], and the same distances as relations."""

    name = "near"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers, self.heads = dims.layers, dims.heads
        self.scores = new_table(9, dims.heads)
        self.relations = new_table(9, dims.binary)

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        return None if dims.binary else "it gives relations, and the model has none"

    def ids(self, tokens: Tokens) -> Tensor:
        """int64 [b or 1, x, y]."""
        return offsets(tokens).clamp(-4, 4) + 4

    def binary(self, tokens: Tokens) -> Tensor:
        return self.relations(self.ids(tokens))

    def pairs(self, tokens: Tokens) -> list[PairBias]:
        return [PairBias(ids=self.ids(tokens), score=self.table().unsqueeze(0))] * self.layers

    def table(self) -> Tensor:
        """[r, h]."""
        return self.scores.weight


class NearForTheFirstLayer(Near):
    """Biases one layer, whatever their number."""

    name = "near_for_the_first_layer"

    def pairs(self, tokens: Tokens) -> list[PairBias]:
        return super().pairs(tokens)[:1]


class NearByPlace(Near):
    """Counts places and not real tokens."""

    name = "near_by_place"

    def ids(self, tokens: Tokens) -> Tensor:
        places = torch.arange(tokens.length, device=tokens.index.device).expand_as(tokens.index)
        return offsets(Tokens(tokens.inputs, None, places, tokens.length, tokens.before)).clamp(-4, 4) + 4


class NearForSeveralHeads(Near):
    """Squeezes its table, and a single head with it."""

    name = "near_for_several_heads"

    def table(self) -> Tensor:
        return self.scores.weight.squeeze()


PAIRS = [
    Pair(Clock, PlainTable, "devices", "positions"),
    Pair(Clock, SingleAngles, "precision", "positions"),
    Pair(Clock, CountsInASmallNumber, "limits", "positions"),
    Pair(Clock, EveryTokenIsARow, "memory", "positions"),
    Pair(Clock, KeepsTheProduct, "kept", "positions"),
    Pair(Clock, WaveIsFixed, "options", "positions"),
    Pair(Clock, SetsTheDefault, "seed", "positions"),
    Pair(Clock, SeedsItself, "seed", "positions"),
    Pair(Depth, AnotherDefault, "inputs", "positions"),
    Pair(Depth, NeedsWhatIsOptional, "inputs", "positions"),
    Pair(Depth, OneTooMany, "inputs", "positions"),
    Pair(Depth, Frozen, "gradients", "positions"),
    Pair(Seeded, LosesItsBeginning, "save_load", "positions"),
    Pair(Near, NearForTheFirstLayer, "shapes", "positions"),
    Pair(Near, NearByPlace, "limits", "positions"),
    Pair(Near, NearForSeveralHeads, "shapes", "positions"),
]
