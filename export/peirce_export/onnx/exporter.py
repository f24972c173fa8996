"""The exporter that `--to onnx` names: torch.onnx, metadata, and a verification that nothing skips."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from attrs import field, frozen, validators

from peirce.errors import ExportError
from peirce.extras import require
from peirce.kernels import constant_weights
from peirce.model import MODEL, Exportable, Exporter, Model
from peirce.parts import PART, RecurrentOperator, record_parts
from peirce_export.casting import DTYPES, cast_copy, precision_of
from peirce_export.failures import Mismatch, trace_error
from peirce_export.metadata import (
    ATTENTION,
    DYNAMIC,
    INT4,
    INT8,
    SCOPE,
    TOP,
    WEIGHTS,
    WEIGHTS4,
    Metadata,
    Precision,
    step_of,
)
from peirce_export.onnx.quiet import silence_warnings
from peirce_export.placement import write_verified
from peirce_export.report import Verification, merge_reports, progress_spinner
from peirce_export.roles import GENERATING, exportable_for, metadata_of, role_path
from peirce_export.verification import verify

if TYPE_CHECKING:  # onnx and its libraries are loaded by an export, not by each registry
    import onnx_ir as ir

    from peirce_export.onnx.content import Content
    from peirce_export.runtimes import LoadedModel

OPSETS = range(17, 27)
"""The opsets that files may have; `tox -e export-all` exports every registered part to each, and verifies it."""
DEFAULT_OPSET = 20
WRITTEN = 25
"""The last opset that torch.onnx writes. What ONNX adds after it changes no operator that these graphs have."""
EXTERNAL_ABOVE = 1_900_000_000
"""Bytes of weights above which they go into a file of their own: protobuf ends at 2 GiB."""


@frozen(kw_only=True)
class OnnxOptions:
    """Options of the ONNX exporter.

    Args:
        opset: the version of ONNX's operators, 17 to 26.
        precision: float32, float16, bfloat16, int8 or int4; None keeps the model's own. Norms and softmaxes stay
            float32. In int8 the weights of products have 8 bits and all else is float32, in int4 they have 4.
        quantisation: of int8: `dynamic` multiplies integers, for which it also rounds what the weights are multiplied
            with; `weights` rounds the weights alone, which is closer to the model.
        generate: write two graphs for a model that generates: FILE, which also gives the cached state of what it read,
            and FILE with `.step` before its suffix, which adds a token; `peirce.Session.generate` runs them.
        top_k: rank the scores of entities, or of whatever a head scores [batch, n], inside the graph and give so many
            of the best with their places; 0 gives all scores. In float32 alone, since narrow scores have many ties.
        attention: also give what rows attend to, as outputs `attention_LAYER_OPERATOR_WEIGHTS` [batch, x, a, heads].
        optimize: fold constants and join what is computed twice, without a change of any number; and rewrite a graph
            in float32, before it is quantised, for fewer passes over memory, which CPUs are faster with. See
            `peirce_export.onnx.optimizer`. Without it the graph is as torch.onnx wrote it.
        functions: write each part as a function, such as `peirce.folnet::trans`, that the layers call; runtimes inline
            it, and viewers show it as one node.
        external_above: bytes of weights above which they go into FILE.data beside the file.
        seed: of the random inputs that the file is verified with.
    """

    opset: int = field(default=DEFAULT_OPSET, validator=validators.in_(tuple(OPSETS)))
    precision: str | None = field(default=None, validator=validators.in_((None, *DTYPES, INT8, INT4)))
    quantisation: str = field(default=DYNAMIC, validator=validators.in_((DYNAMIC, WEIGHTS)))
    generate: bool = False
    top_k: int = field(default=0, validator=[validators.instance_of(int), validators.ge(0)])
    attention: bool = False
    optimize: bool = True
    functions: bool = False
    external_above: int = EXTERNAL_ABOVE
    seed: int = field(default=0, validator=[validators.instance_of(int), validators.ge(0)])

    def __attrs_post_init__(self) -> None:
        if self.quantisation != DYNAMIC and self.precision != INT8:
            raise ValueError(f"quantisation is of precision {INT8}, and the precision is {self.precision}")
        if sum(map(bool, (self.top_k, self.generate, self.attention))) > 1:
            raise ValueError("top_k, generate and attention exclude each other; give one of them")


class OnnxExporter(Exporter):
    """ONNX through torch.onnx, with every symbolic dim of the signature dynamic, verified by ONNX Runtime."""

    name = "onnx"
    source = "https://onnx.ai"
    Options = OnnxOptions
    suffix = ".onnx"

    options: OnnxOptions

    def export(self, model: Model, path: Path) -> Verification:
        """Write the model to `path` and verify it.

        The file appears under its name, with its data, only once it is verified. One that fails is kept in
        `FILE.rejected` to be examined, with the inputs it failed on; what was at `path` before stays.

        Raises:
            TaskError: the extra `onnx` is not installed.
            ExportError: torch.onnx cannot export the model.
            WriteError: the disk takes no more.
            NameMismatch, DtypeMismatch, DimMismatch, ValueMismatch: the file differs from the model.
        """
        return write_verified(path, "model.onnx", lambda fresh: self.graphs(model, fresh)[0])

    def read(self, path: Path, shell: Model) -> LoadedModel:
        """A file on the CPU, one in bfloat16 as a wider copy."""
        from peirce_export.onnx.content import Content
        from peirce_export.onnx.verifying import open_widened

        return open_widened(Content.read(path))

    def export_intermediate(
        self, model: Model, path: Path, *, for_cpus: bool = True
    ) -> tuple[Verification, list[Metadata]]:
        """As `graphs`, for files that another format is made from: one that fails is not kept."""
        try:
            return self.graphs(model, path, for_cpus=for_cpus)
        except Mismatch as fault:
            raise fault.with_message(
                f"{fault}\n`peirce export --to onnx` shows it and keeps the file"
            ) from fault

    def graphs(
        self, model: Model, path: Path, *, for_cpus: bool = True
    ) -> tuple[Verification, list[Metadata]]:
        """Write the files of a model to an empty folder and verify them; return the report and each file's metadata.

        Args:
            model, path: as for `export`.
            for_cpus: whether graphs are laid out as CPUs read them, where the option `optimize` is set.
        """
        require("export to ONNX", "onnx", "onnxscript", "onnxruntime", extra="peirce-export[onnx]")
        from peirce_export.onnx.functions import call_parts
        from peirce_export.onnx.quantising import quantise
        from peirce_export.onnx.verifying import OnnxGraph

        options = self.options
        integers = options.precision in (INT8, INT4)
        quantisation = WEIGHTS4 if options.precision == INT4 else options.quantisation
        precision: Precision = "float32"
        if not integers:
            precision = options.precision or precision_of(model)  # type: ignore[assignment]  # one of them
        reports, written = [], []
        with progress_spinner(f"exporting {path.name}") as say:
            for role in self._roles(precision):
                say(f"tracing {role}")
                view = exportable_for(role, model)
                graph = trace(
                    view, options.opset, precision,
                    simplify=options.optimize, for_cpus=options.optimize and for_cpus,
                )  # fmt: skip
                if integers:
                    say(f"quantising {role}")
                    graph = quantise(graph, quantisation)
                if options.functions:
                    origins = view.provenance["parts"].items()
                    call_parts(graph, {part: domain_of(origin["plugin"]) for part, origin in origins})
                say(f"writing {role}")
                content = write(graph, role_path(role, path), options.external_above)
                reports.append(verify(OnnxGraph(content), view, seed=options.seed, progress=say))
                written.append(content.metadata)
        return merge_reports(reports[::-1]), written[::-1]

    def _roles(self, precision: Precision) -> tuple[str, ...]:
        if self.options.generate:
            return GENERATING[::-1]  # the graph of a step first: the other one holds its digest
        if not self.options.top_k:
            return (ATTENTION if self.options.attention else MODEL,)
        if precision != "float32" or self.options.precision in (INT8, INT4):
            raise ExportError(
                f"top_k ranks in float32, and the file would be {self.options.precision or precision}, where many "
                "scores are equal; export in float32, or rank outside of the graph"
            )
        return (f"{TOP}{self.options.top_k}",)


def trace(
    model: Model | Exportable,
    opset: int,
    precision: Precision,
    *,
    simplify: bool = True,
    for_cpus: bool = False,
) -> ir.Model:
    """The ONNX graph of a model, with its metadata, its weights in memory.

    Args:
        model: the model, or what the file shows of it.
        opset, precision: of the file.
        simplify: whether constants are folded and what is computed twice is joined; see
            `peirce_export.onnx.optimizer.simplify`.
        for_cpus: whether a simplified graph in float32 is laid out as CPUs read it; see
            `peirce_export.onnx.optimizer.rewrite`.

    Raises:
        DimMismatch: the model fixes a dim that its signature declares symbolic.
        NameMismatch: the model does not give an output that its signature declares.
        ExportError: torch.onnx cannot export it.
    """
    from peirce_export.onnx import optimizer

    view = exportable_for(MODEL, model)
    twin: Exportable = cast_copy(view, DTYPES[precision])
    # torch cannot note anything in the nodes of a scan.
    recurrent = any(isinstance(module, RecurrentOperator) for module in twin.modules())
    noting = nullcontext if recurrent else record_parts
    try:
        with silence_warnings(), torch.no_grad(), constant_weights(twin), noting():
            program = torch.onnx.export(
                twin,
                twin.example_inputs(),
                dynamo=True,
                opset_version=min(opset, WRITTEN),
                dynamic_shapes=twin.dynamic_shapes(),
                verbose=False,
                optimize=False,  # onnxscript takes numbers that are nearly 0 or 1 for them, and drops them
            )
            assert program is not None
            graph = program.model
            (optimizer.simplify if simplify else optimizer.part_outputs)(graph)
    except Exception as error:  # torch.onnx raises many kinds, from any depth
        raise trace_error(error, twin.signature, "torch.onnx") from error
    for values, specs in (
        (graph.graph.inputs, twin.signature.inputs),
        (graph.graph.outputs, twin.signature.outputs),
    ):
        for value, spec in zip(values, specs, strict=True):
            value.name = spec.name
    _note_parts(graph, program.exported_program)
    _clip_to_max(graph)
    _bias_norms(graph)
    _renumber(graph, opset)
    _clean(graph)
    _note_scopes(graph)
    if simplify and for_cpus and precision == "float32":
        optimizer.rewrite(graph)
    _name_nodes(graph)
    packages = ("torch", "onnx", "onnxscript", "onnxruntime")
    metadata = metadata_of(view, precision, packages, (opset, graph.opset_imports[""]))
    graph.metadata_props.update(metadata.to_properties())
    return graph


def write(graph: ir.Model, path: Path, external_above: int = EXTERNAL_ABOVE) -> Content:
    """Write a graph with its digest; above `external_above` bytes its weights go into `path` + `.data`.

    If the graph of a step lies beside it, it belongs to this one.
    """
    import onnx_ir as ir

    from peirce_export.onnx.content import sign
    from peirce_export.onnx.optimizer import forget_weight_shapes

    forget_weight_shapes(graph)
    size = sum(value.const_value.nbytes for value in graph.graph.initializers.values() if value.const_value)
    data = f"{path.name}.data" if size > external_above else None
    ir.save(graph, path, external_data=data)
    return sign(path, [step for step in (step_of(path),) if step.is_file()])


def _note_parts(graph: ir.Model, program: torch.export.ExportedProgram | None) -> None:
    """Write into each node the part that made it, as tracing noted it."""
    nodes = () if program is None else program.graph.nodes
    makers = {node.name: (node.meta.get("custom") or {}).get(PART) for node in nodes}
    for node in graph.graph.all_nodes():
        name = node.metadata_props.get("pkg.torch.onnx.fx_node", "").partition(" ")[0].removeprefix("%")
        if maker := makers.get(name):
            node.metadata_props[PART] = maker


def _note_scopes(graph: ir.Model) -> None:
    """Write into each node the scope that viewers group it by, in the place of torch's list of modules and classes.

    A node that torch made of several says no module; it belongs to what made its first known input.
    """
    for node in graph.graph.all_nodes():
        *modules, _ = ["", *node.metadata_props.pop(SCOPE, "").split("/")]
        scope = scope_of(modules[-1].partition(": ")[0] if modules else "", node.metadata_props.get(PART, ""))
        makers = (value.producer() for value in node.inputs if value is not None)
        found = [scope, *(maker.metadata_props.get(SCOPE, "") for maker in makers if maker is not None)]
        if first := next(filter(None, found), ""):
            node.metadata_props[SCOPE] = first


def scope_of(module: str, part: str) -> str:
    """The scope of what a module made, such as `layers.0/operators.join` of `model.network.layers.0.mixing` in join.

    Args:
        module: its path below what is exported.
        part: the part that it was made by, as `peirce.parts.PART` notes it; empty where none says so.
    """
    whole = re.match(r"model\b\.?(network\b\.?)?", module)
    path = module[whole.end() :] if whole else ""
    if part:
        layer = re.match(r"(.*\.)?layers\.\d+", path)
        path = f"{layer[0] if layer else ''}.{part}"
    path = re.sub(r"\boperators\.\d+\.", "operators.", path)
    kinds = "operators|positions|augmenters|heads"
    return "/".join(re.findall(rf"(?:{kinds})\.[a-z]\w*|[a-z_]\w*(?:\.\d+)*", path))


def domain_of(plugin: str) -> str:
    """The domain of the functions of a plug-in's parts: `peirce.folnet` of `peirce-folnet:folnet`."""
    return ".".join(dict.fromkeys(re.split("[-:]", plugin)))


def _name_nodes(graph: ir.Model) -> None:
    """Begin the name of each node with its scope, for viewers that group by names, and for errors of runtimes."""
    for node in graph.graph.all_nodes():
        if scope := node.metadata_props.get(SCOPE):
            node.name = f"{scope}/{(node.name or node.op_type).removeprefix('node_')}"


def _clip_to_max(graph: ir.Model) -> None:
    """Write a Clip of integers that has a lower bound alone as a Max: OpenVINO 2026.4 makes it zeros throughout."""
    for node in graph.graph.all_nodes():
        if node.op_type == "Clip" and (len(node.inputs) == 2 or node.inputs[2] is None):
            value = node.inputs[0]
            if value is not None and value.dtype is not None and value.dtype.is_integer():
                node.op_type = "Max"
                node.resize_inputs(2)


def _bias_norms(graph: ir.Model) -> None:
    """Give a LayerNormalization without bias zeros: ONNX Runtime 1.31's optimiser of transformers reads one anyway."""
    import onnx_ir as ir

    zeros: dict[object, ir.Value] = {}
    for node in graph.graph.all_nodes():
        if node.op_type != "LayerNormalization" or len(node.inputs) > 2:
            continue
        scale = node.inputs[1]
        if scale is None or scale.dtype is None or scale.shape is None or not scale.shape.is_static():
            continue
        key = scale.dtype, scale.shape.numpy()
        if key not in zeros:
            array = np.zeros(scale.shape.numpy(), scale.dtype.numpy())
            tensor = ir.tensor(array, scale.dtype, name=f"zeros_of_norm_{len(zeros)}")
            zeros[key] = ir.val(tensor.name, const_value=tensor)
            graph.graph.register_initializer(zeros[key])
        node.resize_inputs(3)
        node.replace_input_with(2, zeros[key])


def _renumber(graph: ir.Model, opset: int) -> None:
    """State an opset that is newer than torch writes, where no operator of the graph has changed since.

    Raises:
        ExportError: an operator has changed.
    """
    import onnx

    if opset <= WRITTEN:
        return
    for kind in {node.op_type for node in graph.graph.all_nodes() if not node.domain}:
        if onnx.defs.get_schema(kind, opset).since_version > WRITTEN:
            raise ExportError(
                f"{kind} changed after opset {WRITTEN}, the last that torch.onnx writes; export with opset {WRITTEN}"
            )
    graph.opset_imports[""] = opset


def _clean(graph: ir.Model) -> None:
    """Drop the tracer's notes about the machine and its run, and name the weights as the model does."""
    graph.doc_string = None
    graph.graph.metadata_props.clear()
    for node in graph.graph.all_nodes():
        node.doc_string = None
        for key in [key for key in node.metadata_props if key.startswith("pkg.torch")]:
            del node.metadata_props[key]
    for value in list(graph.graph.initializers.values()):
        if value.name is not None and value.name.startswith("model."):
            value.name = value.name.removeprefix("model.")
