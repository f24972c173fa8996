"""What all models have in common: building from a spec, loading, running, conversion, resizing, checkpointing."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils.generic import can_return_tuple

from peirce.compose import ProvenanceWarning, differences, provenance_of, resolve
from peirce.errors import InputError, ModelFileError, SpecError
from peirce.model import Model
from peirce.networks import TokenInput
from peirce.parts import Dtype, Plan
from peirce.registry import default_registry
from peirce.spec import Spec, to_plain
from peirce_hf.config import PeirceConfig
from peirce_hf.saving import check_saved, save_atomically
from peirce_hf.weights import fill, values_of_parts
from peirce_training import layers_of

if TYPE_CHECKING:
    from peirce.registry import Registry


Forward = TypeVar("Forward", bound=Callable[..., Any])


def with_tuple_output(forward: Forward) -> Forward:
    """Wrap a forward method to return a tuple if `return_dict` is false, in the call or in the configuration."""
    return can_return_tuple(forward)


class PeircePreTrainedModel(PreTrainedModel):
    """A Peirce model as a model of `transformers`. Use one of its subclasses; each has one head, or all, or none.

    Its tensors are those of the Peirce model, with the prefix `peirce.`. Heads that decode with the word embeddings
    read them, so no tensor has two names and none needs tying.

    Args:
        config: the configuration.
        registry: where parts are looked up; the default registry if None.

    Attributes:
        peirce: the Peirce model.
        uses: the parts that can be the class's head, the preferred first.
        every_head: whether the class has every head of the spec.
        configured: the options of the class's head that the configuration decides, each with its name there.

    Raises:
        SpecError: the configuration's spec cannot be composed, or does not suit the class.
        ModelFileError: the model was made with parts that are not here.
    """

    config_class = PeirceConfig
    base_model_prefix = "peirce"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # heads average over a batch, so a trainer that accumulates must divide
    uses: ClassVar[tuple[str, ...]] = ()
    every_head: ClassVar[bool] = False
    configured: ClassVar[tuple[tuple[str, str], ...]] = ()

    def __init__(self, config: PeirceConfig, registry: Registry | None = None) -> None:
        super().__init__(config)
        registry = registry or default_registry()
        plan = _plan(self.spec_of(config, registry), config.provenance, registry)
        self._registry = registry
        self.peirce = Model(plan, provenance_of(plan, registry))
        self.gradient_checkpointing = False
        self._every_n_layers = 1
        self._made_without_storage = any(p.is_meta for p in self.parameters())
        self._given: dict[str, Tensor] | None = None
        self.post_init()  # type: ignore[no-untyped-call]

    # What a model is made of

    @classmethod
    def spec_of(cls, config: PeirceConfig, registry: Registry) -> Spec:
        """The spec that a configuration means for this class: its own, with the class's head and no other."""
        spec = config.to_spec()
        return spec.replace({"model.heads": cls.heads_of(config, spec, registry)})

    @classmethod
    def heads_of(cls, config: PeirceConfig, spec: Spec, registry: Registry) -> list[dict[str, Any]]:
        """The tables of the heads: the spec's first one that the class can use, else a new one."""
        if not cls.uses:
            return [to_plain(head) for head in spec.heads] if cls.every_head else []
        found = cls.head_in(spec)
        known = [entry.name for entry in registry.entries("heads")]
        use = next((use for use in cls.uses if use in known), cls.uses[0])
        table = {"use": use} if found is None else to_plain(spec.heads[found])
        return [{**table, **cls.options_of(config, table)}]

    @classmethod
    def head_in(cls, spec: Spec) -> int | None:
        """Which of a spec's heads the class can use; the first, None if there is none."""
        return next((i for i, head in enumerate(spec.heads) if head.use in cls.uses), None)

    @classmethod
    def options_of(cls, config: PeirceConfig, table: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the class's head that the configuration decides, beside those that the spec gives it."""
        given = {option: getattr(config, setting) for option, setting in cls.configured}
        return {option: value for option, value in given.items() if value is not None}

    @classmethod
    def settings_of(cls, options: Any) -> dict[str, Any]:
        """What the options of a head are called in a configuration."""
        return {setting: getattr(options, option) for option, setting in cls.configured}

    @property
    def prefix(self) -> str:
        """The prefix of the outputs of the class's head."""
        return next(iter(self.peirce.heads))

    # Conversion

    @classmethod
    def from_peirce(cls, model: Model, registry: Registry | None = None, **settings: Any) -> Self:
        """A model of this class with copies of a Peirce model's parameters.

        Args:
            model: the Peirce model; heads that the class does not have are left out.
            registry: where parts are looked up; the default registry if None.
            settings: settings of the configuration, such as `id2label`.

        Raises:
            SpecError: the model has no head for this class.
        """
        spec, head_settings = model.spec, {}
        if cls.uses:
            index = cls.head_in(spec)
            if index is None:
                heads = ", ".join(head.use for head in spec.heads) or "no heads"
                raise SpecError(
                    f"{cls.__name__} needs the head {' or '.join(map(repr, cls.uses))}, and model {spec.name!r} has "
                    f"{heads}; give it one in its spec, or make {cls.__name__}(PeirceConfig(spec=...)) with a new head"
                )
            head_settings = cls.settings_of(model.plan.heads[index].options)
            spec = spec.replace({"model.heads": [to_plain(spec.heads[index])]})
        elif not cls.every_head:
            spec = spec.replace({"model.heads": []})
        config = PeirceConfig(spec=spec, provenance=model.provenance, **{**head_settings, **settings})
        with torch.device("meta"):
            copied = cls(config, registry=registry)
        fill(copied.peirce, model.state_dict(), model)
        copied.config.dtype = copied.dtype
        return copied.train(model.training)

    def to_peirce(self) -> Model:
        """A Peirce model with copies of the parameters; it can be saved, trained and exported like any other."""
        return copy.deepcopy(self.peirce)

    def save_pretrained(self, save_directory: str | PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Write the model as `transformers` does; the configuration gets the spec and the provenance of this model.

        All files are written beside the directory and moved there when they are whole, with digests of the weights in
        `peirce.json`, which `from_pretrained` checks.

        Raises:
            WriteError: the disk takes no more; what was there is unchanged.
        """
        self.config.spec = to_plain(self.peirce.spec)
        self.config.provenance = self.peirce.provenance
        directory = Path(save_directory)
        if directory.is_file() or kwargs.get("distributed_checkpoint"):
            # Refused, or written by several processes together.
            super().save_pretrained(directory, *args, **kwargs)
            return
        if kwargs.get("push_to_hub"):
            kwargs.setdefault("repo_id", directory.name)
        with save_atomically(directory) as folder:
            super().save_pretrained(folder, *args, **kwargs)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | PathLike[str] | None, *args: Any, **kwargs: Any
    ) -> Self:
        """Read a model as `transformers` does; weights in a folder are held against their digests first.

        Raises:
            ModelFileError: weights are damaged, or of another save than the rest of the folder.
        """
        if pretrained_model_name_or_path is not None:
            directory = Path(pretrained_model_name_or_path, kwargs.get("subfolder") or "")
            if directory.is_dir():
                check_saved(directory)
        return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)

    # Running

    def run(self, *args: Any, **inputs: Any) -> dict[str, Tensor]:
        """The outputs of the Peirce model; inputs as `inputs_of` says."""
        return self.call(self.inputs_of(*args, **inputs))

    def call(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The outputs of the Peirce model on its own inputs, layers recomputed if that is on."""
        with self._recomputing():
            return self.peirce(**given)

    def loss_of(self, prefix: str, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """The loss of a head, and in training what the operators add to that of the last pass."""
        return sum(self.peirce.terms().values(), self.peirce.loss(prefix, outputs, labels))

    def inputs_of(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **others: Any,
    ) -> dict[str, Tensor]:
        """The inputs of the Peirce model, from inputs as `transformers` gives them.

        Args:
            input_ids: integers [b, x].
            attention_mask: [b, x], bool or numbers, nonzero at real tokens.
            token_type_ids: integers [b, x].
            others: the model's further inputs, and what `transformers` passes to every model.

        Raises:
            InputError: an input that the model does not have, or that it needs and does not get.
        """
        if others.get("inputs_embeds") is not None:
            raise InputError(
                "Peirce models take input_ids, not inputs_embeds: augmenters and positions need to know the tokens; "
                "to change embeddings, change model.get_input_embeddings().weight"
            )
        for name in ("output_attentions", "output_hidden_states"):
            if others.get(name):
                raise InputError(
                    f"{name} is not available: Peirce models give their final atoms; leave {name} out, or put hooks on "
                    "model.peirce.network.layers"
                )
        named_inputs = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
        }
        items = {**others, **named_inputs}.items()
        given = {name: value for name, value in items if name not in _EVERYBODYS and value is not None}
        for spec in self.peirce.signature.inputs:
            if spec.name in given:
                given[spec.name] = _cast_inputs(given[spec.name], spec.dtype)
        return given

    def _replicate_for_data_parallel(self) -> Self:
        raise InputError(
            "Peirce models do not run under torch.nn.DataParallel, which copies modules but not what fused products use"
            "; start one process for each device with `torchrun` or `accelerate launch`, or make one "
            "device visible"
        )

    # Embeddings

    def get_input_embeddings(self) -> nn.Embedding:
        """The word embeddings."""
        return self._token_input().embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word embeddings by others of the same size.

        Raises:
            InputError: they have another size.
        """
        old = self.get_input_embeddings()
        if not isinstance(value, nn.Embedding) or value.weight.shape != old.weight.shape:
            raise InputError(
                f"the word embeddings are [{old.num_embeddings}, {old.embedding_dim}], as the spec says; for another "
                "number of tokens call model.resize_token_embeddings(number)"
            )
        self._token_input().embedding = value

    def resize_token_embeddings(
        self,
        new_num_tokens: int | None = None,
        pad_to_multiple_of: int | None = None,
        mean_resizing: bool = True,
    ) -> nn.Embedding:
        """Give the model another number of token ids; the spec changes with it.

        Args:
            new_num_tokens: how many; as many as there are if None.
            pad_to_multiple_of: what the number is rounded up to a multiple of.
            mean_resizing: draw new embeddings around the mean of the old ones, rather than around zero.

        Returns:
            The word embeddings. What else is counted in tokens, as a decoder's bias, is cut or continued with zeros.

        Raises:
            SpecError: a part of the model cannot do with so many tokens.
        """
        old = self.get_input_embeddings()
        if new_num_tokens is None and pad_to_multiple_of is None:
            return old
        count = old.num_embeddings
        resized = self._get_resized_embeddings(old, new_num_tokens, pad_to_multiple_of, mean_resizing)
        if resized.num_embeddings == count:
            return old
        spec = self.peirce.spec.replace({"model.input.vocabulary": resized.num_embeddings})
        plan = resolve(spec, self._registry)
        with torch.device("meta"):
            resized_model = Model(plan, provenance_of(plan, self._registry))
        state = self.peirce.state_dict()
        key = next(name for name, parameter in self.peirce.named_parameters() if parameter is old.weight)
        state[key] = resized.weight.detach()
        fill(resized_model, state, self.peirce)
        self.peirce = resized_model.train(self.training)
        self.config.spec = to_plain(spec)
        return self.get_input_embeddings()

    def _token_input(self) -> TokenInput:
        return next(module for module in self.peirce.network.modules() if isinstance(module, TokenInput))

    # Initial values

    def initialize_weights(self) -> None:
        """Give values to what was not loaded: linear maps and embeddings as Peirce does, the rest as its parts do."""
        try:
            super().initialize_weights()  # type: ignore[no-untyped-call]
        finally:
            self._given = None

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        std = self.peirce.spec.regularisation.init_std
        if isinstance(module, nn.Linear):
            init.normal_(module.weight, std=std)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=std)
        elif self._made_without_storage:
            # A model that is loaded is first made without values, those that its parts give included.
            values = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            for name, value in values:
                if value.is_meta or getattr(value, "_is_hf_initialized", False):
                    continue
                if self._given is None:
                    self._given = values_of_parts(self.peirce)
                owner = next(name for name, other in self.peirce.named_modules() if other is module)
                init.copy_(value, self._given[f"{owner}.{name}"].to(value))

    # Gradient checkpointing

    def _set_gradient_checkpointing(
        self,
        enable: bool = True,
        gradient_checkpointing_func: Callable[..., Any] = checkpoint,
        every_n_layers: int = 1,
    ) -> None:
        self.gradient_checkpointing = enable
        self._gradient_checkpointing_func = gradient_checkpointing_func
        self._every_n_layers = every_n_layers

    @contextmanager
    def _recomputing(self) -> Iterator[None]:
        """Layers keep no activations inside the block if gradient checkpointing is on; backward recomputes them."""
        layers: Sequence[nn.Module] = ()
        if self.gradient_checkpointing and self.training:
            layers = layers_of(self.peirce)[:: self._every_n_layers]
        for layer in layers:
            layer.forward = partial(self._gradient_checkpointing_func, layer.forward)
        try:
            yield
        finally:
            for layer in layers:
                del layer.forward


_EVERYBODYS = frozenset(
    {"inputs_embeds", "output_attentions", "output_hidden_states", "return_dict", "use_cache"}
)
"""What `transformers` may pass to any model, and what says nothing to one without a cache."""


def _plan(spec: Spec, provenance: Mapping[str, Any] | None, registry: Registry) -> Plan:
    """The plan of a spec; what differs from the parts that the model was saved with is said."""
    recorded = provenance or {"parts": {}}
    try:
        plan = resolve(spec, registry)
    except SpecError as error:
        missing, _ = differences(recorded, registry)
        if not missing:
            raise
        raise ModelFileError(
            f"the model needs parts that are not here: {'; '.join(missing)}. Install the distributions named, or "
            f"switch their plug-ins on with 'peirce plugins enable' ({error})"
        ) from error
    used = {f"{planned.kind}.{planned.name}" for planned in plan.parts}
    parts = {part: origin for part, origin in recorded["parts"].items() if part in used}
    _, other = differences({"parts": parts}, registry)
    if other:
        message = f"model {spec.name!r} was made with other versions: {'; '.join(other)}"
        warnings.warn(message, ProvenanceWarning, stacklevel=3)
    return plan


def _cast_inputs(values: Tensor, dtype: Dtype) -> Tensor:
    """The tensor cast to the dtype of its input: integers to int64, numbers to bool; others are left to the model."""
    if dtype == "bool" and values.dtype != torch.bool:
        return values != 0
    if dtype == "int64" and not values.is_floating_point() and values.dtype != torch.bool:
        return values.long()
    return values
