"""The exporter that `--to onnx` names: torch.onnx, metadata, and a verification that nothing skips."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from attrs import evolve, frozen
from peirce.errors import ExportError
from peirce.files import scratch, writing
from peirce.kernels import folded
from peirce.model import Exporter, Model, weights_digest
from peirce.parts import PART, RecurrentOperator, Signature, noting_parts
from torch import Tensor, nn

from peirce_export import cases
from peirce_export.casting import DTYPES, cast_copy, precision_of
from peirce_export.failures import DimMismatch, Mismatch, NameMismatch, ValueMismatch
from peirce_export.metadata import DYNAMIC, INT8, MODEL, TOP, WEIGHTS, Metadata, Precision, step_of
from peirce_export.onnx.warnings_of_others import silenced
from peirce_export.report import Verification, steps, together
from peirce_export.verify import verify
from peirce_export.views import ROLES, Exported, View, file_of, view

if TYPE_CHECKING:  # onnx and its libraries are loaded by an export, not by each registry
    import onnx_ir as ir

    from peirce_export.onnx.content import Content

OPSETS = range(17, 24)
"""The opsets that every registered part has been exported to and verified at."""
DEFAULT_OPSET = 20
EXTERNAL_ABOVE = 1_900_000_000
"""Bytes of weights above which they go into a file of their own: protobuf ends at 2 GiB."""


@frozen(kw_only=True)
class OnnxOptions:
    """Options of the ONNX exporter.

    Args:
        opset: the version of ONNX's operators, 17 to 23.
        precision: float32, float16, bfloat16 or int8; None keeps the model's own. Norms and softmaxes stay float32. In
            int8 the weights of products have 8 bits and all else is float32.
        quantisation: of int8: `dynamic` multiplies integers, for which it also rounds what the weights are multiplied
            with; `weights` rounds the weights alone, which is closer to the model.
        generate: write two graphs for a model that generates: FILE, which also gives the cached state of what it read,
            and FILE with `.step` before its suffix, which adds a token; `peirce.Session.generate` runs them.
        top_k: rank the scores of entities, or of whatever a head scores [batch, n], inside the graph and give so many
            of the best with their places; 0 gives all scores. In float32 alone, since narrow scores have many ties.
        optimize: rewrite a graph in float32 for fewer passes over memory, which CPUs are faster with; see
            `peirce_export.onnx.optimizer`.
        external_above: bytes of weights above which they go into FILE.data beside the file.
        seed: of the random inputs that the file is verified with.
    """

    opset: int = DEFAULT_OPSET
    precision: str | None = None
    quantisation: str = DYNAMIC
    generate: bool = False
    top_k: int = 0
    optimize: bool = False
    external_above: int = EXTERNAL_ABOVE
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        if self.opset not in OPSETS:
            raise ValueError(f"opset {self.opset} is not one of {OPSETS.start} to {OPSETS.stop - 1}")
        if self.precision not in (None, *DTYPES, INT8):
            raise ValueError(f"precision {self.precision!r} is not one of {', '.join(DTYPES)}, {INT8}")
        if self.quantisation not in (DYNAMIC, WEIGHTS):
            raise ValueError(f"quantisation {self.quantisation!r} is not one of {DYNAMIC}, {WEIGHTS}")
        if self.quantisation != DYNAMIC and self.precision != INT8:
            raise ValueError(f"quantisation is of precision {INT8}, and the precision is {self.precision}")
        for name, value in (("top_k", self.top_k), ("seed", self.seed)):
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"{name} {value!r} is not an integer from 0")
        if self.top_k and self.generate:
            raise ValueError("top_k and generate exclude each other: what generates ranks its own scores")


def check_place(path: Path, example: str) -> Path:
    """Refuse a place for a file before anything is traced.

    Raises:
        ExportError: there is no such folder, or something else stands there.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise ExportError(f"folder {path.parent} does not exist; create it, or write elsewhere")
    if path.exists() and not path.is_file():
        # A directory cannot be replaced; a device, such as /dev/null, could be, and must not.
        raise ExportError(f"{path} is a directory or a device; name a file, such as {example}")
    return path


class OnnxExporter(Exporter):
    """ONNX through torch.onnx, with every symbolic dim of the signature dynamic, verified by ONNX Runtime."""

    name = "onnx"
    source = "https://onnx.ai"
    Options = OnnxOptions

    options: OnnxOptions

    def export(self, model: Model, path: Path) -> Verification:
        """Write the model to `path` and verify it.

        The file appears under its name, with its data, only once it is verified. One that fails is kept in
        `FILE.rejected` to be examined, with the inputs it failed on; what stood at `path` before stays.

        Raises:
            ExportError: torch.onnx cannot export the model.
            WriteError: the disk takes no more.
            NameMismatch, DtypeMismatch, DimMismatch, ValueMismatch: the file differs from the model.
        """
        path = check_place(path, "model.onnx")
        try:
            with writing(str(path)), scratch(path) as place:
                folder = place / "new"
                folder.mkdir()
                try:
                    report, _ = self.graphs(model, folder / path.name)
                except Mismatch as fault:
                    if not os.listdir(folder):
                        raise
                    raise _kept(fault, folder, path) from fault
                # The data first: a new graph never stands beside old data.
                for name in sorted(os.listdir(folder), key=lambda name: name == path.name):
                    os.replace(folder / name, path.with_name(name))
        except OSError as error:
            raise ExportError(f"{path} cannot be written: {error}; write elsewhere") from error
        return evolve(report, file=path)

    def between(self, model: Model, path: Path) -> tuple[Verification, list[Metadata]]:
        """As `graphs`, of files that another format is made of: one that fails is not kept."""
        try:
            return self.graphs(model, path)
        except Mismatch as fault:
            raise fault.saying(f"{fault}\n`peirce export --to onnx` shows it and keeps the file") from fault

    def graphs(self, model: Model, path: Path) -> tuple[Verification, list[Metadata]]:
        """Write and verify the files of a model where nothing else stands; what was measured, and what each file is."""
        from peirce_export.onnx.quantising import quantised
        from peirce_export.onnx.verifying import OnnxGraph

        options = self.options
        quantisation, quantise = options.quantisation, options.precision == INT8
        precision: Precision = "float32"
        if not quantise:
            precision = options.precision or precision_of(model)  # type: ignore[assignment]  # one of them
        reports, written = [], []
        with steps(f"exporting {path.name}") as say:
            for role in self._roles(precision):
                say(f"tracing {role}")
                shown = view(role, model)
                graph = trace(shown, options.opset, precision, optimize=options.optimize)
                if quantise:
                    say(f"quantising {role}")
                    graph = quantised(graph, quantisation)
                say(f"writing {role}")
                content = write(graph, file_of(role, path), options.external_above)
                reports.append(verify(OnnxGraph(content), shown, seed=options.seed, progress=say))
                written.append(content.metadata)
        return together(reports[::-1]), written[::-1]

    def _roles(self, precision: Precision) -> tuple[str, ...]:
        if self.options.generate:
            return tuple(reversed([*ROLES]))  # the graph of a step first: the other one holds its digest
        if not self.options.top_k:
            return (MODEL,)
        if precision != "float32" or self.options.precision == INT8:
            raise ExportError(
                f"top_k ranks in float32, and the file would be {self.options.precision or precision}, where many "
                "scores are equal; export in float32, or rank outside of the graph"
            )
        return (f"{TOP}{self.options.top_k}",)


def trace(model: Exported, opset: int, precision: Precision, *, optimize: bool = False) -> ir.Model:
    """The ONNX graph of a model, with its metadata, its weights in memory; `optimize` rewrites one in float32.

    Raises:
        DimMismatch: the model fixes a dim that its signature declares symbolic.
        NameMismatch: the model does not give an output that its signature declares.
        ExportError: torch.onnx cannot export it.
    """
    signature: Signature = model.signature
    twin = cast_copy(model, DTYPES[precision])
    most = signature.largest
    case = cases.Case(name="traced", sizes=cases.traced(signature, most))
    arrays = cases.inputs(signature, case, 0, np.dtype(np.float32)).values()
    tensors = (torch.from_numpy(array) for array in arrays)
    example = tuple(t.to(DTYPES[precision]) if t.is_floating_point() else t for t in tensors)
    symbols = {name: torch.export.Dim(name, min=1, max=most.get(name)) for name in signature.symbols}
    shapes = tuple(
        {axis: symbols[dim] for axis, dim in enumerate(spec.dims) if isinstance(dim, str)}
        for spec in signature.inputs
    )
    # torch cannot note anything in the nodes of a scan.
    recurrent = any(isinstance(module, RecurrentOperator) for module in twin.modules())
    noting = nullcontext if recurrent else noting_parts
    try:
        with silenced(), torch.no_grad(), folded(twin), noting():
            program = torch.onnx.export(
                _Boundary(twin, signature).eval(),
                example,
                dynamo=True,
                opset_version=opset,
                dynamic_shapes=(shapes,),
                input_names=[spec.name for spec in signature.inputs],
                output_names=[spec.name for spec in signature.outputs],
                verbose=False,
            )
    except Exception as error:  # torch.onnx raises many kinds, from any depth
        raise _untraceable(error, signature) from error
    assert program is not None
    graph = program.model
    _note_parts(graph, program.exported_program)
    _clean(graph)
    if optimize and precision == "float32":
        from peirce_export.onnx.optimizer import rewrite

        rewrite(graph)
    actual = graph.opset_imports[""]
    graph.metadata_props.update(_metadata(model, signature, precision, opset, actual).to_properties())
    return graph


def write(graph: ir.Model, path: Path, external_above: int = EXTERNAL_ABOVE) -> Content:
    """Write a graph with its digest; above `external_above` bytes its weights go into `path` + `.data`.

    If the graph of a step lies beside it, it belongs to this one.
    """
    import onnx_ir as ir

    from peirce_export.onnx.content import sign

    size = sum(value.const_value.nbytes for value in graph.graph.initializers.values() if value.const_value)
    data = f"{path.name}.data" if size > external_above else None
    ir.save(graph, path, external_data=data)
    return sign(path, [step for step in (step_of(path),) if step.is_file()])


class _Boundary(nn.Module):
    """The model with flat tensors in and out, in the order of its signature."""

    def __init__(self, model: nn.Module, signature: Signature) -> None:
        super().__init__()
        self.model = model
        self._inputs = [spec.name for spec in signature.inputs]
        self._outputs = [spec.name for spec in signature.outputs]

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        outputs: Mapping[str, Tensor] = self.model(**dict(zip(self._inputs, tensors, strict=True)))
        missing = [name for name in self._outputs if name not in outputs]
        if missing:
            raise NameMismatch(
                f"the signature declares {', '.join(missing)}, but the model gives only {', '.join(outputs)}"
            )
        return tuple(outputs[name] for name in self._outputs)


def _note_parts(graph: ir.Model, program: torch.export.ExportedProgram | None) -> None:
    """Write into each node the part that made it, as tracing noted it."""
    nodes = () if program is None else program.graph.nodes
    makers = {node.name: (node.meta.get("custom") or {}).get(PART) for node in nodes}
    for node in graph.graph.all_nodes():
        name = node.metadata_props.get("pkg.torch.onnx.fx_node", "").partition(" ")[0].removeprefix("%")
        if maker := makers.get(name):
            node.metadata_props[PART] = maker


def _clean(graph: ir.Model) -> None:
    """Drop what the tracer notes about the machine and its run, and name the weights as the model does."""
    graph.doc_string = None
    graph.graph.metadata_props.clear()
    for node in graph.graph.all_nodes():
        node.doc_string = None
        for key in [key for key in node.metadata_props if key.startswith("pkg.torch")]:
            del node.metadata_props[key]
    for value in list(graph.graph.initializers.values()):
        if value.name is not None and value.name.startswith("model."):
            value.name = value.name.removeprefix("model.")


def _metadata(
    model: Exported, signature: Signature, precision: Precision, asked: int, actual: int
) -> Metadata:
    versions = {}
    for package in ("peirce", "torch", "onnx", "onnxscript", "onnxruntime"):
        with suppress(PackageNotFoundError):  # the GPU distribution of the runtime has another name
            versions[package] = version(package)
    inner = model.model if isinstance(model, View) else model
    return Metadata(
        signature=signature,
        spec=model.spec.to_toml(),
        provenance=model.provenance,
        precision=precision,
        role=model.role if isinstance(model, View) else MODEL,
        weights=weights_digest(inner.state_dict()),
        opset_requested=asked,
        opset_actual=actual,
        versions=versions,
    )


_ADVICE = ("For more", "For extended", "For C++", "If you suspect", "Caused by", "The error above occurred")
"""How lines begin with which torch tells its own developers where to look."""


def _untraceable(error: BaseException, signature: Signature) -> ExportError:
    chain, link = list[str](), error
    while link is not None and len(chain) < 8:
        if isinstance(link, Mismatch):
            return link
        chain.append(str(link).strip())
        link = link.__cause__ or link.__context__  # type: ignore[assignment]
    cause = "\n".join(line for line in chain[-1].splitlines() if line and not line.startswith(_ADVICE))[:2000]
    if any(sign in text for text in chain for sign in ("Constraints violated", "inferred to be a constant")):
        return DimMismatch(
            f"the model fixes one of the dims {', '.join(signature.symbols)}, which its signature declares "
            f"symbolic: {cause}\nLook for a size that is made an int, or for a Python loop over an axis"
        )
    return ExportError(f"torch.onnx could not export the model: {cause}")


def _kept(fault: Mismatch, folder: Path, path: Path) -> Mismatch:
    """The fault again, with the failed export under a name that stays."""
    place, number = path.with_name(f"{path.name}.rejected"), 2
    while place.exists():
        place, number = path.with_name(f"{path.name}.rejected-{number}"), number + 1
    os.replace(folder, place)
    said = str(fault).replace(str(folder), str(place))
    moved = fault.saying(f"{said}\nThe file that failed is kept: {place / path.name}")
    moved.report = None if fault.report is None else evolve(fault.report, file=place / path.name)
    if isinstance(fault, ValueMismatch) and isinstance(moved, ValueMismatch) and fault.inputs is not None:
        moved.inputs = place / fault.inputs.name
    return moved
