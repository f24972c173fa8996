"""A model that generates, as two graphs with flat tensors at the boundary: one reads prompts, one adds a token.

Both look to the exporter and to verification like any model: a module with a signature, a spec and a provenance.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import evolve
from peirce.errors import ModelFileError, unknown
from peirce.model import Model
from peirce.signature import Signature, TensorSpec
from peirce.spec import Spec
from torch import Tensor, nn

from peirce_export.metadata import MODEL, NEXT, PREFILL, STEP, step_of


class View(nn.Module):
    """A model as one graph.

    Attributes:
        role: what the graph is for, as the file's metadata say.
        signature: the graph's inputs and outputs.
        spec: the model's.
        provenance: the model's.
    """

    role: ClassVar[str]
    signature: Signature
    spec: Spec
    provenance: Mapping[str, Any]


class Prefill(View):
    """A model that also gives the memory of what it read: [batch, length, ...] tensors by the memory's names."""

    role = PREFILL

    def __init__(self, model: Model) -> None:
        super().__init__()
        network, _ = model.generating()
        self.model = model
        self.spec, self.provenance = model.spec, model.provenance
        read = " + ".join(dict.fromkeys(("length", network.rows)))
        kept = [_counted(spec, read, spec.name) for spec in network.memory()]
        self.signature = Signature(model.signature.inputs, (*model.signature.outputs, *kept))

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        """All outputs, and the memory."""
        outputs, memory = self.model.advance(inputs, {})
        return {**outputs, **memory}


class Step(View):
    """One more token of each row: its logits and the next memory, from the memory [batch, past, ...]."""

    role = STEP

    def __init__(self, model: Model) -> None:
        super().__init__()
        network, heads = model.generating()
        self.model = model
        self.spec, self.provenance = model.spec, model.provenance
        self.generated = network.generated
        token = evolve(model.signature.input(network.generated), dims=("batch", 1), meaning="The new tokens.")
        prefixes = tuple(f"{prefix}_" for prefix in heads)
        logits = [
            evolve(spec, dims=tuple(1 if dim == network.rows else dim for dim in spec.dims))
            for spec in model.signature.outputs
            if spec.name.startswith(prefixes)
        ]
        memory = network.memory()
        kept = [_counted(spec, "past + 1", NEXT + spec.name) for spec in memory]
        self.signature = Signature((token, *memory), (*logits, *kept))

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        """The logits, and the next memory."""
        memory = {name: value for name, value in inputs.items() if name != self.generated}
        outputs, kept = self.model.advance({self.generated: inputs[self.generated]}, memory)
        return {**outputs, **{NEXT + name: value for name, value in kept.items()}}


def _counted(spec: TensorSpec, size: str, name: str) -> TensorSpec:
    """A tensor of the memory as an output, with `size` tokens."""
    return evolve(spec, name=name, dims=tuple(size if dim == "past" else dim for dim in spec.dims))


Exported = Model | View
"""What an exporter writes and a verification compares with."""
ROLES: Mapping[str, type[View]] = {Prefill.role: Prefill, Step.role: Step}


def view(role: str, model: Model) -> Exported:
    """The model as a file of that role shows it.

    Raises:
        ModelFileError: this version knows no such role.
    """
    if role != MODEL and role not in ROLES:
        raise ModelFileError(
            unknown("role of a file", role, (MODEL, *ROLES)) + "; a newer Peirce may have written it"
        )
    return model if role == MODEL else ROLES[role](model)


def file_of(role: str, path: Path) -> Path:
    """Where the file of a role lies, of an export to `path`."""
    return step_of(path) if role == STEP else path
