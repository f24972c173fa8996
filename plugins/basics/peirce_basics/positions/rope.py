"""rope: queries and keys turned by angles that grow with the position, as rotary embeddings are."""

from __future__ import annotations

import math
from typing import Literal

import torch
from attrs import field, frozen, validators
from torch import Tensor

from peirce.algebra import at_least_float32
from peirce.kernels import Rotation
from peirce.parts import Dims, PlainMap, PlainScope, RotaryPosition, Tokens
from peirce_basics.positions.layers import layers_option, why_not_layers

PAIRINGS = ("halves", "interleaved")
SCALINGS = ("none", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")


@frozen(kw_only=True)
class RopeOptions:
    """How fast which channels turn, and how the angles are scaled for texts longer than those of the training.

    Args:
        base: theta; pair i of w turns by base ** (-i / w) a token.
        fraction: of each head's channels, how many are turned, the first ones.
        pairing: `halves` as in Llama and GPT-NeoX, `interleaved` as in RoFormer and GPT-J.
        scaling: `linear` divides all angles by `factor`; `dynamic` raises the base where the text is longer than the
            original length, and the more the longer it is; `llama3` divides those of wavelengths beyond the original
            length, and some of those before it in part; `yarn` as `llama3` along a ramp over the pairs, and scales the
            scores; `longrope` divides each pair by a factor of its own, one in texts up to the original length and
            another in longer ones, and scales the scores; `proportional` divides all by `factor`, and turns the first
            `fraction` of all pairs.
        factor: how much longer texts are than those of the training; for any scaling.
        original_length: the longest texts of the training, in tokens; for `dynamic`, `llama3`, `longrope` and `yarn`.
        low_freq_factor: pairs that turn less often than this over the original length are divided; for `llama3`.
        high_freq_factor: pairs that turn more often than this stay; for `llama3`.
        beta_fast: pairs that turn more often than this over the original length stay; for `yarn`.
        beta_slow: pairs that turn less often than this are divided; for `yarn`.
        attention_factor: times cos and sin; if it is absent 0.1 ln factor + 1 for `yarn`, and
            sqrt(1 + ln factor / ln original_length) for `longrope`.
        short_factors: what each pair's angle is divided by in texts up to the original length; for `longrope`.
        long_factors: likewise in longer texts.
        truncate: whether the ends of the ramp are whole numbers; for `yarn`.
        layers: the layers where it turns, the first of which is 0; every one if there are none.
    """

    base: float = field(default=10_000.0, validator=validators.gt(1))
    fraction: float = field(default=1.0, validator=[validators.gt(0), validators.le(1)])
    pairing: Literal["halves", "interleaved"] = field(default="halves", validator=validators.in_(PAIRINGS))
    scaling: Literal["none", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional"] = field(
        default="none", validator=validators.in_(SCALINGS)
    )
    factor: float = field(default=8.0, validator=validators.ge(1))
    original_length: int = field(default=8192, validator=validators.ge(2))
    low_freq_factor: float = field(default=1.0, validator=validators.gt(0))
    high_freq_factor: float = field(default=4.0, validator=validators.gt(0))
    beta_fast: float = field(default=32.0, validator=validators.gt(0))
    beta_slow: float = field(default=1.0, validator=validators.gt(0))
    attention_factor: float | None = field(default=None, validator=validators.optional(validators.gt(0)))
    truncate: bool = True
    short_factors: tuple[float, ...] = field(default=(), validator=validators.deep_iterable(validators.gt(0)))
    long_factors: tuple[float, ...] = field(default=(), validator=validators.deep_iterable(validators.gt(0)))
    layers: tuple[int, ...] = layers_option()


class Rope(RotaryPosition):
    """q(x) and k(y) are turned by their positions times base ** (-i / w) in pair i, so q(x) . k(y) depends on y - x.

    w pairs are half of the first `fraction` of a head's channels. Positions count real tokens, and only their
    differences matter. Without parameters; the layers share the rotation.

    With `dynamic` and `longrope` the angles depend on the longest text of a batch, as in the published codes.
    """

    name = "rope"
    source = (
        "RoFormer (Su et al., 2021), Section 3.4.2; position interpolation (Chen et al., 2023), eq. 4; Llama 3 (2024), "
        "with its published code; YaRN (Peng et al., 2023), Section 3; LongRoPE (Ding et al., 2024), eq. 2, as in Phi-3"
    )
    Options = RopeOptions

    @classmethod
    def check(cls, options: RopeOptions, dims: Dims, scope: str) -> str | None:
        """Why the channels cannot be paired, or the scaling has no range."""
        whole = options.scaling == "proportional"
        count = dims.head_size if whole else int(options.fraction * dims.head_size)
        if count < 2 or count % 2:
            return (
                f"fraction = {options.fraction:g} turns {count} of a head's {dims.head_size} channels, which do not "
                "make pairs; choose a fraction or a head size that leaves an even number"
            )
        for low, high, scaling in (
            ("low_freq_factor", "high_freq_factor", "llama3"),
            ("beta_slow", "beta_fast", "yarn"),
        ):
            if options.scaling == scaling and getattr(options, low) >= getattr(options, high):
                return f"{low} must be less than {high}, which bound the pairs that are scaled in part"
        if options.scaling == "dynamic" and count == 2:
            return "scaling = 'dynamic' needs two pairs or more; turn more channels, or leave it out"
        for name in ("short_factors", "long_factors") if options.scaling == "longrope" else ():
            if (given := len(getattr(options, name))) != count // 2:
                return f"{name} has {given} numbers, and a head has {count // 2} pairs that turn; give one for each"
        return why_not_layers(options.layers, dims)

    def __init__(self, options: RopeOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers = dims.layers
        self.turning = int(options.fraction * dims.head_size) // 2
        self.pairs = dims.head_size // 2 if options.scaling == "proportional" else self.turning
        self.amount = _amount(options)
        # Without parameters, this follows the dtype and the device of the model.
        self.register_buffer("like", torch.zeros(()), persistent=False)

    def rotations(self, tokens: Tokens) -> list[Rotation | None]:
        """The same one for every layer that turns."""
        # Angles need the precision even where the model has none.
        exact = at_least_float32(self.get_buffer("like"))
        angles = tokens.rows(tokens.index).to(exact.dtype).unsqueeze(2) * self.rates(exact, tokens.index)
        turn = Rotation(angles.cos() * self.amount, angles.sin() * self.amount, self.options.pairing)
        chosen = self.options.layers or range(self.layers)
        return [turn if layer in chosen else None for layer in range(self.layers)]

    def reuses_cache(self, before: int, after: int) -> bool:
        """Whether tokens are turned alike in texts of both lengths."""
        original, scaling = self.options.original_length, self.options.scaling
        if scaling == "dynamic":
            return before == after or max(before, after) <= original
        return scaling != "longrope" or (before > original) == (after > original)

    def rates(self, like: Tensor, index: Tensor) -> Tensor:
        """How far each pair turns a token, [w], in radians.

        Args:
            like: of the dtype and the device.
            index: the position of each token, int64 [b or 1, a].
        """
        # Operations stand in the order of the published codes: far positions multiply what is rounded otherwise.
        options, count, factor = self.options, self.pairs, self.options.factor
        pair = torch.arange(count, dtype=like.dtype, device=like.device)
        base: float | Tensor = options.base
        if options.scaling == "dynamic":
            longest = (index.max() + 1).clamp_min(options.original_length)
            over = longest.to(like.dtype) / options.original_length
            base = base * (factor * over - (factor - 1)) ** (count / (count - 1))
        lengths = base ** (2 * pair / (2 * count))
        if options.scaling == "longrope":
            short, long = (like.new_tensor(each) for each in (options.short_factors, options.long_factors))
            return 1.0 / (torch.where(index.max() >= options.original_length, long, short) * lengths)
        rates = 1.0 / lengths
        if options.scaling == "proportional":
            rates = rates * (pair < self.turning)
        if options.scaling in ("linear", "proportional"):
            return rates / factor
        if options.scaling == "llama3":
            low, high = options.low_freq_factor, options.high_freq_factor
            stays = ((options.original_length / (2 * math.pi / rates) - low) / (high - low)).clamp(0, 1)
            return (1 - stays) * rates / factor + stays * rates
        if options.scaling == "yarn":
            low, high = self._ramp()
            stays = 1 - ((pair - low) / (high - low)).clamp(0, 1)
            return 1.0 / (factor * lengths) * (1 - stays) + rates * stays
        return rates

    def _ramp(self) -> tuple[float, float]:
        """Between which pairs, as real numbers, YaRN's scaling grows from none to all of it."""
        options, count = self.options, self.pairs

        def pair_of(turns: float) -> float:
            """The pair that turns so often over the original length."""
            return count * math.log(options.original_length / (turns * 2 * math.pi)) / math.log(options.base)

        low, high = pair_of(options.beta_fast), pair_of(options.beta_slow)
        if options.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * count - 1)
        # The published code keeps the ends apart so, that nothing is divided by zero.
        return low, high + 0.001 if high == low else high

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Vector by vector: each pair of channels turned by its angle."""
        options, turns = self.options, 2 * math.pi
        count, original, factor = self.pairs, options.original_length, options.factor
        length = max(scope.columns) + 1

        def ramp_end(often: float) -> float:
            return count * math.log(original / (often * turns)) / math.log(options.base)

        def rate(pair: int) -> float:
            base = options.base
            if options.scaling == "dynamic":
                base *= (factor * max(length, original) / original - (factor - 1)) ** (count / (count - 1))
            plain = float(base ** (-pair / count))
            if options.scaling in ("none", "dynamic"):
                return plain
            if options.scaling in ("linear", "proportional"):
                return plain / factor if pair < self.turning else 0.0
            if options.scaling == "longrope":
                return plain / (options.long_factors if length > original else options.short_factors)[pair]
            if options.scaling == "llama3":
                over, low = original * plain / turns, options.low_freq_factor
                stays = min(1.0, max(0.0, (over - low) / (options.high_freq_factor - low)))
            else:
                first, last = ramp_end(options.beta_fast), ramp_end(options.beta_slow)
                if options.truncate:
                    first, last = math.floor(first), math.ceil(last)
                first, last = max(first, 0), min(last, 2 * count - 1)
                last += 0.001 * (first == last)
                stays = 1 - min(1.0, max(0.0, (pair - first) / (last - first)))
            return stays * plain + (1 - stays) * plain / factor

        def turn(vector: list[float], place: int) -> list[float]:
            result = [*vector]
            for pair in range(count):
                one, other = (
                    (2 * pair, 2 * pair + 1) if options.pairing == "interleaved" else (pair, pair + count)
                )
                cos, sin = (self.amount * f(place * rate(pair)) for f in (math.cos, math.sin))
                result[one] = vector[one] * cos - vector[other] * sin
                result[other] = vector[other] * cos + vector[one] * sin
            return result

        return {
            name: [[turn(v, x) for v in heads] for x, heads in enumerate(given[name])]
            for name in ("query", "key")
        }


def _amount(options: RopeOptions) -> float:
    """What cos and sin are multiplied by."""
    if options.scaling not in ("yarn", "longrope"):
        return 1.0
    if options.attention_factor is not None:
        return options.attention_factor
    grown = math.log(options.factor)
    return (
        0.1 * grown + 1.0
        if options.scaling == "yarn"
        else math.sqrt(1 + grown / math.log(options.original_length))
    )
