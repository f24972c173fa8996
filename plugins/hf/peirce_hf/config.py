"""The configuration: a spec in `config.json`, and what `transformers` asks any configuration for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomlkit
from transformers import PreTrainedConfig

from peirce.errors import SpecError
from peirce.spec import FORMAT, Spec, to_plain


def _spec_property(table: str, key: str, meaning: str) -> property:
    """A property that is read from the spec, so that the two cannot contradict each other."""

    def value_of(config: PeirceConfig) -> Any:
        value = (config.spec or {}).get(table, {}).get(key)
        if value is None:  # what an object without the attribute does, for `hasattr`
            raise AttributeError(f"the spec of this PeirceConfig has no model.{table}.{key}")
        return value

    return property(value_of, doc=meaning)


class PeirceConfig(PreTrainedConfig):
    """What a Peirce model is made of, as a configuration of `transformers`.

    The spec says everything about the network. Sizes that other configurations hold (`vocab_size`, `hidden_size`, ...)
    are read from it, so the two cannot contradict each other.

    Args:
        spec: a spec, or the table `[model]` of one; None for a configuration without a model, which is what
            `transformers` compares others with.
        provenance: where the parts came from when the model was saved.
        num_choices: how many choices a question has, for `PeirceForMultipleChoice`; as the spec's head says if None.
        decoder_start_token_id: what a target begins with, for `PeirceForConditionalGeneration`; the padding's id if
            None.
        kwargs: what every configuration takes, such as `num_labels`, `id2label` and `problem_type`.

    Raises:
        SpecError: the table is not a valid spec.
    """

    model_type = "peirce"

    def __init__(
        self,
        spec: Spec | Mapping[str, Any] | None = None,
        provenance: Mapping[str, Any] | None = None,
        num_choices: int | None = None,
        decoder_start_token_id: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spec: dict[str, Any] | None = None
        if spec is not None:
            self.spec = to_plain(spec if isinstance(spec, Spec) else _spec(spec))
        self.provenance = None if provenance is None else dict(provenance)
        self.num_choices = num_choices
        self.decoder_start_token_id = decoder_start_token_id
        # Generation and pipelines look it up by name, in the file too; the spec decides.
        self.pad_token_id = None if self.spec is None else self.spec["input"]["pad_id"]

    def to_spec(self) -> Spec:
        """The spec.

        Raises:
            SpecError: there is none, or it is not valid.
        """
        if self.spec is None:
            raise SpecError(
                'this PeirceConfig has no spec; make one with PeirceConfig(spec=peirce.load_spec("folnet-base"))'
            )
        return _spec(self.spec)

    vocab_size = _spec_property("input", "vocabulary", "How many token ids there are.")
    type_vocab_size = _spec_property("input", "token_types", "How many token types there are.")
    max_position_embeddings = _spec_property("input", "max_length", "How many tokens an input has at most.")
    hidden_size = _spec_property("dims", "unary", "The width of the unary atoms.")
    num_hidden_layers = _spec_property("dims", "layers", "How many layers there are.")
    num_attention_heads = _spec_property("dims", "heads", "How many heads the operators have.")
    initializer_range = _spec_property(
        "regularisation", "init_std", "The standard deviation that weights start with."
    )


def _spec(table: Mapping[str, Any]) -> Spec:
    return Spec.from_toml(tomlkit.dumps({"format": FORMAT, "model": dict(table)}), source="config.json")
