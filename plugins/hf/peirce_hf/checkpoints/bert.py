"""BERT as `transformers` saves it: norms after each stage, learned positions, token types, heads of pretraining."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from attrs import frozen

from peirce_hf.checkpoints.layout import EMBEDDING, PLAIN, Layout, Target, at_least, one_of, weight_and_bias


@frozen(kw_only=True)
class Bert(Layout):
    """The settings of `BertConfig`; Devlin et al. (2018)."""

    model_type: ClassVar[str] = "bert"
    prefix: ClassVar[str] = "bert."
    anchor: ClassVar[str] = "embeddings.LayerNorm.weight"

    vocab_size: int = at_least(1, default=30522)
    hidden_size: int = at_least(1, default=768)
    num_hidden_layers: int = at_least(1, default=12)
    num_attention_heads: int = at_least(1, default=12)
    intermediate_size: int = at_least(1, default=3072)
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = at_least(1, default=512)
    type_vocab_size: int = at_least(0, default=2)
    layer_norm_eps: float = 1e-12
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    add_cross_attention: Literal[False] = False

    @property
    def _pooled(self) -> bool:
        return f"{self.body}pooler.dense.weight" in self.held

    def spec(self) -> dict[str, Any]:
        """A transformer with the norms after, and the heads that there are tensors of."""
        network = one_of("hidden_act", self.hidden_act, PLAIN)
        activation = "gelu_tanh" if network.get("tanh") else network["use"]
        epsilon = {"epsilon": self.layer_norm_eps}
        options = {"norm": "affine", "activation": activation, "tied": self.tie_word_embeddings, **epsilon}
        heads = [{"use": "mlm", **options}] if "cls.predictions.bias" in self.held else []
        pairs = [{"use": "pair", "as": "nsp"}] if "cls.seq_relationship.weight" in self.held else []
        return {
            "architecture": "transformer",
            "dims": {
                "layers": self.num_hidden_layers,
                "unary": self.hidden_size,
                "heads": self.num_attention_heads,
                "feedforward": self.intermediate_size,
            },
            "options": {"norm": "post", "pooler": self._pooled, **epsilon},
            "input": self.input(token_types=self.type_vocab_size, max_length=self.max_position_embeddings),
            "operators": {"state": [network]},
            "positions": [{"use": "absolute"}],
            "heads": [*heads, *pairs],
            "regularisation": {"dropout": self.hidden_dropout_prob, "init_std": self.initializer_range},
        }

    def names(self) -> dict[str, Target]:
        """The body's tensors and the heads'."""
        body, act = self.body, PLAIN[self.hidden_act]["use"]
        table = {
            f"{body}embeddings.word_embeddings.weight": Target((EMBEDDING,)),
            f"{body}embeddings.position_embeddings.weight": Target(
                ("network.input.positions.0.table.weight",)
            ),
            **weight_and_bias(f"{body}embeddings.LayerNorm", "network.input_norm"),
        }
        if self.type_vocab_size:
            table[f"{body}embeddings.token_type_embeddings.weight"] = Target(
                ("network.input.token_type.weight",)
            )
        for i in range(self.num_hidden_layers):
            theirs, layer = f"{body}encoder.layer.{i}", f"network.layers.{i}"
            ours = f"{layer}.operators"
            table |= {
                **weight_and_bias(f"{theirs}.attention.self.query", f"{ours}.0.assoc.kernel"),
                **weight_and_bias(f"{theirs}.attention.self.key", f"{ours}.0.assoc.premise"),
                **weight_and_bias(f"{theirs}.attention.self.value", f"{ours}.1.join.premise"),
                **weight_and_bias(f"{theirs}.attention.output.dense", f"{ours}.1.join.output"),
                **weight_and_bias(f"{theirs}.attention.output.LayerNorm", f"{layer}.norms.0"),
                **weight_and_bias(f"{theirs}.intermediate.dense", f"{ours}.2.{act}.unary.hidden"),
                **weight_and_bias(f"{theirs}.output.dense", f"{ours}.2.{act}.unary.output"),
                **weight_and_bias(f"{theirs}.output.LayerNorm", f"{layer}.norms.1"),
            }
        if self._pooled:
            table |= weight_and_bias(f"{body}pooler.dense", "network.pooler.dense")
        if "cls.predictions.bias" in self.held:
            table |= weight_and_bias("cls.predictions.transform.dense", "heads.mlm.dense")
            table |= weight_and_bias("cls.predictions.transform.LayerNorm", "heads.mlm.norm")
            table["cls.predictions.bias"] = Target(("heads.mlm.bias",))
            if not self.tie_word_embeddings:
                table["cls.predictions.decoder.weight"] = Target(("heads.mlm.decoder.weight",))
        if "cls.seq_relationship.weight" in self.held:
            table |= weight_and_bias("cls.seq_relationship", "heads.nsp.dense")
        return table

    def copies(self) -> dict[str, str]:
        """The decoder repeats the word embeddings where they are tied, and its bias the head's."""
        copies = {"cls.predictions.decoder.bias": "cls.predictions.bias"}
        if self.tie_word_embeddings:
            copies["cls.predictions.decoder.weight"] = f"{self.body}embeddings.word_embeddings.weight"
        return copies
