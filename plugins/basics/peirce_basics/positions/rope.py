"""rope: queries and keys turned by angles that grow with the position, as rotary embeddings are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from attrs import field, frozen, validators
from torch import Tensor

from peirce.algebra import at_least_float32
from peirce.kernels import Rotation
from peirce.parts import Dims, PlainScope, RotaryPosition, Tokens
from peirce_basics.positions.layers import layers_option, why_not_layers

PAIRINGS = ("halves", "interleaved")
SCALINGS = ("none", "linear", "llama3", "yarn")


@frozen(kw_only=True)
class RopeOptions:
    """How fast which channels turn, and how the angles are scaled for texts longer than those of the training.

    Args:
        base: theta; pair i of w turns by base ** (-i / w) a token.
        fraction: of each head's channels, how many are turned, the first ones.
        pairing: `halves` as in Llama and GPT-NeoX, `interleaved` as in RoFormer and GPT-J.
        scaling: `linear` divides all angles by `factor`; `llama3` those of wavelengths beyond the original length, and
            some of those before it in part; `yarn` as `llama3` along a ramp over the pairs, and scales the scores.
        factor: how much longer texts are than those of the training; for any scaling.
        original_length: the longest texts of the training, in tokens; for `llama3` and `yarn`.
        low_freq_factor: pairs that turn less often than this over the original length are divided; for `llama3`.
        high_freq_factor: pairs that turn more often than this stay; for `llama3`.
        beta_fast: pairs that turn more often than this over the original length stay; for `yarn`.
        beta_slow: pairs that turn less often than this are divided; for `yarn`.
        attention_factor: times cos and sin; 0.1 ln factor + 1 if it is absent; for `yarn`.
        truncate: whether the ends of the ramp are whole numbers; for `yarn`.
        layers: the layers where it turns, the first of which is 0; every one if there are none.
    """

    base: float = field(default=10_000.0, validator=validators.gt(1))
    fraction: float = field(default=1.0, validator=[validators.gt(0), validators.le(1)])
    pairing: Literal["halves", "interleaved"] = field(default="halves", validator=validators.in_(PAIRINGS))
    scaling: Literal["none", "linear", "llama3", "yarn"] = field(
        default="none", validator=validators.in_(SCALINGS)
    )
    factor: float = field(default=8.0, validator=validators.ge(1))
    original_length: int = field(default=8192, validator=validators.ge(1))
    low_freq_factor: float = field(default=1.0, validator=validators.gt(0))
    high_freq_factor: float = field(default=4.0, validator=validators.gt(0))
    beta_fast: float = field(default=32.0, validator=validators.gt(0))
    beta_slow: float = field(default=1.0, validator=validators.gt(0))
    attention_factor: float | None = field(default=None, validator=validators.optional(validators.gt(0)))
    truncate: bool = True
    layers: tuple[int, ...] = layers_option()


class Rope(RotaryPosition):
    """q(x) and k(y) are turned by their positions times base ** (-i / w) in pair i, so q(x) . k(y) depends on y - x.

    w pairs are half of the first `fraction` of a head's channels. Positions count real tokens, and only their
    differences matter. Without parameters; the layers share the rotation.
    """

    name = "rope"
    source = (
        "RoFormer (Su et al., 2021), Section 3.4.2; position interpolation (Chen et al., 2023), eq. 4; Llama 3 (2024), "
        "with its published code; YaRN (Peng et al., 2023), Section 3"
    )
    Options = RopeOptions

    @classmethod
    def check(cls, options: RopeOptions, dims: Dims, scope: str) -> str | None:
        """Why the channels cannot be paired, or the scaling has no range."""
        count = int(options.fraction * dims.head_size)
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
        return why_not_layers(options.layers, dims)

    def __init__(self, options: RopeOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.layers = dims.layers
        self.pairs = int(options.fraction * dims.head_size) // 2
        self.amount = 1.0
        if options.scaling == "yarn":
            grown = 0.1 * math.log(options.factor) + 1.0
            self.amount = grown if options.attention_factor is None else options.attention_factor
        # Without parameters, this follows the dtype and the device of the model.
        self.register_buffer("like", torch.zeros(()), persistent=False)

    def rotations(self, tokens: Tokens) -> list[Rotation | None]:
        """The same one for every layer that turns."""
        # Angles need the precision even where the model has none.
        exact = at_least_float32(self.get_buffer("like"))
        angles = tokens.rows(tokens.index).to(exact.dtype).unsqueeze(2) * self.rates(exact)
        turn = Rotation(angles.cos() * self.amount, angles.sin() * self.amount, self.options.pairing)
        chosen = self.options.layers or range(self.layers)
        return [turn if layer in chosen else None for layer in range(self.layers)]

    def rates(self, like: Tensor) -> Tensor:
        """How far each pair turns a token, [w], in radians."""
        # Operations stand in the order of the published codes: far positions multiply what is rounded otherwise.
        options, count, factor = self.options, self.pairs, self.options.factor
        pair = torch.arange(count, dtype=like.dtype, device=like.device)
        lengths = options.base ** (2 * pair / (2 * count))
        rates = 1.0 / lengths
        if options.scaling == "linear":
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

    def reference(
        self, given: Mapping[str, Any], scope: PlainScope, parameters: Mapping[str, Any], dims: Dims
    ) -> Mapping[str, Any]:
        """Vector by vector: each pair of channels turned by its angle."""
        options, size = self.options, dims.head_size
        count, turns = int(options.fraction * size) // 2, 2 * math.pi
        amount = 1.0

        def ramp_end(often: float) -> float:
            return count * math.log(options.original_length / (often * turns)) / math.log(options.base)

        def rate(pair: int) -> float:
            plain = float(options.base ** (-pair / count))
            if options.scaling == "none":
                return plain
            if options.scaling == "linear":
                return plain / options.factor
            if options.scaling == "llama3":
                over, low = options.original_length * plain / turns, options.low_freq_factor
                stays = min(1.0, max(0.0, (over - low) / (options.high_freq_factor - low)))
            else:
                first, last = ramp_end(options.beta_fast), ramp_end(options.beta_slow)
                if options.truncate:
                    first, last = math.floor(first), math.ceil(last)
                first, last = max(first, 0), min(last, 2 * count - 1)
                last += 0.001 * (first == last)
                stays = 1 - min(1.0, max(0.0, (pair - first) / (last - first)))
            return stays * plain + (1 - stays) * plain / options.factor

        if options.scaling == "yarn":
            given_amount = options.attention_factor
            amount = 0.1 * math.log(options.factor) + 1 if given_amount is None else given_amount

        def turn(vector: list[float], place: int) -> list[float]:
            result = [*vector]
            for pair in range(count):
                one, other = (
                    (2 * pair, 2 * pair + 1) if options.pairing == "interleaved" else (pair, pair + count)
                )
                cos, sin = (amount * f(place * rate(pair)) for f in (math.cos, math.sin))
                result[one] = vector[one] * cos - vector[other] * sin
                result[other] = vector[other] * cos + vector[one] * sin
            return result

        return {
            name: [[turn(v, x) for v in heads] for x, heads in enumerate(given[name])]
            for name in ("query", "key")
        }
