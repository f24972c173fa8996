"""A model as graphs that are not its own: two for one that generates, or one that gives the best of its scores alone.

All look to the exporter and to verification like any model: a module with a signature, a spec and a provenance.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from attrs import evolve
from peirce.errors import ExportError, ModelFileError, unknown
from peirce.files import whole_number
from peirce.model import Model
from peirce.parts import Signature, TensorSpec
from torch import Tensor, nn

from peirce_export.metadata import MODEL, NEXT, PREFILL, STEP, TOP, step_of


class View(nn.Module):
    """A model as one graph.

    Attributes:
        model: the model.
        role: what the graph is for, as the file's metadata say.
        signature: the graph's inputs and outputs.
        spec: the model's.
        provenance: the model's.
    """

    role: str
    signature: Signature

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.spec, self.provenance = model.spec, model.provenance


class Prefill(View):
    """A model that also gives the cached state of what it read: [batch, length, ...] tensors by their names."""

    role = PREFILL

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        network, _ = model.generating()
        read = " + ".join(dict.fromkeys(("length", network.rows)))
        kept = [_counted(spec, read, spec.name) for spec in network.cached_state()]
        self.signature = Signature(model.signature.inputs, (*model.signature.outputs, *kept))

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        """All outputs, and the cached state."""
        outputs, cache = self.model.advance(inputs, {})
        return {**outputs, **cache}


class Step(View):
    """One more token of each row: its logits and the next cached state, from the one before, [batch, past, ...]."""

    role = STEP

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        network, heads = model.generating()
        self.generated = network.generated
        asked = model.signature.input(network.generated)
        token = evolve(asked, dims=("batch", 1), largest={}, meaning="The new tokens.")
        prefixes = tuple(f"{prefix}_" for prefix in heads)
        logits = [
            evolve(spec, dims=tuple(1 if dim == network.rows else dim for dim in spec.dims))
            for spec in model.signature.outputs
            if spec.name.startswith(prefixes)
        ]
        cache = network.cached_state()
        kept = [_counted(spec, "past + 1", NEXT + spec.name) for spec in cache]
        self.signature = Signature((token, *cache), (*logits, *kept))

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        """The logits, and the next cached state."""
        cache = {name: value for name, value in inputs.items() if name != self.generated}
        outputs, kept = self.model.advance({self.generated: inputs[self.generated]}, cache)
        return {**outputs, **{NEXT + name: value for name, value in kept.items()}}


class TopK(View):
    """A model whose scores [batch, n] are ranked inside the graph: the k best of them, and which they are.

    Of equal scores the one with the lower number comes first.
    """

    def __init__(self, model: Model, k: int) -> None:
        super().__init__(model)
        self.k, self.role = k, f"{TOP}{k}"
        self.ranked = {
            spec.name: spec.name.removesuffix("logits")
            for spec in model.signature.outputs
            if spec.name.endswith("logits") and _things(spec) >= k
        }
        if not self.ranked:
            given = ", ".join(str(spec) for spec in model.signature.outputs)
            raise ExportError(
                f"the model {model.spec.name!r} gives no scores [batch, n] of {k} things or more to rank; its outputs "
                f"are {given}: lower top_k, or leave it out"
            )
        outputs = tuple(new for spec in model.signature.outputs for new in self._outputs(spec))
        self.signature = Signature(model.signature.inputs, outputs)

    def _outputs(self, spec: TensorSpec) -> tuple[TensorSpec, ...]:
        if spec.name not in self.ranked:
            return (spec,)
        name, dims = f"{self.ranked[spec.name]}top_", ("batch", self.k)
        meaning = f"The {self.k} best scores, the best first."
        scores = evolve(spec, name=f"{name}scores", dims=dims, meaning=meaning)
        ids = TensorSpec(name=f"{name}ids", dtype="int64", dims=dims, meaning="What they are the scores of.")
        return scores, ids

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        """All outputs, with the best of the ranked scores and their places instead of all of them."""
        found: dict[str, Tensor] = {}
        for name, values in self.model(**inputs).items():
            if name in self.ranked:
                scores, ids = _best(values, self.k)
                found |= {f"{self.ranked[name]}top_scores": scores, f"{self.ranked[name]}top_ids": ids}
            else:
                found[name] = values
        return found


def _things(spec: TensorSpec) -> int:
    """How many things an output scores [batch, n]; -1 if it is none of that kind."""
    match spec.dims:
        case ("batch", int(size)):
            return size
    return -1


def _best(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best scores [b, k] and their places, int64; ONNX's TopK orders equal ones by place, torch's does not."""
    if torch.compiler.is_exporting():
        return torch.topk(scores, k)
    values, places = torch.sort(scores, dim=1, descending=True, stable=True)
    return values[:, :k], places[:, :k]


def _counted(spec: TensorSpec, size: str, name: str) -> TensorSpec:
    """A tensor of the cached state as an output, with `size` tokens."""
    dims = tuple(size if dim == "past" else dim for dim in spec.dims)
    return evolve(spec, name=name, dims=dims, masks=None, largest={})


Exported = Model | View
"""What an exporter writes and a verification compares with."""
ROLES: Mapping[str, type[View]] = {Prefill.role: Prefill, Step.role: Step}


def view(role: str, model: Model) -> Exported:
    """The model as a file of that role shows it.

    Raises:
        ModelFileError: this version knows no such role.
    """
    if role.startswith(TOP) and (top := whole_number(role.removeprefix(TOP))):
        return TopK(model, top)
    if role != MODEL and role not in ROLES:
        raise ModelFileError(
            unknown("role of a file", role, (MODEL, *ROLES)) + "; a newer Peirce may have written it"
        )
    return model if role == MODEL else ROLES[role](model)


def file_of(role: str, path: Path) -> Path:
    """Where the file of a role lies, of an export to `path`."""
    return step_of(path) if role == STEP else path
