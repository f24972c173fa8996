"""Llama as `transformers` saves it: RMS norms before each stage, rotary positions, grouped heads, gated networks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attrs import field, frozen

from peirce.errors import ModelFileError
from peirce_hf.layouts.layout import SMALL, Decoder, Names, activations, at_least, one_of

ACTIVATIONS = activations("geglu", "reglu", "swiglu")
SCALINGS = {
    "default": (), "linear": ("factor",), "dynamic": ("factor",), "yarn": ("factor",), "proportional": (),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"), "longrope": ("short_factor", "long_factor"),
}  # fmt: skip
"""The scalings of rotary positions, and what each needs."""
PARAMETERS = {
    "factor": "factor", "low_freq_factor": "low_freq_factor", "high_freq_factor": "high_freq_factor",
    "beta_fast": "beta_fast", "beta_slow": "beta_slow", "truncate": "truncate", "attention_factor": "attention_factor",
    "short_factor": "short_factors", "long_factor": "long_factors",
}  # fmt: skip
"""Their parameters, and the options of `rope`."""
SLIDING, FULL = "sliding_attention", "full_attention"
"""What `layer_types` calls a layer with a window, and one without."""


@frozen(kw_only=True)
class Llama(Decoder):
    """The settings of `LlamaConfig`; Touvron et al. (2023). Families that differ in little are subclasses.

    Attributes:
        partial: whether the share of a head's channels that turn is read.
        scalings: other names of scalings.
        activation: the setting that names the activation; some classes do not read `hidden_act`, which files have too.
    """

    model_type = "llama"
    prefix = "model."
    tensors: ClassVar[Names] = {
        "embed_tokens": "input.embedding",
        "layers.{layer}.input_layernorm": "layers.{layer}.norms.0",
        "layers.{layer}.self_attn.q_proj": "layers.{layer}.operators.0.assoc.kernel",
        "layers.{layer}.self_attn.k_proj": "layers.{layer}.operators.0.assoc.premise",
        "layers.{layer}.self_attn.v_proj": "layers.{layer}.operators.1.join.premise",
        "layers.{layer}.self_attn.o_proj": "layers.{layer}.operators.1.join.output",
        "layers.{layer}.self_attn.q_norm": "layers.{layer}.attention.query_norm",
        "layers.{layer}.self_attn.k_norm": "layers.{layer}.attention.key_norm",
        "layers.{layer}.post_attention_layernorm": "layers.{layer}.norms.1",
        "layers.{layer}.mlp.gate_proj": "layers.{layer}.operators.2.*.unary.gate",
        "layers.{layer}.mlp.up_proj": "layers.{layer}.operators.2.*.unary.hidden",
        "layers.{layer}.mlp.down_proj": "layers.{layer}.operators.2.*.unary.output",
        "norm": "final_norm",
    }
    partial = False
    scalings: ClassVar[Mapping[str, str]] = {}
    activation = "hidden_act"
    example: ClassVar = (
        "LlamaForCausalLM",
        {**SMALL, "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2},
    )

    vocab_size: int = at_least(1, default=32000)
    hidden_size: int = at_least(1, default=4096)
    intermediate_size: int = at_least(1, default=11008)
    num_hidden_layers: int = at_least(1, default=32)
    num_attention_heads: int = at_least(1, default=32)
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    max_position_embeddings: int = at_least(1, default=2048)
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    attention_dropout: float = 0.0
    mlp_bias: bool = False
    rope_theta: float = 10_000.0
    rope_scaling: Mapping[str, Any] = field(factory=dict)
    rope_parameters: Mapping[str, Any] = field(factory=dict)
    partial_rotary_factor: float = 1.0
    original_max_position_embeddings: int | None = None

    def spec(self) -> dict[str, Any]:
        """A causal transformer with RMS norms before each stage, rotary positions and a gated network."""
        options = {"norm_kind": "rms", "epsilon": self.rms_norm_eps, "bias": self.attention_bias}
        return {
            **self.shared(**(options | self.options())),
            "dims": {
                "layers": self.num_hidden_layers,
                "unary": self.hidden_size,
                "heads": self.num_attention_heads,
                "kv_heads": self.num_key_value_heads or self.num_attention_heads,
                "head_size": self.head_dim or self.hidden_size // self.num_attention_heads,
                "feedforward": self.intermediate_size,
            },
            "input": self.input(token_types=0, max_length=self.max_position_embeddings),
            "operators": {"state": [self.network()]},
            "positions": self.positions(),
            "regularisation": {"dropout": self.attention_dropout, "init_std": self.initializer_range},
        }

    def options(self) -> dict[str, Any]:
        """The options of the transformer where a family has others."""
        return {}

    def network(self) -> dict[str, Any]:
        """The state operator."""
        named = one_of(self.activation, getattr(self, self.activation), ACTIVATIONS)
        return {**named, "bias": self.mlp_bias}

    def positions(self) -> list[dict[str, Any]]:
        """The positions."""
        return [self.rope()]

    def window(self, size: int | None, layers: Sequence[int] | None = None) -> list[dict[str, Any]]:
        """The position `window` in some layers; none where it would be longer than the texts.

        Args:
            size: how many tokens one sees, with itself; None for all.
            layers: every one if None.
        """
        if not size or size >= self.max_position_embeddings or (layers is not None and not layers):
            return []
        every = layers is None or len(layers) == self.num_hidden_layers
        return [{"use": "window", "size": size, **({} if every else {"layers": [*(layers or ())]})}]

    def local_positions(self, near: Sequence[int], base: float, size: int | None) -> list[dict[str, Any]]:
        """A window and a rotation of its own in some layers, and another rotation in the others.

        Args:
            near: the layers with a window.
            base: of their rotation, where `rope_parameters` have none for them.
            size: how many tokens one sees there, with itself.
        """
        own = {"rope_theta": base}
        far = [layer for layer in range(self.num_hidden_layers) if layer not in near]
        others = self.rope_scaling or {"rope_theta": self.rope_theta}
        kinds = ((SLIDING, near, own), (FULL, far, others))
        turns = [
            {**self.rope(**(self.rope_parameters.get(kind) or settings)), "layers": [*layers]}
            for kind, layers, settings in kinds
            if layers
        ]
        return [*turns, *self.window(size, near)]

    def rope(self, **given_settings: Any) -> dict[str, Any]:
        """The table of the position `rope`.

        Args:
            given_settings: in place of those of `rope_scaling` and `rope_parameters`.

        Raises:
            ModelFileError: the scaling, or a parameter of it, is one that `rope` does not have.
        """
        settings = given_settings or self.rope_scaling or self.rope_parameters
        given = {key: value for key, value in settings.items() if value is not None}
        named = str(given.get("rope_type", given.get("type", "default")))
        needed = one_of("rope_type", kind := self.scalings.get(named, named), SCALINGS)
        table = {"use": "rope", "base": float(given.pop("rope_theta", self.rope_theta))}
        fraction = given.pop("partial_rotary_factor", self.partial_rotary_factor)
        if (self.partial or kind == "proportional") and fraction != 1:
            table["fraction"] = float(fraction)
        elif kind != "default" and fraction != 1:  # which that class does not turn
            raise ModelFileError(
                f"the {kind} scaling of rope has no partial_rotary_factor in a {self.model_type}; leave it out"
            )
        if kind == "default":
            return table  # LlamaForCausalLM turns whole heads, whatever the fraction
        if absent := [key for key in needed if key not in given]:
            raise ModelFileError(
                f"the {kind} scaling of rope lacks {', '.join(absent)}; copy the configuration again"
            )
        longest = self.max_position_embeddings
        original = self.original_max_position_embeddings or given.get(
            "original_max_position_embeddings", longest
        )
        if kind in ("dynamic", "llama3", "longrope", "yarn"):
            table["original_length"] = longest if kind == "dynamic" else original
        given.setdefault("factor", max(1.0, longest / original) if kind == "longrope" else 1.0)
        if kind == "yarn" and given.get("mscale") and given.get("mscale_all_dim"):
            one, all_ = (
                1 + 0.1 * given[key] * math.log(given["factor"]) for key in ("mscale", "mscale_all_dim")
            )
            given.setdefault("attention_factor", one / all_)
        return {
            **table,
            "scaling": kind,
            **{PARAMETERS[key]: value for key, value in given.items() if key in PARAMETERS},
        }


def layers_of(kind: str, types: Sequence[str], count: int) -> list[int]:
    """Which of the first `count` layers are of a kind."""
    return [layer for layer, each in enumerate(types[:count]) if each == kind]
