"""RoBERTa and XLM-R: a BERT whose places are counted from the one after the padding token, with another head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import frozen

from peirce_hf.layouts.bert import Bert
from peirce_hf.layouts.layout import Names, at_least


@frozen(kw_only=True)
class Roberta(Bert):
    """The settings of `RobertaConfig`; Liu et al. (2019)."""

    model_type: ClassVar[str] = "roberta"
    prefix: ClassVar[str] = "roberta."
    heads: ClassVar[Names] = {
        "lm_head.dense": "mlm.dense",
        "lm_head.layer_norm": "mlm.norm",
        "lm_head.bias": "mlm.bias",
        "lm_head.decoder": "mlm.decoder",
    }
    tied: ClassVar[Mapping[str, str]] = {"lm_head.decoder.weight": "embeddings.word_embeddings.weight"}
    repeated: ClassVar[Mapping[str, str]] = {"lm_head.decoder.bias": "lm_head.bias"}
    bias: ClassVar[str] = "lm_head.bias"
    example: ClassVar = ("RobertaForMaskedLM", Bert.example[1])

    vocab_size: int = at_least(1, default=50265)
    pad_token_id: int | None = 1

    @property
    def first_place(self) -> int:
        """The row of the table of positions that belongs to the first token."""
        return (1 if self.pad_token_id is None else self.pad_token_id) + 1

    def spec(self) -> dict[str, Any]:
        """BERT's, with gelu in the head whatever the layers have, and places that begin later."""
        spec = super().spec()
        spec["positions"] = [{"use": "absolute", "first": self.first_place}]
        spec["input"]["max_length"] = self.max_position_embeddings - self.first_place
        spec["heads"] = self.masked_language_model("gelu")
        return spec


@frozen(kw_only=True)
class XLMRoberta(Roberta):
    """The settings of `XLMRobertaConfig`; Conneau et al. (2020)."""

    model_type: ClassVar[str] = "xlm-roberta"
    example: ClassVar = ("XLMRobertaForMaskedLM", Bert.example[1])

    vocab_size: int = at_least(1, default=30522)
