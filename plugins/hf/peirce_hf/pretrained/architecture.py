"""What models of `transformers` have in common: options, sizes, the source's weights, open word embeddings, heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import torch
from attrs import evolve, field, frozen
from torch import Tensor, nn

from peirce.errors import PlanError, one_line, unusable
from peirce.networks import TokenInput
from peirce.parts import Architecture, Head, Plan, PlannedHead, TensorSpec
from peirce.spec import Spec
from peirce_hf.pretrained.configuration import (
    complete_spec,
    configuration,
    network,
    published,
    with_dropout,
    without_storage,
)
from peirce_hf.pretrained.heads import OriginalHead, why_no_head

REFUSALS = (
    OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, AssertionError,
)  # fmt: skip
"""What `transformers` and torch raise where a configuration makes no network."""


@frozen(kw_only=True)
class NoDims:
    """The configuration has the sizes."""


@frozen(kw_only=True)
class SourceOptions:
    """Which model, and where its weights come from.

    Args:
        source: its folder, or its name on the hub. A new model takes its weights from there; a saved one has its own.
        config: its configuration, as `transformers` writes it; the source's if it names no `model_type`, changed by
            what stands here. A saved model has all of it, and needs the source no more.
    """

    source: str | None = None
    config: Mapping[str, Any] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.source is None and "model_type" not in self.config:
            raise ValueError("give a 'source', or a 'config' with its 'model_type'")


@frozen(kw_only=True)
class HeadOptions(SourceOptions):
    """Which model, where its weights come from, and which heads are its own.

    Args:
        source: as for an encoder-decoder. config: likewise.
        original_heads: which of the spec's heads are the model's own, with its weights: `mlm`, `classification`,
            `token_classification`, `causal_lm`. The others are new ones of Peirce's.
    """

    original_heads: tuple[str, ...] = ()


class PretrainedArchitecture(Architecture):
    """What all models of `transformers` have in common."""

    source = "Transformers (Wolf et al., 2020)"
    Dims = NoDims
    Options = SourceOptions
    places = frozenset()
    branches = "U"
    layer = ""
    fixed_layer = True
    is_encoder_decoder: ClassVar[bool] = False

    @classmethod
    def sizes(cls, options: SourceOptions, dims: NoDims) -> Mapping[str, int]:
        """The sizes that the configuration says."""
        config = configuration(options.config)
        return {
            "layers": int(config.num_hidden_layers),
            "unary": int(config.hidden_size),
            "heads": int(config.num_attention_heads),
        }

    @classmethod
    def check(cls, options: SourceOptions, dims: NoDims) -> str | None:
        """The configuration must be of a model that the architecture can be."""
        config = configuration(options.config)
        if bool(config.is_encoder_decoder) != cls.is_encoder_decoder:
            other = "pretrained" if cls.is_encoder_decoder else "pretrained_encoder_decoder"
            return (
                f"a model of type {config.model_type!r} is {'no' if cls.is_encoder_decoder else 'an'} encoder-decoder; "
                f'write architecture = "{other}"'
            )
        try:
            without_storage(config)
        except REFUSALS as error:
            return f"config makes no network: {one_line(error)}"
        return None

    @classmethod
    def upgrade(cls, spec: Spec) -> Spec:
        """The spec with the whole configuration, and the sizes of the input that follow from it."""
        given = spec.options.get("config", {})
        if not isinstance(given, Mapping):
            return spec  # which is refused with the option's place
        try:
            return complete_spec(spec, given)
        except REFUSALS as error:
            message = " ".join(str(error).split())[:500]
            raise PlanError(
                f"{spec.at('model.options')}: {unusable(f'architecture {cls.name!r}', message)}"
            ) from error

    def __init__(self, options: SourceOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.plan = plan
        config = configuration(options.config)
        config.vocab_size = plan.dims.vocabulary
        self.body = network(with_dropout(config, plan.dims.dropout))
        embedding = self.body.get_input_embeddings()
        embedding.padding_idx = None  # the scope keeps padding out
        types = int(getattr(config, "type_vocab_size", 0) or 0)
        dims = evolve(plan.dims, unary=embedding.weight.shape[1], token_types=types)
        self.input = TokenInput(evolve(plan, dims=dims), ())
        # The body's own word embeddings, scaled where it scales them, are those that augmenters change.
        self.input.embedding = embedding
        self.input.token_type = None
        self.body.set_input_embeddings(_PaddingEmbeddings(embedding))

    def begin(self) -> None:
        """The weights of the source.

        Raises:
            PlanError: the source cannot be read, or lacks weights of the network.
        """
        if self.options.source is None:
            return
        from transformers import AutoModel

        wanted = dict(self.body.named_parameters())
        loaded, info = published(AutoModel, self.options.source, self.body.config, "the weights")
        missing = set(info["missing_keys"])
        words = loaded.get_input_embeddings().weight
        wanted["the word embeddings"] = words
        if missing & _names(loaded, words):
            words = tied_words(self.options.source, self.body.config)
            missing |= {"the word embeddings"} if words is None else set()
        lacking = sorted(name for name in missing & set(wanted) if not name.startswith("pooler."))
        if lacking:
            raise PlanError(f"{self.options.source!r} lacks weights of the network: {', '.join(lacking[:5])}")
        with torch.no_grad():
            self.input.embedding.weight.copy_(words)
            loaded.set_input_embeddings(nn.Identity())
            given = loaded.state_dict()
            for name, value in self.body.state_dict().items():
                if name not in missing:
                    value.copy_(given[name])

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Token ids, mask, token types where it has them, and what augmenters read."""
        return self.input.specs()

    def _words(self) -> Tensor:
        """[v, d1]: the word embeddings that heads tie to, mapped as they are on their way into the layers."""
        words = self.input.words()
        config = self.body.config
        if getattr(
            config, "scale_decoder_outputs", config.model_type == "umt5"
        ):  # T5's, whose head is the words
            words = words * config.d_model**-0.5
        for name in ("encoder.embedding_hidden_mapping_in", "embeddings_project", "embeddings.embed_proj"):
            module: Any = self.body
            for part in name.split("."):
                module = getattr(module, part, None)
            if isinstance(module, nn.Linear):
                return module(words)
        return words


class WithHeads(PretrainedArchitecture):
    """A model that may have heads of its own, as `original_heads` says."""

    options: HeadOptions

    @classmethod
    def check(cls, options: SourceOptions, dims: NoDims) -> str | None:
        """The model must have the heads that are wanted of it."""
        heads = cast(HeadOptions, options).original_heads
        return super().check(options, dims) or why_no_head(configuration(options.config), heads)

    def __init__(self, options: HeadOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        heads = [planned.name for planned in plan.heads]
        for name in options.original_heads:
            if name not in heads:
                raise PlanError(
                    f"{plan.spec.at('model.options')}: original_heads names {name!r}, and the model has no such head; "
                    f'add [[model.heads]] use = "{name}"'
                )

    def own_head(self, planned: PlannedHead) -> Head | None:
        """The original's, where the options say so."""
        if planned.name not in self.options.original_heads:
            return None
        return OriginalHead(
            planned, self.plan.dims, self.body.config, self.options.source, self.input.embedding
        )


def tied_words(source: str, config: Any) -> Tensor | None:
    """The word embeddings of a source that has them under the name of a head that is tied to them; else None."""
    import transformers

    for auto in (
        transformers.AutoModelForCausalLM, transformers.AutoModelForMaskedLM, transformers.AutoModelForSeq2SeqLM,
    ):  # fmt: skip
        if type(config) in auto._model_mapping:
            whole, info = published(auto, source, config, "the word embeddings")
            words = cast(Tensor, whole.get_input_embeddings().weight)
            if not _names(whole, words) & set(info["missing_keys"]):
                return words
    return None


def _names(model: nn.Module, value: Tensor) -> set[str]:
    return {name for name, each in model.named_parameters(remove_duplicate=False) if each is value}


class _PaddingEmbeddings(nn.Module):
    """Stands where the word embeddings were, which `inputs_embeds` passes by.

    A body looks up only the padding with which it fills its own windows, as LED does; its mask keeps that out.
    """

    def __init__(self, words: nn.Embedding) -> None:
        super().__init__()
        self._words = (words,)  # a parameter of the architecture

    def forward(self, ids: Tensor) -> Tensor:
        """[b, x] -> [b, x, d1]: zeros."""
        (words,) = self._words
        return words.weight.new_zeros(*ids.shape, words.weight.shape[1])
