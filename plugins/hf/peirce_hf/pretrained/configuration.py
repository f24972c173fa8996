"""Configurations of `transformers`: read, completed from their source, kept in a spec, and made into networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from attrs import fields
from torch import nn

from peirce.errors import PlanError
from peirce.spec import InputSpec, Spec
from peirce_text import quiet_transformers

NOT_KEPT = (
    "_name_or_path", "transformers_version", "architectures", "dtype", "id2label", "label2id", "return_dict",
    "output_hidden_states", "output_attentions", "use_cache",
)  # fmt: skip
"""What a configuration says that is not of the network."""
DEPTHS = (
    "num_hidden_layers", "num_hidden_groups", "inner_group_num", "encoder_layers", "decoder_layers", "num_layers",
    "num_decoder_layers",
)  # fmt: skip
"""How often a configuration repeats a module, whatever memory there is."""
DEEPEST = 1000
"""The most of each; a network is made before its memory is known, and published ones have fewer than 100."""


def configuration(table: Mapping[str, Any]) -> Any:
    """The configuration of `transformers` that a table is.

    Raises:
        PlanError: it has no known `model_type`.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    given = {name: _plain(value) for name, value in table.items()}
    kind = given.pop("model_type", None)
    try:
        return AutoConfig.for_model(kind, **given)
    except (ValueError, TypeError, StrictDataclassError) as error:
        raise PlanError(f"config: {' '.join(str(error).split())[:300]}") from error


def position_offset(body: nn.Module) -> int | None:
    """What an encoder adds to a token's place: RoBERTa counts from the row after that of its padding.

    None where its positions are not embeddings of places.
    """
    for name, module in body.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return 0 if module.padding_idx is None else module.padding_idx + 1
    return None


def complete_spec(spec: Spec, given: Mapping[str, Any]) -> Spec:
    """The spec with the whole configuration, and the sizes of the input that follow from it.

    Args:
        spec: of a model of `transformers`.
        given: its option `config`.

    Raises:
        OSError, ValueError: the source has no configuration, or the spec contradicts it.
    """
    table, changes = {name: _plain(value) for name, value in given.items()}, dict[str, Any]()
    source, known = spec.options.get("source"), spec.input
    if "model_type" not in table:
        if not isinstance(source, str):
            return spec  # which the options refuse
        from transformers import AutoConfig

        table = _table(AutoConfig.from_pretrained(source, trust_remote_code=False)) | table
        changes["model.options.config"] = table
    config = configuration(table)
    # What the configuration says of the input, the spec says, too.
    if "vocab_size" in table:
        if known.vocabulary not in (None, config.vocab_size):
            raise ValueError(
                f"model.input.vocabulary is {known.vocabulary}, and the model has {config.vocab_size} token ids; leave "
                "it out"
            )
        changes["model.input.vocabulary"] = int(config.vocab_size)
    if "type_vocab_size" in table or changes:
        changes["model.input.token_types"] = int(getattr(config, "type_vocab_size", 0) or 0)
    if "pad_token_id" in table and config.pad_token_id >= 0:
        changes["model.input.pad_id"] = int(config.pad_token_id)
    longest = config.attribute_map.get("max_position_embeddings", "max_position_embeddings")
    if longest in table and (places := _max_positions(config)) is not None:
        has_length = known.max_length != fields(InputSpec).max_length.default
        changes["model.input.max_length"] = min(places, known.max_length) if has_length else places
    return spec.replace(changes) if changes else spec


def _max_positions(config: Any) -> int | None:
    """The most tokens of an input; None where there is no such number."""
    places = getattr(config, "max_position_embeddings", None)
    if not isinstance(places, int) or places < 1:
        return None
    return places - (position_offset(without_storage(config)) or 0)


def without_storage(config: Any) -> Any:
    """The network without storage."""
    for name in DEPTHS:
        depth = getattr(config, name, None)
        if isinstance(depth, int) and depth > DEEPEST:
            raise ValueError(f"{name} is {depth}; give at most {DEEPEST}")
    with torch.device("meta"):
        return network(config)


def _table(config: Any) -> dict[str, Any]:
    """A configuration as a table of a spec, which has no null."""
    table = {name: _plain(value) for name, value in config.to_dict().items() if value is not None}
    return {name: value for name, value in table.items() if name not in NOT_KEPT}


def _plain(value: Any) -> Any:
    """Plain tables and lists, without what is null and with keys that are text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def with_dropout(config: Any, rate: float) -> Any:
    """The configuration, each rate of dropout that it has replaced by the spec's."""
    for name, value in config.to_dict().items():
        if ("dropout" in name or "pdrop" in name) and isinstance(value, float) and value > 0:
            setattr(config, name, rate)
    return config


def network(config: Any) -> Any:
    """The network of a configuration, without heads."""
    from transformers import AutoModel

    return cast(Any, AutoModel.from_config(config, trust_remote_code=False))


def published(
    auto: Any, source: str, config: Any, what: str, **settings: Any
) -> tuple[Any, Mapping[str, Any]]:
    """A model of `transformers` in float32 with the weights of a source, and what was missing there or of other sizes.

    Args:
        auto: the class that makes it.
        source: its folder, or its name on the hub, where weights are safetensors.
        config: its configuration.
        what: what is taken of it, for errors.
        settings: further arguments of the class.

    Raises:
        PlanError: the source cannot be read.
    """
    try:
        with quiet_transformers():
            loaded, info = auto.from_pretrained(
                source, config=config, use_safetensors=True, dtype=torch.float32, trust_remote_code=False,
                output_loading_info=True, **settings,
            )  # fmt: skip
    except (OSError, ValueError, RuntimeError) as error:
        message = " ".join(str(error).split())[:500]
        raise PlanError(f"{what} of {source!r} cannot be taken: {message}") from error
    return loaded, info
