"""DeBERTa's second and third version: a BERT whose maps of queries and keys read vectors of distances, too."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from attrs import frozen

from peirce.errors import ModelFileError
from peirce_hf.layouts.bert import Bert
from peirce_hf.layouts.layout import Names, at_least


@frozen(kw_only=True)
class DebertaV2(Bert):
    """The settings of `DebertaV2Config`; He et al. (2021, 2023). The convolution of v2-xlarge is not taken."""

    model_type = "deberta-v2"
    prefix = "deberta."
    tensors: ClassVar[Names] = {
        **Bert.tensors,
        "encoder.layer.{layer}.attention.self.query_proj": "layers.{layer}.operators.0.assoc.kernel",
        "encoder.layer.{layer}.attention.self.key_proj": "layers.{layer}.operators.0.assoc.premise",
        "encoder.layer.{layer}.attention.self.value_proj": "layers.{layer}.operators.1.join.premise",
        "encoder.rel_embeddings": "input.positions.0.distances",
        "encoder.LayerNorm": "input.positions.0.norm",
        "embeddings.position_embeddings": "input.positions.1.table",
    }
    example: ClassVar = (
        "DebertaV2ForMaskedLM",
        {
            **Bert.example[1], "relative_attention": True, "share_att_key": True, "pos_att_type": "p2c|c2p",
            "position_buckets": 4, "norm_rel_ebd": "layer_norm", "position_biased_input": False,
        },
    )  # fmt: skip

    vocab_size: int = at_least(1, default=128_100)
    hidden_size: int = at_least(1, default=1536)
    embedding_size: int | None = None
    num_hidden_layers: int = at_least(1, default=24)
    num_attention_heads: int = at_least(1, default=24)
    intermediate_size: int = at_least(1, default=6144)
    type_vocab_size: int = at_least(0, default=0)
    layer_norm_eps: float = 1e-7
    relative_attention: Literal[True]
    share_att_key: Literal[True]
    pos_att_type: str | tuple[str, ...]
    position_biased_input: bool = True
    position_buckets: int = -1
    max_relative_positions: int = -1
    norm_rel_ebd: str = "none"
    conv_kernel_size: Literal[0] = 0
    legacy: Literal[True] = True

    def spec(self) -> dict[str, Any]:
        """BERT's, with vectors of distances, of which those far apart share some."""
        if self.embedding_size not in (None, self.hidden_size):
            raise ModelFileError(
                f"embedding_size is {self.embedding_size} and hidden_size {self.hidden_size}; a deberta-v2 has a map "
                "between them before its norm, which no spec has: only one whose sizes are equal can be imported"
            )
        spec, buckets, longest = super().spec(), self.position_buckets, self.max_relative_positions
        longest = longest if longest > 0 else self.max_position_embeddings
        distances = {
            "use": "disentangled",
            "converse": "code",
            "share_maps": True,
            "epsilon": self.layer_norm_eps,
        }
        terms = {
            "content_to_position": "c2p" in self.pos_att_type,
            "position_to_content": "p2c" in self.pos_att_type,
        }
        distances |= {"clip": buckets, "max_distance": longest} if buckets > 0 else {"clip": longest}
        size = self.hidden_size // self.num_attention_heads
        spec["options"]["score_scale"] = (size * (1 + sum(terms.values()))) ** -0.5
        absolute = spec["positions"] if self.position_biased_input else []
        spec["positions"] = [{**distances, **terms, "norm": "layer_norm" in self.norm_rel_ebd}, *absolute]
        return spec
