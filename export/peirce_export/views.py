"""A model as exporters write it and verification sees it: as its file's role says, or with the best scores alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from attrs import evolve
from peirce.errors import ExportError, ModelFileError, unknown
from peirce.files import whole_number
from peirce.model import MODEL, PREFILL, STEP, Exportable, Model, exportable, sharing_copy, weights_digest
from peirce.parts import Signature, TensorSpec
from torch import Tensor

from peirce_export.metadata import TOP, Metadata, Precision, step_of


class TopK(Exportable):
    """A model whose scores [batch, n] are ranked inside the graph: the k best of them, and which they are.

    Of equal scores the one with the lower number comes first.
    """

    def __init__(self, model: Model, k: int) -> None:
        super().__init__(sharing_copy(model))
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

    def named(self, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
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


GENERATING = (PREFILL, STEP)
"""The roles of the two files of a model that generates."""


def view(role: str, model: Model | Exportable) -> Exportable:
    """The model as a file of that role shows it; what is a view of one already stays.

    Raises:
        ModelFileError: this version knows no such role.
    """
    if isinstance(model, Exportable):
        return model
    if role.startswith(TOP) and (top := whole_number(role.removeprefix(TOP))):
        return TopK(model, top).eval()
    if role not in (MODEL, *GENERATING):
        raise ModelFileError(
            unknown("role of a file", role, (MODEL, *GENERATING)) + "; a newer Peirce may have written it"
        )
    return exportable(model, role)


def metadata_of(
    shown: Exportable, precision: Precision, packages: Iterable[str], opset: tuple[int, int] | None = None
) -> Metadata:
    """What a file says about itself.

    Args:
        shown: the model, before any change of precision.
        precision: of the file.
        packages: those that wrote it, of which it names the versions.
        opset: of an ONNX file, the one asked for and the one that it has.
    """
    versions = {}
    for package in packages:
        with suppress(PackageNotFoundError):  # the GPU distribution of a runtime has another name
            versions[package] = version(package)
    return Metadata(
        signature=shown.signature,
        spec=shown.spec.to_toml(),
        provenance=shown.provenance,
        precision=precision,
        role=shown.role,
        weights=weights_digest(shown.model.state_dict()),
        opset_requested=opset and opset[0],
        opset_actual=opset and opset[1],
        versions=versions,
    )


def file_of(role: str, path: Path) -> Path:
    """Where the file of a role lies, of an export to `path`."""
    return step_of(path) if role == STEP else path
