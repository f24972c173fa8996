"""The composed model: named inputs, named outputs, its spec and its provenance."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast, final

import numpy as np
import torch
from attrs import evolve
from numpy.typing import NDArray
from torch import Tensor, nn

from peirce.errors import InputError, PlanError, check_known, renamed
from peirce.model.boundary import Exportable, example_tensors, exportable
from peirce.model.examples import Padding
from peirce.model.generation import Generated, Ids, generate, make_decoding
from peirce.model.inputs import Inputs, free_tokens, refuse_if_out_of_memory
from peirce.model.manifest import BASE, GAINED
from peirce.model.roles import Role
from peirce.model.storage import Base, save
from peirce.model.wrappers import saved_state, unwrapped_name
from peirce.parts import (
    Architecture,
    Encoded,
    GenerativeArchitecture,
    Head,
    Plan,
    Signature,
    StateOperator,
    Tokens,
    call_named,
    merge_specs,
)

_DTYPES = {"int64": torch.int64, "bool": torch.bool}


@final
class Model(nn.Module):
    """A network and its heads, as a spec composes them.

    Args:
        plan: the plan.
        provenance: where each part comes from.

    Attributes:
        signature: every input and output, with dtype, symbolic dims and meaning.
        heads: the heads by the prefix of their outputs.
        folder: where the model was loaded from, with its assets; None for one that was built.
        base: the saved model that this one began with, which may be itself; None for one that began afresh.
        gained: the names of the tensors that an upgrade or a training has added to another model.
    """

    def __init__(self, plan: Plan, provenance: Mapping[str, Any]) -> None:
        super().__init__()
        self.plan = plan
        self.folder: Path | None = None
        self.base: Base | None = None
        self.gained: frozenset[str] = frozenset()
        self.spec = plan.spec
        self.provenance = dict(provenance)
        self.network: Architecture = plan.architecture.part(plan.architecture.options, plan)
        self.heads = nn.ModuleDict(
            {each.prefix: self.network.own_head(each) or each.build(plan.dims) for each in plan.heads}
        )
        self.signature = self._make_signature()
        dtypes = {spec.name: _DTYPES[spec.dtype] for spec in self.signature.inputs if spec.dtype in _DTYPES}
        self._inputs = Inputs(self.signature, Tensor, dtypes, _bounds, self._float_bytes)
        self._names = [spec.name for spec in self.signature.outputs]
        # What the spec makes, and so what loading needs; a part may be wrapped, cut or replaced later.
        self._needed = {name: value.detach().to("meta") for name, value in self.state_dict().items()}

    def forward(self, *unnamed: Tensor, **inputs: Tensor) -> dict[str, Tensor]:
        """Run the model on named inputs.

        Args:
            unnamed: nothing; an input without a name is refused.
            inputs: as `signature.inputs` says; optional ones may be absent.

        Returns:
            The outputs by name, in the order of `signature.outputs`.

        Raises:
            InputError: an unknown, missing or misshapen input.
        """
        if unnamed:
            names = [spec.name for spec in self.signature.inputs if spec.required]
            raise InputError(f"inputs are given by name: model({', '.join(f'{name}=...' for name in names)})")
        if torch.compiler.is_compiling():
            if not torch.compiler.is_exporting():
                self._check_compiled(inputs)
            return self._outputs(*self.network(inputs))
        self._inputs.check(inputs)
        try:
            return self._outputs(*self.network(inputs))
        except Exception as error:
            refuse_if_out_of_memory(error, inputs)
            raise

    def _check_compiled(self, inputs: Mapping[str, Tensor]) -> None:
        """Check shapes while a graph is traced, and let it check values: compiled, an embedding takes any index."""
        self._inputs.check_shapes(inputs)
        for spec in self.signature.inputs:
            if spec.high is not None and spec.name in inputs and inputs[spec.name].is_cpu:
                values = inputs[spec.name]
                message = f"input {spec.name!r} has a value that is not one of the valid 0 to {spec.high - 1}"
                torch._assert_async(((values >= 0) & (values < spec.high)).all(), message)

    def _outputs(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        outputs: dict[str, Any] = {"unary": encoded.unary, "binary": encoded.binary, "pooled": encoded.pooled}
        outputs |= _predictions(self.heads, encoded, tokens)
        return {name: outputs[name] for name in self._names}

    def example_inputs(
        self,
        sizes: Mapping[str, int] | None = None,
        *,
        seed: int = 0,
        optional: Collection[str] | None = None,
        padding: Padding = "all",
    ) -> dict[str, Tensor]:
        """A random batch that the model takes, where its weights are: `model(**model.example_inputs())`.

        Args:
            sizes: by symbolic dim, such as `{"batch": 1, "length": 7}`; dims that are left out get sizes that differ
                from each other and from 1, as `torch.export` wants them.
            seed: what the values depend on, beside the sizes.
            optional: the optional inputs to give; all of them if None.
            padding: `all` tokens are real; or rows are `padded` right and left; or one row is `empty`.

        Returns:
            Tensors by name, of the shapes and bounds in `signature.inputs`; `float` ones in the weights' dtype.

        Raises:
            InputError: a dim or an optional input has another name, or a size is not possible.
        """
        free = [spec.name for spec in self.signature.inputs if not spec.required]
        for name in optional or ():
            check_known("optional input", name, free)
        left = set() if optional is None else {*free} - {*optional}
        drawn = example_tensors(self, self.signature, sizes, seed, padding)
        return {name: tensor for name, tensor in drawn.items() if name not in left}

    def exportable(self, outputs: Sequence[str] | None = None, *, role: Role = "model") -> Exportable:
        """The model as an exporter traces it: positional tensors in, a flat tuple of tensors out.

        Args:
            outputs: the outputs, in this order; all of them if None.
            role: which graph. `model` is all of the model. A model that generates has two others: `prefill` reads
                prompts and also gives their cached state, `[batch, length, ...]` by name; `step` takes a token of each
                row, `[batch, 1]`, with the cached state, `[batch, past, ...]`, and gives the token's scores and the
                next state, its names with `next_` before them, but for what is of a source and stays.

        Returns:
            A module in evaluation mode. Its `signature` has the names, dtypes and symbolic dims of what it takes, all
            of it required, and of what it gives; `example_inputs` and `dynamic_shapes` are what `torch.export.export`
            wants beside it. It shares the memory of the model's weights, until it is cast or moved, and nothing else.

        Raises:
            InputError: there is no such role or output, or the model does not generate.
        """
        return exportable(self, role, outputs)

    def advance(
        self, inputs: Mapping[str, Tensor], cache: Mapping[str, Tensor], *, column: int | None = None
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Predict for tokens that follow others, from the cached state of those.

        Args:
            inputs: with an empty cache, as `signature.inputs` says; later the new tokens alone, under the name that
                the architecture generates.
            cache: what the last call returned; empty at first.
            column: with an empty cache, the only token of each row for which a prediction is asked; all if None.

        Returns:
            The outputs and the next cached state, flat tensors by name. With an empty cache these are all outputs;
            later, or with `column`, they are the predictions of the new tokens alone, or of that token, by the heads
            that predict next tokens.

        Raises:
            InputError: the architecture or the heads do not generate.
        """
        if torch.compiler.is_compiling():
            return self._advance(inputs, cache, column)
        if not cache:
            self._inputs.check(inputs)
        try:
            return self._advance(inputs, cache, column)
        except Exception as error:
            refuse_if_out_of_memory(error, inputs)
            raise

    def _advance(
        self, inputs: Mapping[str, Tensor], cache: Mapping[str, Tensor], column: int | None
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        network, heads = self.generation_parts()
        encoded, tokens, kept = network.advance(inputs, cache)
        if not cache and column is None:
            return self._outputs(encoded, tokens), kept
        if column is not None:
            encoded, tokens = _single_row(encoded, tokens, column)
        return _predictions(heads, encoded, tokens), kept

    def generate(
        self, inputs: Mapping[str, Tensor], *, cache: bool = True, **settings: Any
    ) -> tuple[Generated, ...]:
        """Generate a text for each prompt.

        Args:
            inputs: the prompts, as `signature.inputs` says; they may have different lengths, padded on either side.
            cache: whether the state of the tokens before is cached, where the architecture can use it for a longer
                text; without it every step recomputes the whole text.
            settings: how tokens are chosen, as in `peirce.model.Decoding`.

        Returns:
            The generated tokens of each row, without its prompt, and their score.

        Raises:
            InputError: the model does not generate, or an input or a setting is wrong.
        """
        make_decoding(settings)
        training = self.training
        self.eval()
        try:
            name, _ = self.generation_names()
            self._inputs.check(inputs)
            decoding = make_decoding(settings, free_tokens(self.signature, name, inputs[name].shape[1]))
            return generate(_Stepper(self, inputs, cache), decoding)
        finally:
            self.train(training)

    def generation_names(self) -> tuple[str, str]:
        """The names of the input whose tokens are generated and of the output that scores the next one.

        Raises:
            InputError: as `generation_parts`.
        """
        network, heads = self.generation_parts()
        prefix, head = next(iter(heads.items()))
        return network.generated, _output_name(prefix, head.outputs()[0].name)

    def generates(self) -> tuple[str, str]:
        """The older name of `generation_names`."""
        renamed("Model.generates", "Model.generation_names", "2.0")
        return self.generation_names()

    def generation_parts(self) -> tuple[GenerativeArchitecture, dict[str, Head]]:
        """The network and the heads that predict next tokens, by prefix.

        Raises:
            InputError: there are none, or the architecture has no cached state.
        """
        heads = {k: head for k, head in cast(dict[str, Head], self.heads).items() if "past" in head.needs}
        if not isinstance(self.network, GenerativeArchitecture):
            named = f"architecture {self.plan.architecture.name!r}"
            raise InputError(
                f"{named} caches nothing of earlier tokens, so it cannot generate; choose one that does"
            )
        if not heads:
            advice = 'add one such as [[model.heads]] use = "causal_lm"'
            raise InputError(f"{self.spec.name!r} has no head that predicts next tokens; {advice}")
        return self.network, heads

    def loss(self, head: str, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """The mean loss of one head.

        Args:
            head: the prefix of its outputs.
            outputs: what `forward` gave, by name; the head's own must be among them.
            labels: as the head's `labels` says.

        Returns:
            A scalar.

        Raises:
            InputError: the model has no such head, an output that it needs is not there, or labels that it does not
                take.
        """
        check_known("head", head, self.heads.keys())
        part = cast(Head, self.heads[head])
        if not isinstance(labels, Tensor):
            raise InputError(f"head {head!r}: labels are {labels!r}, and must be a tensor: {part.labels}")
        head_outputs = {}
        for spec in part.outputs():
            name = _output_name(head, spec.name)
            if name not in outputs:
                raise InputError(
                    f"the loss of head {head!r} needs the output {name!r}; pass all that `forward` returned"
                )
            head_outputs[spec.name] = outputs[name]
        try:
            return part.loss(head_outputs, labels)
        except InputError as error:
            raise InputError(f"head {head!r}: {error}. It takes {part.labels}") from error

    def terms(self) -> dict[str, Tensor]:
        """What the operators add to the loss of the last pass in training, scalars by name, summed over the layers.

        `peirce train` adds them to the loss of any task, each as a term of its own. A loop of your own adds them to
        `loss`, once for each pass.
        """
        found: dict[str, Tensor] = {}
        for module in self.modules():
            if isinstance(module, StateOperator):
                for name, term in module.terms().items():
                    found[name] = found[name] + term if name in found else term
        return found

    def save(
        self,
        directory: str | Path,
        assets: Mapping[str, bytes] | None = None,
        *,
        only: Literal["trained"] | None = None,
    ) -> None:
        """Write spec.toml, weights.safetensors, provenance.json and assets/ into a directory, all or nothing.

        A card for people and for Hugging Face's hub, README.md, follows; one that a person wrote stays.

        Args:
            directory: created if it does not exist; a model in it is replaced in one step, its assets included, and
                other files stay.
            assets: files to keep below assets/, by relative path.
            only: `trained` for the heads and what differs from `base` alone; such a model is loaded where the base is.

        Raises:
            ModelFileError: the directory cannot be written, an asset's name leads out of it, or the weights are not
                those that the spec makes; or the base is missing.
            InputError: the weights are sharded over processes, or there is no base.
        """
        from peirce.model.card import write_card

        directory, spec, tensors = Path(directory), self.spec, saved_state(self, self._needed)
        more: dict[str, Any] = {GAINED: sorted(self.gained)} if self.gained else {}
        kept = None
        if only is not None:
            if self.base is None:
                raise InputError(
                    "only='trained' saves what differs from a saved model, and this one began afresh; leave `only` out"
                )
            kept, more[BASE] = self.base.changed(directory, tensors)
            spec = evolve(spec, from_=os.path.relpath(self.base.folder, directory.resolve()))
        save(
            directory,
            spec=spec.to_toml(),
            tensors=tensors,
            kept=kept,
            dtype=self._dtypes(),
            provenance={**self.provenance, **more},
            assets=assets or {},
        )
        count = sum(parameter.numel() for parameter in self.parameters())
        write_card(directory, self.spec.name, self.signature, self.provenance, count)

    @property
    def dtype(self) -> torch.dtype:
        """The floating dtype of the parameters."""
        return next(p.dtype for p in self.parameters() if p.is_floating_point())

    def _dtypes(self) -> str | dict[str, str]:
        """The floating dtype of all parameters and buffers, or of each by its name where there are several."""
        parameters, buffers = (
            self.named_parameters(remove_duplicate=False),
            self.named_buffers(remove_duplicate=False),
        )
        tensors = ((unwrapped_name(name, self._needed), each) for name, each in (*parameters, *buffers))
        found = {n: str(t.dtype).removeprefix("torch.") for n, t in tensors if t.is_floating_point()}
        kinds = set(found.values())
        return found if len(kinds) > 1 else next(iter(kinds), "float32")

    def _make_signature(self) -> Signature:
        heads = {prefix: cast(Head, head) for prefix, head in self.heads.items()}
        declared = [(f"architecture {self.plan.architecture.name!r}", self.network.inputs())]
        inputs = merge_specs(
            [*declared, *((f"head {prefix!r}", head.inputs()) for prefix, head in heads.items())]
        )
        outputs = list(self.network.outputs())
        for prefix, head in heads.items():
            for spec in head.outputs():
                dims = tuple(self.network.rows if dim == "length" else dim for dim in spec.dims)
                outputs.append(evolve(spec, name=_output_name(prefix, spec.name), dims=dims))
        for name, count in Counter(spec.name for spec in outputs).items():
            if count > 1:
                message = f"{self.spec.at('model.heads')}: two outputs of the model are called {name!r}"
                raise PlanError(f'{message}; give the head another prefix with as = "..."')
        return Signature(inputs, outputs)

    def _float_bytes(self) -> int | None:
        """The bytes of a floating number; None on an accelerator."""
        some = next(p for p in self.parameters() if p.is_floating_point())
        return some.itemsize if some.is_cpu else None


def _output_name(prefix: str, name: str) -> str:
    """What a model calls an output of the head with this prefix."""
    return f"{prefix}_{name}" if name else prefix


def _single_row(encoded: Encoded, tokens: Tokens, column: int) -> tuple[Encoded, Tokens]:
    """The encoded atoms and tokens of a pass in which every token is a row, cut down to one row for the heads."""
    row = slice(column, column + 1)
    precise = None if encoded.precise is None else (encoded.precise[0][:, row], encoded.precise[1])
    binary = None if encoded.binary is None else encoded.binary[:, row]
    scope = encoded.scope.part(slice(None), row)
    encoded = encoded._replace(unary=encoded.unary[:, row], binary=binary, scope=scope, precise=precise)
    return encoded, replace(tokens, before=column, length=column + 1)


def _predictions(heads: Any, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
    """The predictions of heads, by the names of the model's outputs."""
    return {
        _output_name(prefix, name): value
        for prefix, head in heads.items()
        for name, value in call_named(f"head {prefix!r}", head, encoded, tokens).items()
    }


def _bounds(values: Tensor) -> tuple[int, int] | None:
    """The least and the greatest value; None on an accelerator, which would stall at every step."""
    if not values.is_cpu or not values.numel():
        return None
    low, high = torch.aminmax(values)
    return int(low), int(high)


class _Stepper:
    """Generation in torch: with a cached state, or recomputing the whole text at each token.

    Raises:
        InputError: the model does not generate, or a prompt is empty.
    """

    def __init__(self, model: Model, inputs: Mapping[str, Tensor], cache: bool) -> None:
        self.model, self.cache = model, cache
        self.name, self.output = model.generation_names()
        self.network, _ = model.generation_parts()
        self.stable = self.network.reuses_cache(1, model.plan.dims.max_length)
        self.inputs = dict(inputs)
        ids = inputs[self.name]
        mask = model.signature.mask(self.name)
        self.mask = None if mask is None else mask.name
        self.real = inputs.get(self.mask or "", torch.ones_like(ids, dtype=torch.bool))
        if not bool(self.real.any(1).all()):
            raise InputError(f"a prompt in {self.name!r} has no real token; begin it with one")
        self.cached: dict[str, Tensor] = {}

    def begin(self) -> NDArray[Any]:
        """Read the prompts, whichever side their padding is on."""
        places = torch.arange(self.real.shape[1], device=self.real.device)
        last = torch.where(self.real, places, -1).amax(1)
        column = int(last[0])
        if self.cache and bool((last == column).all()):  # of no other token the next one is asked for
            return self._logits(self.inputs, column)[:, -1].double().cpu().numpy()
        rows = torch.arange(len(last), device=last.device)
        return self._logits(self.inputs)[rows, last].double().cpu().numpy()

    def step(self, tokens: Ids) -> NDArray[Any]:
        """Append a token to each row."""
        new = torch.from_numpy(np.asarray(tokens)).to(self.real.device).unsqueeze(1)
        if self.cache and self.stable:  # nothing that was read is read again
            return self._logits({self.name: new})[:, -1].double().cpu().numpy()
        before = int(self.real.sum(1).max())
        self._append(new)
        if self.cache and self.network.reuses_cache(before, before + 1):
            return self._logits({self.name: new})[:, -1].double().cpu().numpy()
        self.cached = {}
        return self._logits(self.inputs, self.real.shape[1] - 1)[:, -1].double().cpu().numpy()

    @torch.no_grad()
    def _logits(self, new: Mapping[str, Tensor], column: int | None = None) -> Tensor:
        if self.cache:
            outputs, self.cached = self.model.advance(new, self.cached, column=column)
        else:
            outputs = self.model(**self.inputs)
        return outputs[self.output]

    def select(self, rows: Ids) -> None:
        """Go on with these rows."""
        chosen = torch.from_numpy(np.asarray(rows)).to(self.real.device)
        self.inputs = {name: value[chosen] for name, value in self.inputs.items()}
        self.cached = {name: value[chosen] for name, value in self.cached.items()}
        self.real = self.real[chosen]

    def _append(self, new: Tensor) -> None:
        """The inputs with one more token, of which all else has its default, as in a step."""
        self.real = torch.cat([self.real, torch.ones_like(new, dtype=torch.bool)], 1)
        self.inputs[self.name] = torch.cat([self.inputs[self.name], new], 1)
        if self.mask is not None:
            self.inputs[self.mask] = self.real
        signature = self.model.signature
        for spec in signature.inputs:
            beside = spec.dims == signature.input(self.name).dims and spec.name not in (self.name, self.mask)
            if beside and spec.default is not None and spec.name in self.inputs:
                value = self.inputs[spec.name]
                self.inputs[spec.name] = torch.cat([value, value.new_full(new.shape, spec.default)], 1)
