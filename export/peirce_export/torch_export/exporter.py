"""The exporter that `--to torch_export` names: a program of torch.export, or what AOTInductor compiles of one."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any, Literal

import torch
from attrs import field, frozen, validators
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from peirce.errors import ExportError
from peirce.kernels import constant_weights
from peirce.model import MODEL, Exportable, Exporter, Model
from peirce_export.casting import DTYPES, cast_copy, precision_of
from peirce_export.failures import trace_error
from peirce_export.placement import write_verified
from peirce_export.report import Verification, merge_reports, progress_spinner
from peirce_export.roles import GENERATING, exportable_for, metadata_of, role_path
from peirce_export.torch_export.archive import TORCH, Archive, seal
from peirce_export.torch_export.program import ProgramFile
from peirce_export.torch_export.verifying import ProgramGraph
from peirce_export.verification import verify

_NOTED = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node", "custom")
"""What the tracer notes of the machine and its run."""
_ASSERTIONS = (torch.ops.aten._assert_scalar.default, torch.ops.aten._assert_tensor_metadata.default)


@frozen(kw_only=True)
class TorchExportOptions:
    """Options of the torch.export exporter.

    Args:
        precision: float32, float16 or bfloat16; None keeps the model's own. Norms and softmaxes stay float32.
        generate: write two files for a model that generates: FILE, which also gives the cached state of what it read,
            and FILE with `.step` before its suffix, which adds a token; `peirce.Session.generate` runs them.
        aot_inductor: the C++ compiler, such as g++, with which AOTInductor makes a package for this machine's kind of
            CPU in place of a program; None writes the program, which any machine runs.
        seed: of the random inputs that the file is verified with.
    """

    precision: Literal["float32", "float16", "bfloat16"] | None = field(
        default=None, validator=validators.in_((None, *DTYPES))
    )
    generate: bool = False
    aot_inductor: str | None = None
    seed: int = 0


class TorchExportExporter(Exporter):
    """torch.export, with every symbolic dim of the signature dynamic, verified by running the file."""

    name = "torch_export"
    source = "https://docs.pytorch.org/docs/stable/export.html"
    Options = TorchExportOptions
    suffix = ".pt2"

    options: TorchExportOptions

    def export(self, model: Model, path: Path) -> Verification:
        """Write the model to `path` and verify it.

        The file appears under its name only once it is verified. One that fails is kept in `FILE.rejected`.

        Raises:
            ExportError: torch.export cannot export the model, or there is no such compiler.
            WriteError: the disk takes no more.
            NameMismatch, DtypeMismatch, DimMismatch, ValueMismatch: the file differs from the model.
        """
        return write_verified(path, "model.pt2", lambda fresh: self._files(model, fresh))

    def read(self, path: Path, shell: Model) -> ProgramFile:
        """A file, with whatever code is in it, which this exporter wrote."""
        return ProgramFile(Archive.read(path))

    def _files(self, model: Model, path: Path) -> Verification:
        options, reports = self.options, []
        compiler = options.aot_inductor
        if compiler is not None and shutil.which(compiler) is None:
            raise ExportError(
                f"there is no C++ compiler {compiler!r} here, which AOTInductor needs; install it (on Debian `apt "
                "install g++`), name another with --aot-inductor, or leave the option out for a program"
            )
        precision = options.precision or precision_of(model)
        with progress_spinner(f"exporting {path.name}") as say:
            # The file of a step first: the other one holds its digest.
            for role in GENERATING[::-1] if options.generate else (MODEL,):
                say(f"tracing {role}")
                view = exportable_for(role, model)
                program = trace(view, DTYPES[precision])
                say(f"writing {role}")
                written = path.with_name("model.pt2")  # torch takes no other suffix
                if compiler is None:
                    torch.export.save(program, written)
                else:
                    _compile(program, written, compiler)
                os.replace(written, file := role_path(role, path))
                archive = seal(file, metadata_of(view, precision, ["torch"]))
                graph = ProgramGraph(archive)
                reports.append(verify(graph, view, seed=options.seed, providers=(TORCH,), progress=say))
        return merge_reports(reports[::-1])


def trace(model: Model | Exportable, dtype: torch.dtype) -> ExportedProgram:
    """The program of a model in a dtype: its fused weights constant, without what it does not read.

    Raises:
        DimMismatch: the model fixes a dim that its signature declares symbolic.
        NameMismatch: the model does not give an output that its signature declares.
        ExportError: torch.export cannot export it.
    """
    twin: Exportable = cast_copy(exportable_for(MODEL, model), dtype)
    try:
        with torch.no_grad(), constant_weights(twin):
            program = torch.export.export(
                twin,
                twin.example_inputs(),
                dynamic_shapes=twin.dynamic_shapes(),
                # Of sizes it cannot prove that length <= length * length.
                prefer_deferred_runtime_asserts_over_guards=True,
            )
    except Exception as error:  # torch.export raises many kinds, from any depth
        raise trace_error(error, twin.signature, "torch.export") from error
    _drop_unread(program)
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            _clean(module)
    return program


def _clean(module: torch.fx.GraphModule) -> None:
    """Drop what the tracer notes of the machine, and what it asserts of sizes, such as that there are several rows.

    It asserts what it assumed where it chose between equal ways to compute. The ranges of symbolic dims are not among
    that, and verification runs the sizes.
    """
    for node in list(module.graph.nodes):
        for noted in _NOTED:
            node.meta.pop(noted, None)
        if node.target in _ASSERTIONS:
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    module.recompile()


def _drop_unread(program: ExportedProgram) -> None:
    """Leave out weights that nothing reads, such as those that were folded into others."""
    unread = {node.name: node for node in program.graph.nodes if node.op == "placeholder" and not node.users}
    remaining = []
    for spec in program.graph_signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and spec.arg.name in unread:
            program.graph.erase_node(unread[spec.arg.name])
        else:
            remaining.append(spec)
    program.graph_signature.input_specs[:] = remaining
    read = {spec.target for spec in remaining}
    for tensors in (program.state_dict, program.constants):
        for name in [name for name in tensors if name not in read]:
            del tensors[name]


def _compile(program: ExportedProgram, path: Path, compiler: str) -> None:
    """Have AOTInductor compile a program and package it."""
    configs: dict[str, Any] = {"cpp.cxx": (None, compiler)}
    try:
        with warnings.catch_warnings():
            # torch 2.13.0 uses its own deprecated parts while it compiles.
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=FutureWarning)
            torch._inductor.aoti_compile_and_package(
                program, package_path=str(path), inductor_configs=configs
            )
    except Exception as error:  # of the compiler, and of all stages before it
        message = " ".join(str(error).split())[:2000]
        raise ExportError(
            f"AOTInductor could not compile the model with {compiler}: {message}; leave --aot-inductor out for a "
            "program"
        ) from error
