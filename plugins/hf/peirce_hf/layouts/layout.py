"""What the layouts of published transformers share: settings that are read strictly, and names of tensors."""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args, get_type_hints

import torch
from attrs import field, fields, frozen, validators
from torch import Tensor

from peirce.errors import ModelFileError, check_known
from peirce.model import shorten_list
from peirce.spec import StructureError, structure_value

T = TypeVar("T", bound="Layout")

SILENT = (
    "architectures", "attention_head_size", "attn_implementation", "classifier_pooling", "dense_act_fn",
    "deterministic_flash_attn", "directionality", "dtype", "finetuning_task", "gradient_checkpointing",
    "id2label", "initializer_cutoff_factor", "initializer_factor", "is_decoder", "is_encoder_decoder",
    "is_gated_act", "is_llama_config", "label2id", "language", "model_type", "n_ctx", "name_or_path",
    "num_decoder_layers", "output_attentions", "output_hidden_states", "output_past", "output_router_logits",
    "prefix", "pretraining_tp", "problem_type", "reorder_and_upcast_attn", "return_dict", "rope_interleaved",
    "scale_decoder_outputs", "sinusoidal_pos_embds", "sparse_pred_ignore_index", "sparse_prediction",
    "task_specific_params", "torch_dtype", "transformers_version", "use_cache",
)  # fmt: skip
"""Settings of which nothing is said: they are not of the network, or transformers does not read them either."""
_SILENT = re.compile(r"_.*|pooler_.*|summary_.*|.*_token_id|.*(dropout|pdrop|jitter).*")
"""Others of them; a spec has one rate of dropout, which a layout reads."""
_NUMBER = re.compile(r"\\\{(\w+)\\\}")
"""A name in braces, in an escaped pattern."""
log = logging.getLogger("peirce")


class Target(NamedTuple):
    """How a published tensor holds parameters.

    Args:
        names: the parameters, one after the other along the first axis.
        transposed: whether the tensor is transposed.
        heads: of how many heads the parameters stand by turns, head by head; 0 where they do not.
    """

    names: tuple[str, ...]
    transposed: bool = False
    heads: int = 0

    def split(self, tensor: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """The parameters that a published tensor holds, of so many rows each."""
        whole = tensor.t() if self.transposed else tensor
        if self.heads:
            whole = whole.unflatten(0, (self.heads, len(sizes), -1)).transpose(0, 1).flatten(0, 2)
        return [
            piece.clone(memory_format=torch.contiguous_format) for piece in whole.split_with_sizes([*sizes])
        ]

    def join(self, parameters: Sequence[Tensor]) -> Tensor:
        """The published tensor of parameters."""
        whole = torch.cat([*parameters])
        if self.heads:
            whole = whole.unflatten(0, (len(parameters), self.heads, -1)).transpose(0, 1).flatten(0, 2)
        return (whole.t() if self.transposed else whole).contiguous()


def at_least(least: float, **default: Any) -> Any:
    """A setting of numbers from some number on."""
    return field(validator=validators.ge(least), **default)


Names = dict[str, str | tuple[str, ...]]
"""Parameters by published names, both without `.weight` and `.bias`. `{layer}` and other names in braces are numbers,
and `*` is any name of one of our modules. Where a tensor holds several parameters, they stand in their order. Of two
names for one parameter the later one holds, so that a table may begin with that of another family."""


QKV = tuple(
    f"layers.{{layer}}.operators.{name}" for name in ("0.assoc.kernel", "0.assoc.premise", "1.join.premise")
)
"""What is in a tensor of queries, keys and values."""
SMALL: dict[str, Any] = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3,
    "max_position_embeddings": 64,
}  # fmt: skip
"""Settings of small models, for examples."""


@frozen(kw_only=True)
class Layout(ABC):
    """The settings of a family of models, as `config.json` has them; `Literal` where another value is another network.

    Attributes:
        model_type: what `config.json` says.
        prefix: before the names of the body in a model with heads.
        tensors: the names of the body's tensors; ours without `network.`.
        heads: the names of the heads' tensors; ours without `heads.`.
        transposed: which published names are of transposed weights.
        by_heads: which published names hold their parameters by turns, head by head, and the setting that says how many
            heads there are.
        repeated: which published names repeat another one always, beside the biases of decoders.
        aliases: other names of settings.
        ignored: settings that say nothing of the network.
        inside: multimodal models, by `model_type`, of which the language model is taken: their `text_config` has these
            settings.
        example: the class in transformers, and settings of a small model; for the conformance suite.
    """

    model_type: ClassVar[str]
    prefix: ClassVar[str] = ""
    tensors: ClassVar[Names]
    heads: ClassVar[Names] = {}
    transposed: ClassVar[frozenset[str]] = frozenset()
    by_heads: ClassVar[Mapping[str, str]] = {}
    repeated: ClassVar[Mapping[str, str]] = {}
    aliases: ClassVar[Mapping[str, str]] = {}
    ignored: ClassVar[frozenset[str]] = frozenset()
    inside: ClassVar[frozenset[str]] = frozenset()
    example: ClassVar[tuple[str, Mapping[str, Any]]]

    vocab_size: int = at_least(1)
    pad_token_id: int | None = None
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    tensor_names: frozenset[str] = field(default=frozenset(), init=False)

    @classmethod
    def read(cls: type[T], settings: Mapping[str, Any], tensors: dict[str, Tensor], path: Path) -> T:
        """The settings of a file, and which tensors there are; of tied ones, each under one name in `tensors`.

        As transformers does, it takes a tied tensor from either name, and does not tie two that differ. What it does
        not read is said.

        Raises:
            ModelFileError: a setting asks for another network.
        """
        try:
            layout, rest = cls.split_settings(settings)
            object.__setattr__(layout, "tensor_names", frozenset(tensors))
            for copy, of in layout.copies().items():
                value = tensors.get(copy)
                if value is not None and of in tensors and not _same(value, tensors[of]):
                    log.warning("%s: %s differs from %s, so they are not tied", path.parent, copy, of)
                    if copy.endswith("weight"):
                        return cls.read({**settings, "tie_word_embeddings": False}, tensors, path)
                if value is not None:
                    tensors[of] = tensors.pop(copy)
            object.__setattr__(layout, "tensor_names", frozenset(tensors))
            layout.spec()
        except (StructureError, ModelFileError) as error:
            raise ModelFileError(
                f"{path} cannot be imported: {error}. What a layout cannot say, the architectures 'pretrained' and "
                "'pretrained_decoder' run by transformers itself"
            ) from None
        if rest:
            log.warning("%s: a %s does not read the settings %s", path, cls.model_type, shorten_list(rest))
        return layout

    @classmethod
    def of_model(
        cls: type[T], settings: Mapping[str, Any], state: Iterable[str], heads: bool, path: Path
    ) -> T:
        """The settings of a file, with the published names of a model's parameters.

        Raises:
            ModelFileError: the settings ask for another network, or a parameter has no published name.
        """
        try:
            layout, _ = cls.split_settings(settings)
            object.__setattr__(
                layout, "tensor_names", frozenset([f"{cls.prefix}{cls.anchor()}"] if heads else ())
            )
            object.__setattr__(layout, "tensor_names", frozenset(layout.names(state)))
        except (StructureError, ModelFileError) as error:
            raise ModelFileError(f"{path}: {error}") from None
        return layout

    @classmethod
    def split_settings(cls: type[T], settings: Mapping[str, Any]) -> tuple[T, list[str]]:
        """The settings that are read, and the names of those that are not."""
        known = {each.name for each in fields(cls) if each.init}
        kinds = get_type_hints(cls)
        # Null says that there is none where a setting may be None, whatever its default; elsewhere it says nothing.
        given = {
            key: value
            for key, value in settings.items()
            if value is not None or type(None) in get_args(kinds.get(cls.aliases.get(key, key)))
        }
        named = {cls.aliases.get(key, key): value for key, value in given.items()}
        if "quantization_config" in named:
            raise ModelFileError(
                "its weights are quantised (quantization_config); load it with transformers, call dequantize(), "
                "and save that"
            )
        silent = {*known, *SILENT, *cls.ignored}
        rest = [key for key in named if key not in silent and not _SILENT.fullmatch(key)]
        return structure_value(cls, {key: value for key, value in named.items() if key in known}), rest

    @classmethod
    def published(cls, ours: str) -> str:
        """The published name of what a table calls so; empty where there is none."""
        named = reversed([*cls.tensors.items(), *cls.heads.items()])
        return next((theirs for theirs, its in named if its == ours), "")

    @classmethod
    def anchor(cls) -> str:
        """The name, in the body, of a tensor that every such model has: the last map of the first attention."""
        names = (theirs for theirs, ours in cls.tensors.items() if str(ours).endswith(".1.join.output"))
        return next(names, "").replace("{layer}", "0") + ".weight"

    @property
    def body(self) -> str:
        """What stands before the names of the body: a model that was saved without a head has no prefix."""
        return self.prefix if any(name.startswith(self.prefix) for name in self.tensor_names) else ""

    def input(self, **more: int) -> dict[str, Any]:
        """What the tokens are."""
        pad = self.pad_token_id or 0
        return {"vocabulary": self.vocab_size, "pad_id": pad if 0 <= pad < self.vocab_size else 0, **more}

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """The table `[model]` of a spec, without its name."""

    def table(self) -> Names:
        """The names of the body's tensors, where they depend on settings."""
        return self.tensors

    def names(self, state: Iterable[str]) -> dict[str, Target]:
        """How published tensors hold the parameters of a model.

        Args:
            state: the names of the parameters.

        Raises:
            ModelFileError: the layout has no place for one.
        """
        patterns = [
            (f"{self.body}{theirs}", theirs, [f"network.{each}" for each in _as_tuple(ours)])
            for theirs, ours in self.table().items()
        ] + [
            (theirs, theirs, [f"heads.{each}" for each in _as_tuple(ours)])
            for theirs, ours in self.heads.items()
        ]
        found: dict[str, dict[int, str]] = {}
        keys: dict[str, str] = {}
        left = set(state)
        for full, theirs, ours in reversed(patterns):
            for place, pattern in enumerate(ours):
                numbered = _NUMBER.sub(r"(?P<\1>\\d+)", re.escape(pattern)).replace(r"\*", "[^.]+")
                expression = re.compile(numbered + r"(?P<leaf>\.weight|\.bias|)")
                for name in sorted(left):
                    if match := expression.fullmatch(name):
                        published = full.format_map(match.groupdict()) + match["leaf"]
                        found.setdefault(published, {})[place] = name
                        keys[published] = theirs
                        left.discard(name)
        if left:
            raise ModelFileError(
                f"the layout of a {self.model_type} has no tensors for {shorten_list(sorted(left))}; add them to its "
                "table `tensors` or `heads`"
            )
        return {
            published: Target(
                tuple(names[place] for place in sorted(names)),
                keys[published] in self.transposed and published.endswith(".weight"),
                int(getattr(self, self.by_heads[keys[published]])) if keys[published] in self.by_heads else 0,
            )
            for published, names in found.items()
        }

    def copies(self) -> dict[str, str]:
        """Published names that repeat other ones: of tied words, and of biases that stand in two places."""
        found = dict(self.repeated)
        for head in ("mlm", "causal_lm"):
            decoder, bias = self.published(f"{head}.decoder"), self.published(f"{head}.bias")
            if bias and bias != f"{decoder}.bias":
                found[f"{decoder}.bias"] = bias
            if decoder and self.tie_word_embeddings:
                found[f"{decoder}.weight"] = f"{self.body}{self.published('input.embedding')}.weight"
        return found


def _as_tuple(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


@frozen(kw_only=True)
class Decoder(Layout):
    """The settings of a model that predicts the next token."""

    heads: ClassVar[Names] = {"lm_head": "causal_lm.decoder"}

    def shared(self, **options: Any) -> dict[str, Any]:
        """What decoders have in common in the table `[model]`; norms before each stage unless options say otherwise."""
        head = {"use": "causal_lm", "tied": self.tie_word_embeddings, "bias": False}
        classifies = "score.weight" in self.tensor_names  # and has no other head, tied words or not
        own = f"{self.published('causal_lm.decoder')}.weight" in self.tensor_names
        return {
            "architecture": "transformer",
            "options": {"norm": "pre", "pooler": False, **options},
            "scope": {"kind": "causal"},
            "heads": [head] if own or (self.tie_word_embeddings and not classifies) else [],
        }


_TANH = ("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh")
"""What transformers calls GELU by tanh, written in several ways."""


def activations(gelu: str, relu: str, silu: str) -> Mapping[str, Any]:
    """The feed-forward networks by the names of activations, given those of each kind."""
    named = {gelu: ("gelu", "gelu_python"), relu: ("relu",), silu: ("silu", "swish")}
    plain = {name: {"use": use} for use, names in named.items() for name in names}
    return plain | {name: {"use": gelu, "tanh": True} for name in _TANH}


PLAIN = activations("gelu", "relu", "silu")
"""Where there is no gate."""


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one == other).all())


def one_of(what: str, given: str, known: Mapping[str, Any]) -> Any:
    """What a setting stands for; a `ModelFileError` where that is nothing here."""
    check_known(what, given, known, ModelFileError)
    return known[given]
