"""A model as exporters trace it: positional tensors in and out, for the whole model or for a graph of generation.

The exporter, the verification and the session that runs the file share its names and dims, in one signature.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeAlias, TypeVar, final

import torch
from attrs import evolve
from torch import Tensor, nn

from peirce.errors import ExportError, check_known
from peirce.model.examples import Padding, example_arrays, example_sizes
from peirce.model.roles import MODEL, NEXT, PREFILL, STEP
from peirce.parts import Signature, TensorSpec

AnyModel: TypeAlias = Any
"""A `Model`, whose module imports this one, or another module with its signature, spec and provenance."""
ModuleT = TypeVar("ModuleT", bound=nn.Module)


class Exportable(nn.Module, ABC):
    """A model with its inputs as positional tensors and its outputs as a flat tuple, in the order of its signature.

    Attributes:
        model: the model that computes; `spec` and `provenance` are its own.
        role: what the graph is for, as an exported file says it.
        signature: the inputs, each of which is given, and the outputs: names, dtypes, symbolic dims.
    """

    role: str
    signature: Signature

    def __init__(self, model: AnyModel) -> None:
        super().__init__()
        self.model = model
        self.spec, self.provenance = model.spec, model.provenance

    @abstractmethod
    def named(self, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Run the model: outputs by name from inputs by name."""

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The outputs, in the order of `signature.outputs`, of tensors in that of `signature.inputs`.

        Raises:
            ExportError: the model does not give one of the outputs.
        """
        names = [spec.name for spec in self.signature.inputs]
        outputs = self.named(dict(zip(names, tensors, strict=True)))
        if missing := [spec.name for spec in self.signature.outputs if spec.name not in outputs]:
            raise ExportError(
                f"the signature declares {', '.join(missing)}, but the model returns only {', '.join(outputs)}"
            )
        return tuple(outputs[spec.name] for spec in self.signature.outputs)

    @final
    def example_inputs(
        self, sizes: Mapping[str, int] | None = None, *, seed: int = 0, padding: Padding = "all"
    ) -> tuple[Tensor, ...]:
        """Random inputs in the order of the signature; see `Model.example_inputs`."""
        return tuple(example_tensors(self.model, self.signature, sizes, seed, padding).values())

    @final
    def dynamic_shapes(self) -> tuple[tuple[dict[int, Any], ...]]:
        """The symbolic dims of the inputs as `torch.export.export` takes them: for each input a `Dim` by axis.

        A `Dim` goes from 1 to the largest size that the signature states. They stand in a tuple of one, since `forward`
        has one parameter, `*tensors`.
        """
        largest = self.signature.largest
        dims = {name: torch.export.Dim(name, min=1, max=largest.get(name)) for name in self.signature.symbols}
        symbolic = (
            {axis: dims[dim] for axis, dim in enumerate(spec.dims) if isinstance(dim, str)}
            for spec in self.signature.inputs
        )
        return (tuple(symbolic),)


class _Whole(Exportable):
    """All of a model."""

    role = MODEL

    def __init__(self, model: AnyModel) -> None:
        super().__init__(model)
        self.signature = model.signature

    def named(self, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return self.model(**inputs)


class _Prefill(Exportable):
    """A model that also gives the cached state of what it read: [batch, length, ...] tensors by their names."""

    role = PREFILL

    def __init__(self, model: AnyModel) -> None:
        super().__init__(model)
        network, _ = _stable_parts(model)
        cache = network.cached_state()
        has_source = any("length" in spec.dims for spec in cache)
        read = network.rows if has_source else " + ".join(dict.fromkeys(("length", network.rows)))
        cache_outputs = [_cache_output(spec, read, spec.name) for spec in cache]
        self.signature = Signature(model.signature.inputs, (*model.signature.outputs, *cache_outputs))

    def named(self, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        outputs, cache = self.model.advance(inputs, {})
        return {**outputs, **cache}


class _Step(Exportable):
    """One more token of each row: its logits and the next cached state, from the one before, [batch, past, ...]."""

    role = STEP

    def __init__(self, model: AnyModel) -> None:
        super().__init__(model)
        network, heads = _stable_parts(model)
        self.generated = network.generated
        token_input = model.signature.input(network.generated)
        token = evolve(token_input, dims=("batch", 1), largest={}, meaning="The new tokens.")
        prefixes = tuple(f"{head}_" for head in heads)
        logits = [
            evolve(spec, dims=tuple(1 if dim == network.rows else dim for dim in spec.dims))
            for spec in model.signature.outputs
            if spec.name.startswith(prefixes)
        ]
        cache = network.cached_state()
        cache_outputs = [
            _cache_output(spec, "past + 1", NEXT + spec.name) for spec in cache if "length" not in spec.dims
        ]
        self.signature = Signature((token, *cache), (*logits, *cache_outputs))

    def named(self, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        cache = {name: value for name, value in inputs.items() if name != self.generated}
        outputs, new_cache = self.model.advance({self.generated: inputs[self.generated]}, cache)
        return {**outputs, **{NEXT + name: value for name, value in new_cache.items()}}


_ROLES: Mapping[str, type[_Whole | _Prefill | _Step]] = {
    kind.role: kind for kind in (_Whole, _Prefill, _Step)
}


def exportable(model: AnyModel, role: str = MODEL, outputs: Sequence[str] | None = None) -> Exportable:
    """A model as exporters trace it, of which the weights are the model's; see `Model.exportable`."""
    check_known("role", role, _ROLES)
    found = _ROLES[role](sharing_copy(model)).eval()
    if outputs is not None:
        known = {spec.name: spec for spec in found.signature.outputs}
        for name in outputs:
            check_known("output", name, known)
        found.signature = Signature(found.signature.inputs, [known[name] for name in outputs])
    return found


def sharing_copy(module: ModuleT) -> ModuleT:
    """A copy that has modes and dtypes of its own, needs no gradients, and shares the memory of weights and buffers."""
    shared: dict[int, Any] = {id(each): each.detach() for each in module.buffers()}
    shared |= {id(each): nn.Parameter(each.detach(), requires_grad=False) for each in module.parameters()}
    return deepcopy(module, shared)


def example_tensors(
    model: nn.Module, signature: Signature, sizes: Mapping[str, int] | None, seed: int, padding: Padding
) -> dict[str, Tensor]:
    """Random inputs by name, where the weights of a model are, `float` ones in their dtype."""
    weight = next((each for each in model.parameters() if each.is_floating_point()), torch.zeros(()))
    arrays = example_arrays(signature, example_sizes(signature, sizes), seed=seed, padding=padding)
    tensors = {name: torch.from_numpy(array).to(weight.device) for name, array in arrays.items()}
    return {name: t.to(weight.dtype) if t.is_floating_point() else t for name, t in tensors.items()}


def _stable_parts(model: AnyModel) -> tuple[Any, Mapping[str, Any]]:
    """The parts that generate, of which a file's cached state serves texts of any length that the model takes.

    Raises:
        ExportError: the cached state of a shorter text does not serve a longer one.
    """
    network, heads = model.generation_parts()
    longest = model.plan.dims.max_length
    if network.reuses_cache(1, longest):
        return network, heads
    stable = bisect_left(range(1, longest), True, key=lambda length: not network.reuses_cache(1, length))
    advice = f"lower model.input.max_length to {stable}, or " if stable > 1 else ""
    raise ExportError(
        f"{model.spec.name!r} cannot be exported to generate: its positions depend on the length, so that what is "
        f"cached of a short text does not serve a longer one; {advice}export it without `generate` (in torch it "
        "generates, and reads the text again where it must)"
    )


def _cache_output(spec: TensorSpec, size: str, name: str) -> TensorSpec:
    """A tensor of the cached state as an output, with `size` tokens."""
    dims = tuple(size if dim == "past" else dim for dim in spec.dims)
    return evolve(spec, name=name, dims=dims, masks=None, largest={})
