"""The models that generate: the next token of a text, and of a target given its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast, Seq2SeqLMOutput
from transformers.utils.generic import ModelOutput

from peirce.errors import InputError, SpecError
from peirce.parts import IGNORED, Architecture, GenerativeArchitecture
from peirce.spec import Spec
from peirce_hf.base import PeircePreTrainedModel, with_tuple_output
from peirce_hf.config import PeirceConfig

if TYPE_CHECKING:
    from peirce.registry import Registry


class PeirceCache:
    """The cached state of `peirce.model.Model.advance`, as `generate` handles it.

    Args:
        tensors: the state, flat tensors [batch, ...] by name.
        length: how many tokens it is of.
    """

    is_compileable = False

    def __init__(self, tensors: Mapping[str, Tensor], length: int) -> None:
        self.tensors = dict(tensors)
        self.length = length

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many tokens it is of; each layer has the same ones."""
        return self.length

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Make the rows those that a beam search goes on with, int64 [batch]."""
        self.tensors = {name: value.index_select(0, beam_idx) for name, value in self.tensors.items()}


def has_decoder(architecture: type[Architecture]) -> bool:
    """Whether an architecture generates a target from a source."""
    return (
        issubclass(architecture, GenerativeArchitecture)
        and architecture.generated == PeirceForConditionalGeneration.generated
    )


class PeirceGenerator(PeircePreTrainedModel, GenerationMixin):
    """A model that predicts next tokens. If its head and architecture can, it keeps a cache of the tokens before.

    Attributes:
        generated: the input whose tokens are generated.
        caches: whether it keeps a cache.
    """

    generated = "input_ids"

    def __init__(self, config: PeirceConfig, registry: Registry | None = None) -> None:
        super().__init__(config, registry)
        heads = ["past" in planned.part.needs for planned in self.peirce.plan.heads]
        network = self.peirce.network
        self.caches = isinstance(network, GenerativeArchitecture) and all(heads)
        longest = self.peirce.plan.dims.max_length
        self._stable = isinstance(network, GenerativeArchitecture) and network.reuses_cache(1, longest)
        assert self.generation_config is not None
        self.generation_config.use_cache = self.caches

    def predict(
        self, given: Mapping[str, Tensor], past: PeirceCache | None, use_cache: bool | None
    ) -> tuple[Tensor, dict[str, Tensor], PeirceCache | None]:
        """The logits, all outputs, and the next cache.

        Args:
            given: inputs of the Peirce model; with `past`, those of the tokens that follow.
            past: a cache of the tokens before.
            use_cache: whether a cache is asked for.
        """
        cache = None
        if self.caches and (use_cache or past is not None):
            outputs, tensors = self.peirce.advance(given, {} if past is None else past.tensors)
            length = given[self.generated].shape[1] + (0 if past is None else past.length)
            cache = PeirceCache(tensors, length)
        else:
            outputs = self.call(given)
        return outputs[f"{self.prefix}_logits"], outputs, cache

    def usable_cache(self, cache: PeirceCache | None, ids: Tensor, mask: Tensor | None) -> PeirceCache | None:
        """The cache of the tokens before, or None where it does not serve a text of these, int64 [b, x]."""
        if cache is None or self._stable:
            return cache
        real = torch.ones_like(ids) if mask is None else mask
        before, after = (int(part.sum(1).max()) for part in (real[:, : cache.length], real))
        network = cast(GenerativeArchitecture, self.peirce.network)
        return cache if network.reuses_cache(before, after) else None

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False


class PeirceForCausalLM(PeirceGenerator):
    """Which token comes next, in a spec whose scope is causal or a prefix's.

    With the head `causal_lm` it generates with a cache of the tokens before, with `mlm` without.
    """

    uses = ("causal_lm", "mlm")

    @classmethod
    def spec_of(cls, config: PeirceConfig, registry: Registry) -> Spec:
        """The spec, if nothing in it sees the future.

        Raises:
            SpecError: the spec's scope lets tokens see those that follow.
        """
        spec = config.to_spec()
        if spec.scope.kind not in ("causal", "prefix"):
            raise SpecError(
                f"{spec.at('model.scope')}: PeirceForCausalLM needs a scope in which no token sees the next, and this "
                f"spec is {spec.scope.kind}; set model.scope.kind to causal or prefix and train the model so"
            )
        return super().spec_of(config, registry)

    @with_tuple_output
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        prefix_length: Tensor | None = None,
        past_key_values: PeirceCache | None = None,
        use_cache: bool | None = None,
        **inputs: Any,
    ) -> CausalLMOutputWithPast:
        """Logits [b, x, v] of the token after each, and the loss against labels [b, x], the tokens themselves.

        A label counts as what the token before it should have predicted; -100 where none counts. A model with the scope
        of a prefix needs `prefix_length`, int64 [b]. With `use_cache` the tokens are cached in
        `past_key_values`; given that, the inputs are those of the tokens that follow.
        """
        inputs["prefix_length"] = prefix_length
        given = self.inputs_of(input_ids, attention_mask, token_type_ids, **inputs)
        logits, outputs, cache = self.predict(given, past_key_values, use_cache)
        loss = None
        if labels is not None:
            following = torch.full_like(labels, IGNORED)
            following[:, :-1] = labels[:, 1:]
            loss = self.loss_of(self.prefix, outputs, following)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)  # type: ignore[arg-type]

    def prepare_inputs_for_generation(self, input_ids: Tensor, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The text so far, or what follows a cache; of the other arguments, those that are the model's inputs."""
        dims = {spec.name: spec.dims for spec in self.peirce.signature.inputs}
        inputs = {name: value for name, value in kwargs.items() if name in dims and value is not None}
        inputs["input_ids"] = input_ids
        cache = self.usable_cache(kwargs.get("past_key_values"), input_ids, kwargs.get("attention_mask"))
        if cache is not None:
            inputs = {
                name: value[:, cache.length :]
                for name, value in inputs.items()
                if dims[name] == ("batch", "length")
            }
        return {**inputs, "past_key_values": cache, "use_cache": kwargs.get("use_cache")}


class PeirceForConditionalGeneration(PeirceGenerator):
    """Which token of a target comes next, given its source: an architecture with a decoder and the head `causal_lm`.

    A target begins with the configuration's `decoder_start_token_id`, the padding's id if it says nothing.
    """

    uses = ("causal_lm",)
    generated = "decoder_input_ids"

    def __init__(self, config: PeirceConfig, registry: Registry | None = None) -> None:
        config.is_encoder_decoder = True
        super().__init__(config, registry)
        assert self.generation_config is not None
        self.generation_config.decoder_start_token_id = self.start_id

    @classmethod
    def spec_of(cls, config: PeirceConfig, registry: Registry) -> Spec:
        """The spec, if its architecture has a decoder.

        Raises:
            SpecError: the architecture generates its own input.
        """
        spec = config.to_spec()
        # An unknown architecture is named where the spec is composed.
        known = {entry.name: entry.part for entry in registry.entries("architectures")}
        if spec.architecture in known and not has_decoder(known[spec.architecture]):
            raise SpecError(
                f"{spec.at('model.architecture')}: PeirceForConditionalGeneration needs an architecture with a "
                f"decoder, such as folnet_encoder_decoder, and {spec.architecture} has none; for the next token of one "
                "text there is PeirceForCausalLM"
            )
        return super().spec_of(config, registry)

    @property
    def start_id(self) -> int:
        """What a target begins with."""
        start = self.config.decoder_start_token_id
        return self.peirce.spec.input.pad_id if start is None else start

    @with_tuple_output
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        past_key_values: PeirceCache | None = None,
        use_cache: bool | None = None,
        **inputs: Any,
    ) -> Seq2SeqLMOutput:
        """Logits [b, y, v] of the target's token after each, and the loss against labels [b, y].

        Inputs are as `PeircePreTrainedModel.inputs_of` takes them; `input_ids` are the source, None with a cache.

        Args:
            decoder_input_ids: the target so far; from the labels, after the start token, if None.
            decoder_attention_mask: nonzero at real tokens of the target.
            labels: the target, int64 [b, y], -100 where none counts.
            past_key_values: a cache of the source and of the target's tokens before.

        Raises:
            InputError: there is neither a target nor labels.
        """
        if decoder_input_ids is None:
            if labels is None:
                raise InputError(
                    "there are neither decoder_input_ids nor labels: give one of them, or call generate"
                )
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        target = {"decoder_input_ids": decoder_input_ids, "decoder_attention_mask": decoder_attention_mask}
        given = self.inputs_of(input_ids, attention_mask, token_type_ids, **inputs, **target)
        logits, outputs, cache = self.predict(given, past_key_values, use_cache)
        loss = None if labels is None else self.loss_of(self.prefix, outputs, labels)
        return Seq2SeqLMOutput(loss=loss, logits=logits, past_key_values=cache)  # type: ignore[arg-type]

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The target as the decoder reads it, one place later: int64 [b, y] -> [b, y]."""
        shifted = labels.new_full(labels.shape, self.start_id)
        shifted[:, 1:] = labels[:, :-1]
        return shifted.masked_fill(shifted == IGNORED, self.peirce.spec.input.pad_id)

    def prepare_inputs_for_generation(self, input_ids: Tensor, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The target so far and its source, or what follows a cache of both."""
        mask = kwargs.get("decoder_attention_mask")
        cache = self.usable_cache(kwargs.get("past_key_values"), input_ids, mask)
        before = 0 if cache is None else cache.length
        inputs = {"decoder_input_ids": input_ids[:, before:]}
        if mask is not None:
            inputs["decoder_attention_mask"] = mask[:, before:]
        if cache is None:
            inputs |= dict(kwargs["encoder_outputs"])
        return {**inputs, "past_key_values": cache, "use_cache": kwargs.get("use_cache")}

    def get_encoder(self, modality: str | None = None) -> SourceKeeper:
        """What `generate` asks about the source; the model encodes it itself, with the target's first token."""
        return SourceKeeper()


@dataclass
class PeirceSource(ModelOutput):
    """The source of a target that is generated: what `SourceKeeper` was given."""

    input_ids: Tensor | None = None
    attention_mask: Tensor | None = None
    token_type_ids: Tensor | None = None


class SourceKeeper(nn.Module):
    """Keeps a source as it is, in the place where other models have their encoder."""

    def forward(
        self, input_ids: Tensor, attention_mask: Any = None, token_type_ids: Any = None, **kwargs: Any
    ) -> PeirceSource:
        """The source."""
        return PeirceSource(input_ids, attention_mask, token_type_ids)
