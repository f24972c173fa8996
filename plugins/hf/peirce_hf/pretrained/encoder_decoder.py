"""pretrained_encoder_decoder: an encoder-decoder of `transformers`, which generates.

Its cached state is each layer's keys and values of the source and of the target so far, and which of them are real.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor

from peirce.algebra import Scope
from peirce.networks import CachedState, flatten_layer_cache, select_layer_cache
from peirce.parts import Encoded, Head, Plan, PlannedHead, TensorSpec, Tokens
from peirce_hf.pretrained.architecture import NoDims, SourceOptions
from peirce_hf.pretrained.caching import (
    OWN,
    SOURCE,
    TOKENS,
    CachingArchitecture,
    cache_specs,
    decoder_cache,
    layers_in,
    why_not_cached,
)
from peirce_hf.pretrained.configuration import configuration, published
from peirce_hf.pretrained.packing import Packing, assume_for_tracing, shift_positions, with_one_visible

_log = logging.getLogger(__name__)
READ, WRITTEN = "memory_attention_mask", "memory_decoder_attention_mask"
"""Which tokens of the source, and of the target so far, are real."""
BIAS = "final_logits_bias"


class PretrainedEncoderDecoder(CachingArchitecture):
    """An encoder-decoder of `transformers`, such as BART or T5; augmenters change what its encoder reads."""

    name = "pretrained_encoder_decoder"
    scope = "encoder-decoder"
    rows = "target_length"
    generated = "decoder_input_ids"
    is_encoder_decoder = True
    example: ClassVar = {
        "config": {
            "model_type": "bart", "d_model": 8, "encoder_layers": 1, "decoder_layers": 1,
            "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12,
            "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
        }
    }  # fmt: skip

    @classmethod
    def check(cls, options: SourceOptions, dims: NoDims) -> str | None:
        """The model must keep keys and values."""
        return super().check(options, dims) or why_not_cached(configuration(options.config))

    def __init__(self, options: SourceOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self._language_models: tuple[Head, ...] = ()  # modules of the model, and none of this one

    def reuses_cache(self, before: int, after: int) -> bool:
        """Whether tokens are turned alike in all texts; here padding counts as well, so that lengths say too little."""
        return self.stable

    @classmethod
    def gives(cls, options: SourceOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """No token of a target sees the next one."""
        return frozenset({"past"})

    def own_head(self, planned: PlannedHead) -> Head | None:
        """Peirce's, which takes the logits' bias where a new model has one, as BART's; see `begin`."""
        if planned.name != "causal_lm":
            return None
        head = cast(Head, planned.build(self.plan.dims))
        self._language_models += (head,)
        return head

    def begin(self) -> None:
        """The weights of the source; of BART and its like the bias of the logits, too, for heads that have one.

        Raises:
            PlanError: the source cannot be read, or lacks weights of the network.
        """
        super().begin()
        if self._language_models and not getattr(self.body.config, "tie_word_embeddings", True):
            _log.warning(
                "%s has a head of its own, lm_head, which is not tied to its words; causal_lm multiplies by the words, "
                "and has to be trained before its texts mean anything",
                self.options.source or self.body.config.model_type,
            )
        heads = [head for head in self._language_models if getattr(head, "bias", None) is not None]
        if self.options.source is None or not heads:
            return
        from transformers import AutoModelForSeq2SeqLM as Auto

        config = self.body.config
        with torch.device("meta"):
            whole = Auto.from_config(config) if type(config) in Auto._model_mapping else None
        if not hasattr(whole, BIAS):
            return
        whole, _ = published(Auto, self.options.source, config, "the bias of the logits")
        with torch.no_grad():
            for head in heads:
                head.get_parameter("bias").copy_(getattr(whole, BIAS)[0])

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The source, as an encoder's, and the target."""
        row = ("batch", self.rows)
        return (
            *super().inputs(),
            TensorSpec(
                name=self.generated, dtype="int64", dims=row, high=self.plan.dims.vocabulary,
                meaning="Token ids of the target, beginning with its first given token.",
                largest={self.rows: self.plan.dims.max_length},
            ),
            TensorSpec(
                name="decoder_attention_mask", dtype="bool", dims=row, required=False, default=True,
                masks=self.rows, meaning="True at real tokens of the target, false at padding.",
            ),
        )  # fmt: skip

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The final atoms of the target."""
        dims = ("batch", self.rows, self.plan.dims.unary)
        meaning = "Final properties of each token of the target."
        return (TensorSpec(name="unary", dtype="float", dims=dims, meaning=meaning),)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed and augment the source, embed the target, run both stacks."""
        encoded, tokens, _ = self._decode(inputs, *self._encode(inputs))
        return encoded, tokens

    def cached_state(self) -> tuple[TensorSpec, ...]:
        """Real tokens, keys and values: of the source as it is, and of the target so far, padding in front."""
        dims = self.plan.dims
        return (
            TensorSpec(
                name=READ, dtype="bool", dims=("batch", "length"), masks="length",
                meaning="True at the real tokens of the source.",
            ),
            TensorSpec(
                name=WRITTEN, dtype="bool", dims=("batch", "past"), masks="past",
                largest={"past": dims.max_length - 1}, meaning="True at the real ones of the tokens before.",
            ),
            *cache_specs(self._kept),
        )  # fmt: skip

    def advance(
        self, inputs: Mapping[str, Tensor], cache: CachedState
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """The target's next tokens; with an empty cache, encode the source first."""
        if cache:
            before = [select_layer_cache(i, cache) for i in range(len(self._kept))]
            read, written, keys = cache[READ], cache[WRITTEN], before[0][SOURCE[0]]
            # Nothing but the shape is asked of a source whose keys and values are there.
            source = keys.new_zeros(1, 1, 1).expand(*read.shape, self.plan.dims.unary)
        else:
            before, written = [], None
            source, read = self._encode(inputs)
        layers = decoder_cache(before)
        encoded, tokens, mask = self._decode(inputs, source, read, written, layers)
        # Padding goes to the front, so that tokens are as far from each other as their columns.
        ends = Packing(None if tokens.real is None else ~mask)
        kept = {READ: read, WRITTEN: ends.pack(mask)}
        for i, layer in enumerate(layers_in(layers)):
            packed = {name: ends.pack(layer[name], TOKENS) for name in OWN}
            kept |= flatten_layer_cache(i, layer | packed)
        return encoded, tokens, kept

    def _encode(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The source's final atoms [b, x, d1], and where its real tokens are [b, x]."""
        tokens = self.input.tokens(inputs)
        scope = self.input.scope(tokens)
        packing = Packing(tokens.real)
        with assume_for_tracing(inputs["input_ids"]):
            found = self.body.get_encoder()(
                inputs_embeds=packing.pack(scope.zero_unary(self.input.unary(tokens))),
                attention_mask=packing.mask(inputs["input_ids"]).long(),
                return_dict=True,
            )
        real = tokens.real
        if real is None:
            real = torch.ones_like(inputs["input_ids"], dtype=torch.bool)
        return scope.zero_unary(packing.unpack(found.last_hidden_state)), real

    def _decode(
        self,
        inputs: Mapping[str, Tensor],
        source: Tensor,
        read: Tensor,
        written: Tensor | None = None,
        cache: Any = None,
    ) -> tuple[Encoded, Tokens, Tensor]:
        """The final atoms of tokens of a target [b, y]; those tokens; and which are real, of those before as well.

        Args:
            inputs: the target.
            source, read: the source's final atoms, and which of its tokens are real.
            written: which tokens of the target before are real, bool [b, past]; None where there are none.
            cache: has the keys and values of these tokens and of the source, and gets the others; None where nothing
                is kept.
        """
        ids, real = inputs[self.generated], inputs.get("decoder_attention_mask")
        scope, packing = Scope.padding(real, None), Packing(real)
        mask, past = packing.mask(ids), 0
        counting: AbstractContextManager[object] = nullcontext()
        if written is not None:
            mask, past = torch.cat([written, mask], 1), written.shape[1]
            if torch.compiler.is_exporting() or not written.all():
                # A decoder counts all columns before, padding as well.
                counting = shift_positions(self.body.get_decoder(), written.sum(1, keepdim=True) - past)
        with assume_for_tracing(ids), counting:
            found = self.body(
                encoder_outputs=(torch.where(read.unsqueeze(2), source, 0.0),),
                attention_mask=with_one_visible(read).long(),
                decoder_inputs_embeds=packing.pack(scope.zero_unary(self.input.embedding(ids))),
                decoder_attention_mask=with_one_visible(mask).long(),
                past_key_values=cache,
                use_cache=cache is not None,
                return_dict=True,
            )
        atoms = scope.zero_unary(packing.unpack(found.last_hidden_state))
        index = torch.arange(past, mask.shape[1], device=ids.device)[None]
        tokens = Tokens({self.generated: ids}, real, index, ids.shape[1])
        return Encoded(atoms, None, None, scope, self._words()), tokens, mask
