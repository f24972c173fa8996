"""Positions whose tables, inputs or counts are not what they say."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import at_least_float32
from peirce.kernels import PairBias, Rotation
from peirce.parts import (
    BinaryPosition,
    Dims,
    PairPosition,
    RotaryPosition,
    TensorSpec,
    Tokens,
    UnaryPosition,
    new_table,
    offsets,
)
from wrong import flaw, flawed, wrong


@frozen(kw_only=True)
class ClockOptions:
    """How fast the hands turn."""

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


@wrong("devices")
class PlainTable(Clock):
    """Keeps its table as an attribute, which stays behind when the module moves."""

    def keep(self, table: Tensor) -> None:
        self.plain = table

    def unary(self, tokens: Tokens) -> Tensor:
        return self.plain.to(self.scale.dtype)[tokens.rows(tokens.index)] * self.scale


@wrong("precision")
class SingleAngles(Clock):
    """Computes its angles in float32, whatever the model is in."""

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.wave = options.wave

    def unary(self, tokens: Tokens) -> Tensor:
        at = torch.arange(self.width, device=self.scale.device) / self.width
        angles = tokens.rows(tokens.index).float().unsqueeze(2) * self.wave**-at
        return angles.sin().to(self.scale.dtype) * self.scale


flaw(
    Clock, "limits", "counts_in_a_small_number", "Counts in eight bits, which end at 127.",
    unary=lambda self, tokens: (
        F.embedding(tokens.rows(tokens.index).to(torch.int8).long(), self.table) * self.scale
    ),
)  # fmt: skip
flaw(
    Clock, "memory", "every_token_is_a_row", "Gives a vector to every token, where only some are rows.",
    unary=lambda self, tokens: self.table[tokens.index] * self.scale,
)  # fmt: skip


@wrong("purity")
class KeepsTheProduct(Clock):
    """Computes its vectors once, from the scale of that day."""

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.product: Tensor | None = None

    def unary(self, tokens: Tokens) -> Tensor:
        if self.product is None or self.product.dtype != self.scale.dtype:
            self.product = (self.table * self.scale).detach()
        return self.product[tokens.rows(tokens.index)]


@flawed(Clock, "__init__", "options")
def wave_is_fixed(self: Clock, options: Any, dims: Dims) -> None:
    """Has an option that nothing reads."""
    Clock.__init__(self, ClockOptions(), dims)


@flawed(Clock, "__init__", "seed")
def sets_the_default(self: Clock, options: Any, dims: Dims) -> None:
    """Changes the default dtype of the whole process to make its table."""
    torch.set_default_dtype(torch.float64)
    Clock.__init__(self, options, dims)


@flawed(Clock, "__init__", "seed")
def seeds_itself(self: Clock, options: Any, dims: Dims) -> None:
    """Seeds torch, so that its scale is the same in every model."""
    torch.manual_seed(0)
    Clock.__init__(self, options, dims)


flaw(
    Clock, "padding", "counts_padding", "Counts every token, so that padding on the left moves the real ones.",
    unary=lambda self, tokens: self.table[: tokens.length].to(self.scale.dtype).unsqueeze(0) * self.scale,
)  # fmt: skip


@wrong("state_dict")
class HidesANumber(Clock):
    """Draws a number that no file will keep."""

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.factor = float(torch.rand(()))

    def unary(self, tokens: Tokens) -> Tensor:
        return super().unary(tokens) * self.factor


@frozen(kw_only=True)
class DepthOptions:
    """How deep trees are."""

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


flaw(
    Depth, "inputs", "another_default", "Takes absent depths for 1.",
    absent=lambda self, tokens: torch.ones_like(tokens.index),
)  # fmt: skip
flaw(
    Depth, "inputs", "needs_what_is_optional", "Declares its input optional and fails without it.",
    unary=lambda self, tokens: self.table(tokens.rows(self.clipped(tokens.inputs["depths"]))),
)  # fmt: skip
flaw(
    Depth, "inputs", "one_too_many", "Allows one depth more than its table has.",
    high=6,
    clipped=lambda self, depths: depths,
)  # fmt: skip
flaw(
    Depth, "gradients", "frozen_depth", "Looks its vectors up without a gradient.",
    unary=lambda self, tokens: Depth.unary(self, tokens).detach(),
)  # fmt: skip


class Seeded(Depth):
    """Begins with vectors from elsewhere, such as a file."""

    name = "seeded_depth"

    def begin(self) -> None:
        with torch.no_grad():
            steps = torch.arange(self.table.weight.shape[0], dtype=self.table.weight.dtype)
            self.table.weight.copy_(steps[:, None].expand_as(self.table.weight) / 10)


@wrong("save_load")
class LosesItsBeginning(Seeded):
    """Keeps what it begins with where no file does."""

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


flaw(
    Near, "shapes", "near_for_the_first_layer", "Biases one layer, whatever their number.",
    pairs=lambda self, tokens: Near.pairs(self, tokens)[:1],
)  # fmt: skip


@flawed(Near, "ids", "limits")
def near_by_place(self: Near, tokens: Tokens) -> Tensor:
    """Counts places and not real tokens."""
    places = torch.arange(tokens.length, device=tokens.index.device).expand_as(tokens.index)
    return offsets(Tokens(tokens.inputs, None, places, tokens.length, tokens.before)).clamp(-4, 4) + 4


flaw(
    Near, "shapes", "near_for_several_heads", "Squeezes its table, and a single head with it.",
    table=lambda self: self.scores.weight.squeeze(),
)  # fmt: skip


class Turning(RotaryPosition):
    """Turns a first pair of channels by a learned angle a token, another one in each layer."""

    name = "turning"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.rates = nn.Parameter(torch.linspace(0.2, 0.9, dims.layers))

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        return None if dims.head_size > 1 else "a head of one channel has no pair to turn"

    def index(self, tokens: Tokens) -> Tensor:
        """int64 [b or 1, x]."""
        return tokens.rows(tokens.index)

    def each(self) -> Tensor:
        """The angle of each layer."""
        return at_least_float32(self.rates)

    def rotations(self, tokens: Tokens) -> list[Rotation]:
        angles = self.index(tokens).to(self.each().dtype)[:, :, None] * self.each()[:, None, None, None]
        return [Rotation(angle.cos(), angle.sin(), "interleaved") for angle in angles]


flaw(
    Turning, "padding", "turns_by_place", "Counts every token, padding on the left too.",
    index=lambda self, tokens: tokens.rows(
        torch.arange(tokens.length, device=tokens.index.device).unsqueeze(0)
    ),
)  # fmt: skip
flaw(
    Turning, "memory", "turns_new_tokens_from_the_start", "Counts new tokens alone, and forgets those before them.",
    index=lambda self, tokens: tokens.rows(tokens.index) - tokens.rows(tokens.index)[:, :1],
)  # fmt: skip
flaw(
    Turning, "gradients", "turns_without_learning", "Cuts its learned angles off.",
    each=lambda self: at_least_float32(self.rates).detach(),
)  # fmt: skip
flaw(
    Turning, "shapes", "turns_one_layer", "Gives one rotation for all layers, where each wants its own.",
    rotations=lambda self, tokens: Turning.rotations(self, tokens)[:1],
)  # fmt: skip


@flawed(Turning, "rotations", "precision")
def turns_in_single_precision(self: Turning, tokens: Tokens) -> list[Rotation]:
    """Computes its cosines in float32, whatever the model is in."""
    turns = Turning.rotations(self, tokens)
    return [Rotation(t.cos.float().to(t.cos), t.sin.float().to(t.sin), t.pairing) for t in turns]


@frozen(kw_only=True)
class PaceOptions:
    """How fast positions count."""

    pace: Literal["every", "second"] = "every"


class Pace(UnaryPosition):
    """u(x) += table[t], or table[t // 2] where `pace` is `second`."""

    name = "pace"
    Options = PaceOptions

    def __init__(self, options: PaceOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.step = 1 if options.pace == "every" else 2
        self.table = new_table(dims.max_length, dims.unary)

    def unary(self, tokens: Tokens) -> Tensor:
        found: Tensor = self.table(tokens.rows(tokens.index) // self.step)
        return found


@flawed(Pace, "unary", "memory")
def forgets_rows(self: Any, tokens: Tokens) -> Tensor:
    """Gives all tokens where the rows are asked for, with one choice of its option."""
    index = tokens.rows(tokens.index) if self.step == 1 else tokens.index // 2
    found: Tensor = self.table(index)
    return found


@flawed(Clock, "unary", "purity")
def starts_at_one(self: Clock, tokens: Tokens) -> Tensor:
    """Counts from one, where all parts of the layer count."""
    given = Clock.unary(self, tokens)
    tokens.index.add_(1).clamp_max_(self.table.shape[0] - 1)
    return given


flaw(
    Near, "shapes", "near_beyond_its_table", "Has ids below zero, which wrap around.",
    ids=lambda self, tokens: Near.ids(self, tokens) - 1,
)  # fmt: skip
flaw(
    Clock, "declaration", "checked_as_networks_are", "Is asked about its sizes as an architecture is.",
    check=classmethod(lambda cls, options, scope: None),
)  # fmt: skip


flaw(
    Clock, "compiled", "one_place_when_compiled", "Gives the first place to every token under torch.compile.",
    unary=lambda self, tokens: Clock.unary(self, tokens)[:, :1 if torch.compiler.is_compiling() else None],
)  # fmt: skip
flaw(
    Clock, "long_sequences", "begins_anew", "Counts in eight bits, which end at 255.",
    unary=lambda self, tokens: self.table[tokens.rows(tokens.index) % 256].to(self.scale) * self.scale,
)  # fmt: skip
flaw(
    Turning, "long_sequences", "turns_in_half_precision", "Counts in the dtype of the model.",
    each=lambda self: self.rates,
)  # fmt: skip
