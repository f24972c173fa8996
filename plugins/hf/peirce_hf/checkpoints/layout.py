"""What the layouts of published transformers share: settings that are read strictly, and names of tensors."""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from attrs import field, fields, frozen, validators
from torch import Tensor

from peirce.errors import ModelFileError, check_known
from peirce.model import shorten_list
from peirce.spec import StructureError, structure_value

T = TypeVar("T", bound="Layout")
EMBEDDING = "network.input.embedding.weight"

SILENT = (
    "architectures", "attn_implementation", "bos_token_id", "dtype", "eos_token_id", "finetuning_task",
    "gradient_checkpointing", "id2label", "is_llama_config", "label2id", "language", "model_type", "name_or_path",
    "output_attentions", "output_hidden_states", "output_past", "pretraining_tp", "problem_type", "return_dict",
    "rope_interleaved",
    "task_specific_params", "torch_dtype", "transformers_version", "use_cache", "_name_or_path",
    "_attn_implementation", "directionality", "pooler_fc_size", "pooler_num_attention_heads",
    "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "prefix", "n_ctx",
)  # fmt: skip
"""Settings of which nothing is said: they are not of the network, or transformers does not read them either."""
_SILENT = re.compile(r"summary_.*|.*_token_id|classifier_dropout")
log = logging.getLogger("peirce")


class Target(NamedTuple):
    """The parameters that a published tensor holds, one after the other along the first axis; whether transposed."""

    names: tuple[str, ...]
    transposed: bool = False


def at_least(least: float, **default: Any) -> Any:
    """A setting of numbers from some number on."""
    return field(validator=validators.ge(least), **default)


@frozen(kw_only=True)
class Layout(ABC):
    """The settings of one kind of model that say which network it is; `Literal` where another value is another network.

    Attributes:
        model_type: what its `config.json` says.
        prefix: before the names of the body in a model with heads.
        anchor: the name, in the body, of a tensor that every such model has.
        aliases: other names of settings.
    """

    model_type: ClassVar[str]
    prefix: ClassVar[str]
    anchor: ClassVar[str]
    aliases: ClassVar[Mapping[str, str]] = {}

    vocab_size: int = at_least(1)
    pad_token_id: int | None = None
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    held: frozenset[str] = field(default=frozenset(), init=False)

    @classmethod
    def read(cls: type[T], settings: Mapping[str, Any], tensors: dict[str, Tensor], path: Path) -> T:
        """The settings of a file, and which tensors there are; of tied ones, each under one name in `tensors`.

        As transformers does, it takes a tied tensor from either name, and does not tie two that differ. What it does
        not read is said.

        Raises:
            ModelFileError: a setting asks for another network.
        """
        known = {each.name for each in fields(cls) if each.init}
        named = {cls.aliases.get(key, key): value for key, value in settings.items()}
        given = {key: value for key, value in named.items() if key in known}
        rest = [key for key in named if key not in known and key not in SILENT and not _SILENT.fullmatch(key)]
        try:
            if "quantization_config" in named:
                raise ModelFileError(
                    "its weights are quantised (quantization_config); load it with transformers, call dequantize(), "
                    "and save that"
                )
            layout = structure_value(cls, given)
            object.__setattr__(layout, "held", frozenset(tensors))
            for copy, of in layout.copies().items():
                value = tensors.get(copy)
                if value is not None and of in tensors and not _same(value, tensors[of]):
                    log.warning("%s: %s differs from %s, so they are not tied", path.parent, copy, of)
                    if copy.endswith("weight"):
                        return cls.read({**settings, "tie_word_embeddings": False}, tensors, path)
                if value is not None:
                    tensors[of] = tensors.pop(copy)
            object.__setattr__(layout, "held", frozenset(tensors))
            layout.spec()
        except (StructureError, ModelFileError) as error:
            raise ModelFileError(f"{path} cannot be imported: {error}") from None
        if rest:
            log.warning("%s: a %s does not read the settings %s", path, cls.model_type, shorten_list(rest))
        return layout

    @property
    def body(self) -> str:
        """What stands before the names of the body: a model that was saved without a head has no prefix."""
        return self.prefix if any(name.startswith(self.prefix) for name in self.held) else ""

    def input(self, **more: int) -> dict[str, Any]:
        """What the tokens are."""
        pad = self.pad_token_id or 0
        return {"vocabulary": self.vocab_size, "pad_id": pad if 0 <= pad < self.vocab_size else 0, **more}

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """The table `[model]` of a spec, without its name."""

    @abstractmethod
    def names(self) -> dict[str, Target]:
        """The published names of the model's parameters."""

    @abstractmethod
    def copies(self) -> dict[str, str]:
        """Published names that repeat other ones."""


@frozen(kw_only=True)
class Decoder(Layout):
    """The settings of a model that predicts the next token.

    Attributes:
        words: what the word embeddings are called in the body.
    """

    words: ClassVar[str]

    @property
    def has_head(self) -> bool:
        """Whether there is a head, which a body that was saved alone lacks."""
        return self.tie_word_embeddings or "lm_head.weight" in self.held

    def shared(self, **options: Any) -> dict[str, Any]:
        """What decoders have in common in the table `[model]`."""
        head = {"use": "causal_lm", "tied": self.tie_word_embeddings, "bias": False}
        options |= {"norm": "pre", "pooler": False}
        return {
            "architecture": "transformer",
            "options": options,
            "scope": {"kind": "causal"},
            "heads": [head] if self.has_head else [],
        }

    def head(self) -> dict[str, Target]:
        """The names of the head's tensor, where it is one of its own."""
        has_decoder = self.has_head and not self.tie_word_embeddings
        return weight_and_bias("lm_head", "heads.causal_lm.decoder", bias=False) if has_decoder else {}

    def copies(self) -> dict[str, str]:
        """The head repeats the word embeddings where they are tied."""
        return {"lm_head.weight": f"{self.body}{self.words}.weight"} if self.tie_word_embeddings else {}


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


def weight_and_bias(
    theirs: str, *ours: str, bias: bool = True, transposed: bool = False
) -> dict[str, Target]:
    """The weight of a map or a norm, and its bias."""
    table = {f"{theirs}.weight": Target(tuple(f"{each}.weight" for each in ours), transposed)}
    if bias:
        table[f"{theirs}.bias"] = Target(tuple(f"{each}.bias" for each in ours))
    return table
