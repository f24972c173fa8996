"""pretrained: a model of the package `transformers` as an architecture, its word embeddings open to augmenters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import torch
from attrs import evolve, field, fields, frozen
from peirce.algebra import Scope
from peirce.errors import PlanError
from peirce.parts import (
    Architecture,
    Encoded,
    Plan,
    Pooler,
    TensorSpec,
    TokenInput,
    Tokens,
    pooled_output,
    unary_output,
)
from peirce.registry import in_a_line
from peirce.spec import InputSpec, Spec
from torch import Tensor, nn

from peirce_hf.absent import need_transformers

if TYPE_CHECKING:
    from collections.abc import Iterator

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
REFUSALS = (
    OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, AssertionError,
)  # fmt: skip
"""What `transformers` and torch raise where a configuration makes no network."""


@frozen(kw_only=True)
class NoDims:
    """The configuration has the sizes."""


@frozen(kw_only=True)
class EncoderDecoderOptions:
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
class PretrainedOptions(EncoderDecoderOptions):
    """Which model, where its weights come from, and what it gives.

    Args:
        source: as for an encoder-decoder. config: likewise.
        pooler: whether there is a pooled output: the model's own where it has one, else a new one of Peirce's.
    """

    pooler: bool = True


class _Base(Architecture):
    """What encoders and encoder-decoders have in common."""

    source = "Transformers (Wolf et al., 2020)"
    Dims = NoDims
    Options = EncoderDecoderOptions
    places = frozenset()
    branches = "U"
    layer = ""
    fixed_layer = True
    is_encoder_decoder: ClassVar[bool] = False

    @classmethod
    def sizes(cls, options: EncoderDecoderOptions, dims: NoDims) -> Mapping[str, int]:
        """Those of the configuration."""
        config = configuration(options.config)
        return {
            "layers": int(config.num_hidden_layers),
            "unary": int(config.hidden_size),
            "heads": int(config.num_attention_heads),
        }

    @classmethod
    def check(cls, options: EncoderDecoderOptions, dims: NoDims) -> str | None:
        """The configuration must be of a model that the architecture can be."""
        config = configuration(options.config)
        if bool(config.is_encoder_decoder) != cls.is_encoder_decoder:
            other = Pretrained if cls.is_encoder_decoder else PretrainedEncoderDecoder
            return (
                f"a model of type {config.model_type!r} is {'no' if cls.is_encoder_decoder else 'an'} encoder-decoder; "
                f'write architecture = "{other.name}"'
            )
        try:
            _shapes(config)
        except REFUSALS as error:
            return f"config makes no network: {in_a_line(error)}"
        return None

    @classmethod
    def current(cls, spec: Spec) -> Spec:
        """The spec with the whole configuration, and the sizes of the input that follow from it."""
        given = spec.options.get("config", {})
        if not isinstance(given, Mapping):
            return spec  # which is refused with the option's place
        try:
            return _completed(spec, given)
        except REFUSALS as error:
            said = " ".join(str(error).split())[:500]
            raise PlanError(
                f"{spec.at('model.options')}: architecture {cls.name!r} cannot be used here: {said}"
            ) from error

    def __init__(self, options: EncoderDecoderOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.plan = plan
        self.options = options
        config = configuration(options.config)
        config.vocab_size = plan.dims.vocabulary
        self.body = _model(_with_dropout(config, plan.dims.dropout))
        embedding = self.body.get_input_embeddings()
        embedding.padding_idx = None  # the scope keeps padding out
        types = int(getattr(config, "type_vocab_size", 0) or 0)
        dims = evolve(plan.dims, unary=embedding.weight.shape[1], token_types=types)
        self.input = TokenInput(evolve(plan, dims=dims), ())
        # The body's own word embeddings, scaled where it scales them, are those that augmenters change.
        self.input.embedding = embedding
        self.input.token_type = None
        self.body.set_input_embeddings(_Elsewhere())

    def begin(self) -> None:
        """The weights of the source.

        Raises:
            PlanError: the source cannot be read, or lacks weights of the network.
        """
        if self.options.source is None:
            return
        from transformers import AutoModel

        wanted = dict(self.body.named_parameters())
        try:
            with _quietly():
                loaded, info = AutoModel.from_pretrained(
                    self.options.source, config=self.body.config, use_safetensors=True, dtype=torch.float32,
                    trust_remote_code=False, output_loading_info=True,
                )  # fmt: skip
        except (OSError, ValueError, RuntimeError) as error:
            said = " ".join(str(error).split())[:500]
            raise PlanError(f"the weights of {self.options.source!r} cannot be taken: {said}") from error
        missing = set(info["missing_keys"])
        lacking = sorted(name for name in missing & set(wanted) if not name.startswith("pooler."))
        if lacking:
            raise PlanError(f"{self.options.source!r} lacks weights of the network: {', '.join(lacking[:5])}")
        with torch.no_grad():
            self.input.embedding.weight.copy_(loaded.get_input_embeddings().weight)
            loaded.set_input_embeddings(_Elsewhere())
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
        for name in ("encoder.embedding_hidden_mapping_in", "embeddings_project", "embeddings.embed_proj"):
            module: Any = self.body
            for part in name.split("."):
                module = getattr(module, part, None)
            if isinstance(module, nn.Linear):
                return module(words)
        return words


class Pretrained(_Base):
    """An encoder of `transformers`, such as BERT, RoBERTa, ALBERT, DeBERTa or ELECTRA.

    Its word embeddings go through the spec's augmenters and then into it as `inputs_embeds`; everything after them,
    positions and token types included, is its own.
    """

    name = "pretrained"
    scope = "bidirectional"
    Options = PretrainedOptions
    options: PretrainedOptions
    example: ClassVar = {
        "config": {
            "model_type": "bert", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 12,
        }
    }  # fmt: skip

    @classmethod
    def gives(cls, options: PretrainedOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """A pooled output with a pooler."""
        return frozenset({"pooled"} if options.pooler else ())

    def __init__(self, options: PretrainedOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self._pooled = options.pooler
        own = getattr(self.body, "pooler", None) is not None
        self.body.pooler = self.body.pooler if own and options.pooler else None
        self.pooler = Pooler(plan.dims.unary) if options.pooler and not own else None
        self._types = "token_type_ids" in inspect.signature(self.body.forward).parameters

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The atoms, and the pooled output."""
        width = self.plan.dims.unary
        return (unary_output(width), *((pooled_output(width),) if self._pooled else ()))

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed, augment, encode, pool."""
        tokens = self.input.tokens(inputs)
        scope = self.input.scope(tokens)
        packing = Packing(tokens.real)
        given: dict[str, Tensor] = {}
        if self._types and "token_type_ids" in inputs:
            given["token_type_ids"] = packing.pack(inputs["token_type_ids"])
        found = self.body(
            inputs_embeds=packing.pack(scope.zero_unary(self.input.unary(tokens))),
            attention_mask=packing.mask(inputs["input_ids"]),
            return_dict=True,
            **given,
        )
        atoms = scope.zero_unary(packing.unpack(found.last_hidden_state))
        pooled = None
        if self.pooler is not None:
            pooled = self.pooler(atoms, tokens.real)
        elif self.body.pooler is not None:
            pooled = self._own_pooled(packing.pack(atoms)[:, :1])
        return Encoded(atoms, None, pooled, scope, self._words()), tokens

    def _own_pooled(self, first: Tensor) -> Tensor:
        """[b, 1, d1] -> [b, d1]: the model's own pooler on the first real token; zero where there is none."""
        pooler = self.body.pooler
        if isinstance(pooler, nn.Linear):  # ALBERT's is the map alone
            return cast(Tensor, self.body.pooler_activation(pooler(first[:, 0])))
        return cast(Tensor, pooler(first))


class PretrainedEncoderDecoder(_Base):
    """An encoder-decoder of `transformers`, such as BART or T5; augmenters change what its encoder reads."""

    name = "pretrained_encoder_decoder"
    scope = "encoder-decoder"
    rows = "target_length"
    is_encoder_decoder = True
    example: ClassVar = {
        "config": {
            "model_type": "bart", "d_model": 8, "encoder_layers": 1, "decoder_layers": 1,
            "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12,
            "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
        }
    }  # fmt: skip

    @classmethod
    def gives(cls, options: EncoderDecoderOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """No token of a target sees the next one."""
        return frozenset({"past"})

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The source, as an encoder's, and the target."""
        row = ("batch", self.rows)
        return (
            *super().inputs(),
            TensorSpec(
                name="decoder_input_ids", dtype="int64", dims=row, high=self.plan.dims.vocabulary,
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
        return (
            TensorSpec(
                name="unary",
                dtype="float",
                dims=dims,
                meaning="Final properties of each token of the target.",
            ),
        )

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Embed and augment the source, embed the target, run both stacks."""
        tokens = self.input.tokens(inputs)
        scope = self.input.scope(tokens)
        ids = inputs["decoder_input_ids"]
        real = inputs.get("decoder_attention_mask")
        target = Tokens(inputs, real, torch.arange(ids.shape[1], device=ids.device)[None], ids.shape[1])
        seen = Scope.padding(real, None)
        packing, placing = Packing(tokens.real), Packing(real)
        found = self.body(
            inputs_embeds=packing.pack(scope.zero_unary(self.input.unary(tokens))),
            attention_mask=packing.mask(inputs["input_ids"]),
            decoder_inputs_embeds=placing.pack(seen.zero_unary(self.input.embedding(ids))),
            decoder_attention_mask=placing.mask(ids),
            use_cache=False,
            return_dict=True,
        )
        atoms = seen.zero_unary(placing.unpack(found.last_hidden_state))
        return Encoded(atoms, None, None, seen, self._words()), target


class Packing:
    """Real tokens moved to the front, which models of `transformers` count places from, and back.

    Args:
        real: bool [b, x]; None where no token is padding.
    """

    def __init__(self, real: Tensor | None) -> None:
        self.real = real
        self.place: Tensor | None = None
        if real is not None:
            before = real.long().cumsum(1)
            self.place = torch.where(real, before - 1, before[:, -1:] + (~real).long().cumsum(1) - 1)

    def mask(self, ids: Tensor) -> Tensor:
        """int64 [b, x], 1 at real tokens, in their new places; `ids` is [b, x]."""
        return torch.ones_like(ids) if self.real is None else self.pack(self.real.long())

    def pack(self, values: Tensor) -> Tensor:
        """[b, x, ...] with the real tokens in front."""
        place = self._like(values)
        return values if place is None else torch.zeros_like(values).scatter(1, place, values)

    def unpack(self, values: Tensor) -> Tensor:
        """[b, x, ...] with each token where it was."""
        place = self._like(values)
        return values if place is None else values.gather(1, place)

    def _like(self, values: Tensor) -> Tensor | None:
        if self.place is None:
            return None
        place = self.place if values.dim() == 2 else self.place.unsqueeze(2)
        return place.expand_as(values)


class _Elsewhere(nn.Module):
    """Stands where the word embeddings were, which `inputs_embeds` passes by."""

    def forward(self, ids: Tensor) -> Tensor:
        """Never called."""
        raise AssertionError("word embeddings are those of the input")


def configuration(table: Mapping[str, Any]) -> Any:
    """The configuration of `transformers` that a table is.

    Raises:
        PlanError: it has no known `model_type`.
    """
    need_transformers()
    from transformers import AutoConfig

    given = {name: _plain(value) for name, value in table.items()}
    kind = given.pop("model_type", None)
    try:
        return AutoConfig.for_model(kind, **given)
    except (ValueError, TypeError) as error:
        raise PlanError(f"config: {' '.join(str(error).split())[:300]}") from error


def position_offset(body: nn.Module) -> int | None:
    """What an encoder adds to a token's place: RoBERTa counts from the row after that of its padding.

    None where its positions are no embeddings of places.
    """
    for name, module in body.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return 0 if module.padding_idx is None else module.padding_idx + 1
    return None


def _completed(spec: Spec, given: Mapping[str, Any]) -> Spec:
    table, changes = {name: _plain(value) for name, value in given.items()}, dict[str, Any]()
    source, known = spec.options.get("source"), spec.input
    if "model_type" not in table:
        if not isinstance(source, str):
            return spec  # which the options refuse
        need_transformers()
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
    if "max_position_embeddings" in table and (places := _places(config)) is not None:
        told = known.max_length != fields(InputSpec).max_length.default
        changes["model.input.max_length"] = min(places, known.max_length) if told else places
    return spec.replace(changes) if changes else spec


def _places(config: Any) -> int | None:
    """The most tokens of an input; None where there is no such number."""
    places = getattr(config, "max_position_embeddings", None)
    if not isinstance(places, int) or places < 1:
        return None
    return places - (position_offset(_shapes(config)) or 0)


def _shapes(config: Any) -> Any:
    """The network without storage."""
    for name in DEPTHS:
        depth = getattr(config, name, None)
        if isinstance(depth, int) and depth > DEEPEST:
            raise ValueError(f"{name} is {depth}; give at most {DEEPEST}")
    with torch.device("meta"):
        return _model(config)


def _table(config: Any) -> dict[str, Any]:
    """A configuration as a table of a spec, which has no null."""
    table = {name: _plain(value) for name, value in config.to_dict().items() if value is not None}
    return {name: value for name, value in table.items() if name not in NOT_KEPT}


def _plain(value: Any) -> Any:
    """Plain tables and lists, without what is null and with keys that are text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _with_dropout(config: Any, rate: float) -> Any:
    """The configuration, each rate of dropout that it has replaced by the spec's."""
    for name, value in config.to_dict().items():
        if ("dropout" in name or name == "dropout_rate") and isinstance(value, float) and value > 0:
            setattr(config, name, rate)
    return config


def _model(config: Any) -> Any:
    from transformers import AutoModel

    return cast(Any, AutoModel.from_config(config, trust_remote_code=False))


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the bars and reports of loading, which go to the terminal."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
