"""Keys and values of the layers of `transformers`, between its caches and a cached state of flat tensors."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from peirce.errors import PlanError, one_line
from peirce.networks import flatten_layer_cache
from peirce.parts import GenerativeArchitecture, Plan, TensorSpec
from peirce_hf.pretrained.architecture import REFUSALS, PretrainedArchitecture
from peirce_hf.pretrained.configuration import without_storage
from peirce_hf.pretrained.packing import assume_for_tracing
from peirce_hf.pretrained.rotations import keep_rotations, same_rotations

OWN, SOURCE = ("key", "value"), ("source_key", "source_value")
"""What a layer keeps of its tokens; and, in a decoder with an encoder, of the source's."""
Layers = list[dict[str, Tensor]]
"""The keys and values of each layer, [b, heads, x, head size], as `transformers` has them."""
TOKENS = 2
"""The axis of their tokens."""


class CachingArchitecture(PretrainedArchitecture, GenerativeArchitecture):
    """A model of `transformers` whose layers give their keys and values to a cache.

    Attributes:
        stable: whether tokens are turned alike in texts of all lengths that the model takes.
    """

    def __init__(self, options: Any, plan: Plan) -> None:
        super().__init__(options, plan)
        self.stable = same_rotations(self.body, 1, plan.dims.max_length)
        if self.stable:
            keep_rotations(self.body)
        if not self.input.embedding.weight.is_meta:
            assert self._kept

    @cached_property
    def _kept(self) -> Layers:
        """Keys and values of one token."""
        return cache_of_one_token(self.body, self.input.embedding)

    def reuses_cache(self, before: int, after: int) -> bool:
        """Whether tokens are turned alike in texts of both lengths."""
        return self.stable or same_rotations(self.body, before, after)


def cache_with(layers: Layers, names: tuple[str, str] = OWN) -> Any:
    """A cache of `transformers` with these keys and values."""
    from transformers import DynamicCache

    return DynamicCache([tuple(layer[name] for name in names) for layer in layers] or None)


def decoder_cache(layers: Layers) -> Any:
    """A cache of a decoder with its keys and values, and those of its source."""
    from transformers import EncoderDecoderCache

    return EncoderDecoderCache(cache_with(layers), cache_with(layers, SOURCE))


def layers_in(cache: Any) -> Layers:
    """The keys and values in a cache of `transformers`, and those of the source, where it has both."""
    if hasattr(cache, "cross_attention_cache"):
        pairs = zip(cache.self_attention_cache.layers, cache.cross_attention_cache.layers, strict=True)
        return [_keys_and_values(target, OWN) | _keys_and_values(source, SOURCE) for target, source in pairs]
    return [_keys_and_values(layer, OWN) for layer in cache.layers if layer.is_initialized]


def _keys_and_values(layer: Any, names: tuple[str, str]) -> dict[str, Tensor]:
    return dict(zip(names, (layer.keys, layer.values), strict=True))


def cache_specs(layers: Layers) -> tuple[TensorSpec, ...]:
    """Keys and values in the cached state: [batch, heads, past, head size]; a source's have `length` for `past`."""
    return tuple(
        TensorSpec(
            name=named, dtype="float",
            dims=("batch", value.shape[1], "length" if name in SOURCE else "past", value.shape[3]),
            meaning=f"The {name.split('_')[-1]} of layer {i} at the {'source' if name in SOURCE else 'tokens before'}.",
        )
        for i, layer in enumerate(layers)
        for name, value in layer.items()
        for named in flatten_layer_cache(i, {name: value})
    )  # fmt: skip


def why_not_cached(config: Any) -> str | None:
    """Why a decoder gives a cache no keys and values of each layer; None where it does, or only running it tells."""
    if getattr(config, "expert_capacity", None) is not None:
        return (
            f"in a model of type {config.model_type!r} an expert takes {config.expert_capacity} tokens of a text "
            "(expert_capacity), so that keys and values of a token depend on how many there are"
        )
    try:
        _cache_of_one_token(without_storage(config))
    except PlanError as error:
        return str(error)
    except REFUSALS:
        pass
    return None


def cache_of_one_token(body: Any, words: nn.Embedding) -> Layers:
    """The keys and values of one token, and of one of the source where there is one.

    They come from a network without storage. The meta device lacks operations, and the values that some networks ask
    for; such a network runs itself, where it is.

    Args:
        body: the network.
        words: its word embeddings.

    Raises:
        PlanError: it does not run, or gives a cache no keys and values of each layer.
    """
    try:
        return _cache_of_one_token(without_storage(body.config))
    except REFUSALS:
        pass
    training = body.training
    try:
        return _cache_of_one_token(body.eval(), words)
    except REFUSALS as error:
        what = f"a model of type {body.config.model_type!r} does not decode here from keys and values alone"
        raise PlanError(f"{what}: {one_line(error)}") from error
    finally:
        body.train(training)


def _cache_of_one_token(body: Any, words: nn.Embedding | None = None) -> Layers:
    config, weight = body.config, (words or body.get_input_embeddings()).weight
    atoms = weight.new_zeros(1, 1, weight.shape[1])
    mask = torch.ones(1, 1, device=weight.device, dtype=torch.int64)
    given, cache = {"inputs_embeds": atoms}, cache_with([])
    if config.is_encoder_decoder:
        source = weight.new_zeros(1, 1, config.hidden_size)
        given, cache = {"encoder_outputs": (source,), "decoder_inputs_embeds": atoms}, decoder_cache([])
    with torch.no_grad(), assume_for_tracing(atoms):
        found = body(**given, attention_mask=mask, past_key_values=cache, use_cache=True, return_dict=True)
    given_back = getattr(found, "past_key_values", None)
    kept = [] if given_back is None else layers_in(given_back)
    if len(kept) == config.num_hidden_layers or (kept and config.is_encoder_decoder):
        return kept
    raise PlanError(
        f"a model of type {config.model_type!r} does not cache keys and values in each layer, so it does not generate "
        "here"
    )
