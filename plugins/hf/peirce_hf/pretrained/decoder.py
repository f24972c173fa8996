"""pretrained_decoder: a decoder of `transformers` without an encoder, which generates.

Its cached state is what is known of the tokens before, and each layer's keys and values of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from peirce.errors import InputError
from peirce.networks import CachedState, flatten_layer_cache, select_layer_cache, unary_output
from peirce.parts import Encoded, TensorSpec, Tokens
from peirce_hf.pretrained.architecture import HeadOptions, NoDims, SourceOptions, WithHeads
from peirce_hf.pretrained.caching import (
    TOKENS,
    CachingArchitecture,
    Layers,
    cache_specs,
    cache_with,
    layers_in,
    why_not_cached,
)
from peirce_hf.pretrained.configuration import configuration
from peirce_hf.pretrained.packing import Packing, assume_for_tracing, with_one_visible


class PretrainedDecoder(WithHeads, CachingArchitecture):
    """A decoder of `transformers`, such as GPT-2 or Llama, whose tokens see those before them.

    Its word embeddings go through the spec's augmenters and then into it as `inputs_embeds`; everything after them is
    its own. What it keeps of each token are the keys and values that its layers hand to a cache.
    """

    name = "pretrained_decoder"
    Options = HeadOptions
    example: ClassVar = {
        "config": {"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "n_inner": 12}
    }

    @classmethod
    def check_scope(cls, options: Any, scope: str) -> str | None:
        """A decoder's tokens see those before them."""
        if scope == "causal":
            return None
        return f'its tokens see those before them, and no {scope} scope; set model.scope.kind to "causal"'

    @classmethod
    def check(cls, options: SourceOptions, dims: NoDims) -> str | None:
        """The model must keep keys and values, the same for every token."""
        wrong = super().check(options, dims)
        if wrong is not None:
            return wrong
        config = configuration(options.config)
        from transformers import AutoModelForMaskedLM

        if type(config) in AutoModelForMaskedLM._model_mapping and not getattr(config, "is_decoder", False):
            return f'a model of type {config.model_type!r} reads both ways; write architecture = "pretrained"'
        return why_not_cached(config)

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The atoms."""
        return (unary_output(self.plan.dims.unary),)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, augment, decode."""
        tokens = self.input.tokens(inputs)
        return self._read(tokens, None)[0], tokens

    def cached_state(self) -> tuple[TensorSpec, ...]:
        """The tokens before, and each layer's keys and values."""
        return (*self.input.cached_state(), *cache_specs(self._kept))

    def advance(
        self, inputs: Mapping[str, Tensor], cache: CachedState
    ) -> tuple[Encoded, Tokens, dict[str, Tensor]]:
        """The atoms of tokens that follow others, from their keys and values.

        Raises:
            InputError: with the new tokens, those before are turned otherwise than they were.
        """
        tokens, kept = self.input.following(inputs, cache)
        if cache and not self.stable:
            old, all_ = (int(each.max()) + 1 for each in (tokens.index[:, : tokens.before], tokens.index))
            if not self.reuses_cache(old, all_):
                raise InputError(
                    f"keys of {old} tokens are of no use in a text of {all_}, where this model turns all of them "
                    "otherwise; read the whole text again, with an empty cache"
                )
        before = [dict(select_layer_cache(i, cache)) for i in range(len(self._kept))] if cache else []
        encoded, layers = self._read(tokens, before)
        for i, layer in enumerate(layers):
            kept |= flatten_layer_cache(i, layer)
        return encoded, tokens, kept

    def _read(self, tokens: Tokens, before: Layers | None) -> tuple[Encoded, Layers]:
        """The atoms of the rows, and the keys and values of all tokens.

        Args:
            tokens: the tokens.
            before: of the tokens before the rows; empty where there are none, None where nothing is kept.
        """
        scope, ids = self.input.scope(tokens), tokens.inputs["input_ids"]
        # All tokens being rows, real ones go to the front, where each sees itself at least.
        packing = Packing(None if before else tokens.real)
        mask = packing.mask(ids) if not before or tokens.real is None else tokens.real
        given: dict[str, Any] = {"past_key_values": None if before is None else cache_with(before)}
        if before or not self.stable:  # where the last place says how long the text is, padding has none
            given["position_ids"] = packing.pack(tokens.rows(tokens.index).expand(ids.shape[0], -1))
        with assume_for_tracing(ids):
            found = self.body(
                inputs_embeds=packing.pack(scope.zero_unary(self.input.unary(tokens))),
                attention_mask=with_one_visible(mask).long(),
                use_cache=before is not None,
                return_dict=True,
                **given,
            )
        atoms = scope.zero_unary(packing.unpack(found.last_hidden_state))
        layers = [] if before is None else layers_in(found.past_key_values)
        layers = [{name: packing.unpack(value, TOKENS) for name, value in layer.items()} for layer in layers]
        return Encoded(atoms, None, None, scope, self._words()), layers
