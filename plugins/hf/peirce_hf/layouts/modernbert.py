"""ModernBERT: an encoder with rotary positions, windows in most layers, gates, and norms without biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import frozen

from peirce_hf.layouts.layout import QKV, SMALL, Names, at_least, one_of
from peirce_hf.layouts.llama import FULL, SLIDING, Llama, layers_of


@frozen(kw_only=True)
class ModernBert(Llama):
    """The settings of `ModernBertConfig`; Warner et al. (2024)."""

    model_type = "modernbert"
    tensors: ClassVar[Names] = {
        "embeddings.tok_embeddings": "input.embedding",
        "embeddings.norm": "input_norm",
        "layers.{layer}.attn_norm": "layers.{layer}.norms.0",
        "layers.{layer}.attn.Wqkv": QKV,
        "layers.{layer}.attn.Wo": "layers.{layer}.operators.1.join.output",
        "layers.{layer}.mlp_norm": "layers.{layer}.norms.1",
        "layers.{layer}.mlp.Wi": (
            "layers.{layer}.operators.2.*.unary.gate",
            "layers.{layer}.operators.2.*.unary.hidden",
        ),
        "layers.{layer}.mlp.Wo": "layers.{layer}.operators.2.*.unary.output",
        "final_norm": "final_norm",
    }
    heads: ClassVar[Names] = {
        "head.dense": "mlm.dense",
        "head.norm": "mlm.norm",
        "decoder.bias": "mlm.bias",
        "decoder": "mlm.decoder",
    }
    aliases: ClassVar[Mapping[str, str]] = {"norm_eps": "layer_norm_eps", "global_rope_theta": "rope_theta"}
    activation = "hidden_activation"
    example: ClassVar = (
        "ModernBertForMaskedLM",
        {
            **SMALL,
            "num_hidden_layers": 4,
            "global_attn_every_n_layers": 2,
            "local_attention": 4,
            "local_rope_theta": 500.0,
        },
    )

    vocab_size: int = at_least(1, default=50368)
    hidden_size: int = at_least(1, default=768)
    intermediate_size: int = at_least(1, default=1152)
    num_hidden_layers: int = at_least(1, default=22)
    num_attention_heads: int = at_least(1, default=12)
    hidden_activation: str = "gelu"
    max_position_embeddings: int = at_least(1, default=8192)
    tie_word_embeddings: bool = True
    layer_norm_eps: float = 1e-5
    norm_bias: bool = False
    layer_types: tuple[str, ...] | None = None
    global_attn_every_n_layers: int = at_least(1, default=3)
    local_attention: int = at_least(2, default=128)
    rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0
    decoder_bias: bool = True
    classifier_bias: bool = False
    classifier_activation: str = "gelu"

    def options(self) -> dict[str, Any]:
        """Layer norms, of which the first layer has none before attention, since the embeddings have one."""
        return {
            "norm_kind": "layer",
            "norm_bias": self.norm_bias,
            "epsilon": self.layer_norm_eps,
            "embedding_norm": True,
            "first_norm": False,
        }

    def shared(self, **options: Any) -> dict[str, Any]:
        """A scope of both directions, and the head over the vocabulary if there are tensors of it."""
        head = {
            "use": "mlm",
            "tied": self.tie_word_embeddings,
            "bias": self.decoder_bias,
            "norm": "affine",
            "activation": one_of(
                "classifier_activation", self.classifier_activation, {"gelu": "gelu", "silu": "silu"}
            ),
            "epsilon": self.layer_norm_eps,
            "dense_bias": self.classifier_bias,
            "norm_bias": self.norm_bias,
        }
        table = super().shared(**options)
        # Models that classify have the head's map and norm, too.
        predicts = "head.dense.weight" in self.tensor_names and "classifier.weight" not in self.tensor_names
        return {**table, "scope": {}, "heads": [head] if predicts else []}

    def positions(self) -> list[dict[str, Any]]:
        """A window and its own rotation in some layers, and another rotation in the others."""
        count, interval = self.num_hidden_layers, self.global_attn_every_n_layers
        types = self.layer_types or tuple(SLIDING if layer % interval else FULL for layer in range(count))
        size = self.local_attention // 2 + 1
        return self.local_positions(layers_of(SLIDING, types, count), self.local_rope_theta, size)
