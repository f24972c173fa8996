"""pretrained_encoder_decoder: an encoder-decoder of `transformers`, which generates.

Its cached state is the keys and values of the source, and the target's ids so far. A step runs the decoder over the
target again, and reads the source no more. Keys and values of the target are not kept: each family of models counts
places in its own way, from the left of the target, for all rows alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from peirce.algebra import Scope
from peirce.networks import CachedState, cache_from_layer, cache_of_layer
from peirce.parts import Encoded, GenerativeArchitecture, Head, Plan, PlannedHead, TensorSpec, Tokens
from torch import Tensor

from peirce_hf.pretrained.architecture import NoDims, PretrainedArchitecture, SourceOptions
from peirce_hf.pretrained.caching import (
    KEY,
    kept_of_a_token,
    kept_specs,
    layers_in,
    source_cache,
    why_nothing_kept,
)
from peirce_hf.pretrained.configuration import configuration, published
from peirce_hf.pretrained.packing import Packing, without_choices

IDS, MASK, TARGET = "memory_input_ids", "memory_attention_mask", "memory_target"
"""What is known of each token of the source and, after them, of the target."""
BIAS = "final_logits_bias"


class PretrainedEncoderDecoder(PretrainedArchitecture, GenerativeArchitecture):
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
        """The model must keep keys and values of its source."""
        return super().check(options, dims) or why_nothing_kept(configuration(options.config))

    def __init__(self, options: SourceOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self._kept = kept_of_a_token(self.body.config)
        self._language_models: tuple[Head, ...] = ()  # modules of the model, and none of this one

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
        source, real = self._encode(inputs)
        return self._decode(source, real, inputs[self.generated], inputs.get("decoder_attention_mask"))

    def cached_state(self) -> tuple[TensorSpec, ...]:
        """Source and target so far, and each layer's keys and values of the source; zero at the target's tokens."""
        row, dims = ("batch", "past"), self.plan.dims
        return (
            TensorSpec(
                name=IDS, dtype="int64", dims=row, high=dims.vocabulary, meaning="Ids of the tokens before.",
                largest={"past": dims.max_length - 1},
            ),
            TensorSpec(
                name=MASK, dtype="bool", dims=row, meaning="True at the real ones of the tokens before.", masks="past"
            ),
            TensorSpec(name=TARGET, dtype="bool", dims=row, meaning="True at the target's ones of the tokens before."),
            *kept_specs(self._kept),
        )  # fmt: skip

    def advance(
        self, inputs: Mapping[str, Tensor], cache: CachedState
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """The target's next tokens; with an empty cache, encode the source first."""
        ids, given = inputs[self.generated], inputs.get("decoder_attention_mask")
        real = torch.ones_like(ids, dtype=torch.bool) if given is None else given
        if not cache:
            source, source_real = self._encode(inputs)
            read = source_cache([])
            encoded, tokens = self._decode(source, source_real, ids, given, cache=read)
            begun = {IDS: inputs["input_ids"], MASK: source_real, TARGET: torch.zeros_like(source_real)}
            for i, layer in enumerate(layers_in(read)):
                begun |= cache_from_layer(i, layer)
            return encoded, tokens, _joined(begun, ids, real)
        kept = _joined(cache, ids, real)
        target = kept[TARGET]
        own = kept[MASK] & target
        # The decoder reads real tokens of the target in front; a graph has no number to cut behind them.
        longest = None if torch.compiler.is_exporting() else max(1, int(own.sum(1).max()))
        layers = [dict(cache_of_layer(i, kept)) for i in range(len(self._kept))]
        unread = layers[0][KEY].new_zeros(1, 1, 1).expand(*target.shape, self.plan.dims.unary)
        encoded, tokens = self._decode(
            unread, kept[MASK] & ~target, kept[IDS], own, longest, source_cache(layers)
        )
        rows = encoded.unary[:, -ids.shape[1] :]
        new = Tokens({self.generated: ids}, real, tokens.index[:, -ids.shape[1] :], ids.shape[1])
        return Encoded(rows, None, None, Scope.padding(real, None), encoded.embeddings), new, kept

    def _encode(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The source's final atoms [b, x, d1], and where its real tokens are [b, x]."""
        tokens = self.input.tokens(inputs)
        scope = self.input.scope(tokens)
        packing = Packing(tokens.real)
        with without_choices(inputs["input_ids"]):
            found = self.body.get_encoder()(
                inputs_embeds=packing.pack(scope.zero_unary(self.input.unary(tokens))),
                attention_mask=packing.mask(inputs["input_ids"]),
                return_dict=True,
            )
        real = tokens.real
        if real is None:
            real = torch.ones_like(inputs["input_ids"], dtype=torch.bool)
        return scope.zero_unary(packing.unpack(found.last_hidden_state)), real

    def _decode(
        self,
        source: Tensor,
        source_real: Tensor,
        ids: Tensor,
        real: Tensor | None,
        longest: int | None = None,
        cache: Any = None,
    ) -> tuple[Encoded, Tokens]:
        """The final atoms of a target [b, y], and its tokens; no row has more than `longest` real ones.

        A cache has the keys and values of the source, or gets them.
        """
        scope = Scope.padding(real, None)
        packing = Packing(real)
        # An empty source is one zero atom: what attends to nothing at all differs from runtime to runtime.
        first = torch.arange(source.shape[1], device=source.device) == 0
        seen = source_real | (first & ~source_real.any(1, keepdim=True))
        with without_choices(ids):
            found = self.body(
                encoder_outputs=(torch.where(source_real.unsqueeze(2), source, 0.0),),
                attention_mask=seen.long(),
                decoder_inputs_embeds=packing.pack(scope.zero_unary(self.input.embedding(ids)))[:, :longest],
                decoder_attention_mask=packing.mask(ids)[:, :longest],
                past_key_values=cache,
                use_cache=cache is not None,
                return_dict=True,
            )
        atoms = found.last_hidden_state
        if longest is not None:
            atoms = F.pad(atoms, (0, 0, 0, ids.shape[1] - atoms.shape[1]))
        atoms = scope.zero_unary(packing.unpack(atoms))
        tokens = Tokens(
            {self.generated: ids}, real, torch.arange(ids.shape[1], device=ids.device)[None], ids.shape[1]
        )
        return Encoded(atoms, None, None, scope, self._words()), tokens


def _joined(cache: CachedState, ids: Tensor, real: Tensor) -> dict[str, Tensor]:
    """The cached state with more tokens of the target."""
    new = {IDS: ids, MASK: real, TARGET: torch.ones_like(real)}
    return {
        name: torch.cat([value, new.get(name, value.new_zeros(*ids.shape, *value.shape[2:]))], 1)
        for name, value in cache.items()
    }
