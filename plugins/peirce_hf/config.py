"""The configuration: a spec in `config.json`, and what `transformers` asks any configuration for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomlkit
from peirce.errors import SpecError
from peirce.spec import FORMAT, Spec, to_plain
from transformers import PreTrainedConfig


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
        SpecError: the table is no valid spec.
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

    @property
    def vocab_size(self) -> int:
        """How many token ids there are."""
        return self._size("input", "vocabulary")

    @property
    def type_vocab_size(self) -> int:
        """How many token types there are."""
        return self._size("input", "token_types")

    @property
    def max_position_embeddings(self) -> int:
        """How many tokens an input has at most, where the spec's positions have a limit."""
        return self._size("input", "max_length")

    @property
    def hidden_size(self) -> int:
        """The width of the unary atoms."""
        return self._size("dims", "unary")

    @property
    def num_hidden_layers(self) -> int:
        """How many layers there are."""
        return self._size("dims", "layers")

    @property
    def num_attention_heads(self) -> int:
        """How many heads the operators have."""
        return self._size("dims", "heads")

    @property
    def initializer_range(self) -> float:
        """The standard deviation that weights start with."""
        return self._size("regularisation", "init_std")

    def _size(self, table: str, key: str) -> Any:
        value = (self.spec or {}).get(table, {}).get(key)
        if value is None:  # what an object without the attribute does, for `hasattr`
            raise AttributeError(f"the spec of this PeirceConfig has no model.{table}.{key}")
        return value


def _spec(table: Mapping[str, Any]) -> Spec:
    return Spec.from_toml(tomlkit.dumps({"format": FORMAT, "model": dict(table)}), source="config.json")
