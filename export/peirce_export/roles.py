"""The views of a model that exporters write and verification compares with, by the role of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from attrs import evolve
from torch import Tensor

import peirce
from peirce.algebra import BetweenTokens, between_tokens
from peirce.errors import ExportError, ModelFileError, unknown
from peirce.files import parse_integer
from peirce.model import (
    MODEL,
    PREFILL,
    STEP,
    Exportable,
    Model,
    example_sizes,
    exportable,
    sharing_copy,
    weights_digest,
)
from peirce.parts import Signature, TensorSpec
from peirce_export.metadata import ATTENTION, TOP, Metadata, Precision, step_of


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
            if spec.name.endswith("logits") and _score_count(spec) >= k
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


def _score_count(spec: TensorSpec) -> int:
    """The number n of scores [batch, n] of an output; -1 if it has another shape."""
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


class WithAttention(Exportable):
    """A model that also gives what its rows attend to: `attention_2_join_weights` [b, x, a, h] of join in layer 2.

    That is weights of attention and the kernels that each row normalises. A layer that runs again counts as another.
    """

    role = ATTENTION

    def __init__(self, model: Model) -> None:
        super().__init__(sharing_copy(model).eval())
        self.signature = whole = model.signature
        least = {symbol: 3 + i for i, symbol in enumerate(whole.symbols)}
        sizes = example_sizes(whole, {s: min(n, whole.largest.get(s, n)) for s, n in least.items()})
        symbols = {size: symbol for symbol, size in sizes.items()}
        with torch.no_grad():
            given = self.named(dict(zip(map(_name, whole.inputs), self.example_inputs(sizes), strict=True)))
        meaning = "What each row attends to, by head: shares of 1."
        known, more = {spec.name for spec in whole.outputs}, list[TensorSpec]()
        for name in given.keys() - known:
            *pairs, heads = given[name].shape
            dims = *(symbols.get(size, size) for size in pairs), heads
            more.append(TensorSpec(name=name, dtype="float", dims=dims, meaning=meaning))
        if not more:
            raise ExportError(
                f"the model {model.spec.name!r} has no weights of attention to give; leave out attention"
            )
        self.signature = Signature(whole.inputs, (*whole.outputs, *sorted(more, key=_name)))

    def named(self, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """All outputs, and the weights in the order in which the network comes to them."""
        found: dict[str, Tensor] = {}
        runs = Counter[str]()

        def keep(each: BetweenTokens) -> None:
            if each.share:
                name = f"{each.operator}_{each.name}"
                runs[name] += 1
                found[f"attention_{runs[name]}_{name}"] = each.values

        with between_tokens(self.model, keep, traced=True):
            outputs = self.model(**inputs)
        return {**outputs, **found}


def _name(spec: TensorSpec) -> str:
    return spec.name


GENERATING = (PREFILL, STEP)
"""The roles of the two files of a model that generates."""


def exportable_for(role: str, model: Model | Exportable) -> Exportable:
    """The view of a model that a file of a role has; an `Exportable` is returned as it is.

    Raises:
        ModelFileError: this version knows no such role.
    """
    if isinstance(model, Exportable):
        return model
    if role.startswith(TOP) and (top := parse_integer(role.removeprefix(TOP))):
        return TopK(model, top).eval()
    if role == ATTENTION:
        return WithAttention(model).eval()
    if role not in (MODEL, *GENERATING):
        raise ModelFileError(
            unknown("role of a file", role, (MODEL, *GENERATING)) + "; a newer Peirce may have written it"
        )
    return exportable(model, role)


def metadata_of(
    view: Exportable,
    precision: Precision,
    packages: Iterable[str],
    opset: tuple[int, int] | None = None,
) -> Metadata:
    """The metadata of a file.

    Args:
        view: the model, before any change of precision.
        precision: of the file.
        packages: those that wrote it beside Peirce, of which it names the versions.
        opset: of an ONNX file, the one asked for and the one that it has.
    """
    versions = {"peirce": peirce.__version__}
    for package in packages:
        with suppress(PackageNotFoundError):  # the GPU distribution of a runtime has another name
            versions[package] = version(package)
    return Metadata(
        signature=view.signature,
        spec=view.spec.to_toml(),
        provenance=view.provenance,
        precision=precision,
        role=view.role,
        weights=weights_digest(view.model.state_dict()),
        opset_requested=opset and opset[0],
        opset_actual=opset and opset[1],
        versions=versions,
    )


def role_path(role: str, path: Path) -> Path:
    """Where the file of a role lies, of an export to `path`."""
    return step_of(path) if role == STEP else path
