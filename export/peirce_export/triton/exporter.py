"""The exporter that `--to triton` names: verified files, as a new version of models in a Triton repository."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from peirce.errors import ExportError, PeirceError, UnavailableError
from peirce.files import explain_disk_errors, read_bytes, scratch_folder
from peirce.model import ASSETS, PROVENANCE, SPEC, WEIGHTS, Exporter, Model, saved_files
from peirce.registry import default_catalogue
from peirce_export.metadata import Metadata, step_of
from peirce_export.onnx.exporter import OnnxExporter, OnnxOptions
from peirce_export.pipelines import Pipeline, inputs_without_a_field, pipelines_for
from peirce_export.report import Verification
from peirce_export.roles import role_path
from peirce_export.runtimes import LoadedModel
from peirce_export.session import Session
from peirce_export.triton import repository
from peirce_export.triton.batching import has_rows, rows_are_independent
from peirce_export.triton.calls import FRONT, Front
from peirce_export.triton.config import (
    CONFIG,
    FILES,
    MASK,
    WARMUP,
    TritonOptions,
    config_text,
    labels_file,
    mask_bytes,
    messages,
    pipeline_config,
    tensor_config,
)

RECORD = "training.json"
"""What a training writes beside its model; a pipeline may go by it."""
NO_QUESTIONS = "No model takes whole questions: it was saved without what they need."
NO_INPUT = "No model takes whole questions: they have no field for {}, which the model needs."
NO_STEP = (
    "No model takes whole questions: this one writes its answers token by token; export it with --generate."
)
NO_BFLOAT16 = "No model takes whole questions: numpy has no bfloat16."
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
_PROGRAM = """# What Triton's Python backend loads; `pip install 'peirce-export[run]'` in its Python.
from peirce_export.triton.backend import {name} as TritonPythonModel  # noqa: F401
"""


@frozen(kw_only=True)
class _Graph:
    """One file that is served: the ONNX file, what the server opens, and what it is."""

    onnx: Path
    file: Path
    metadata: Metadata
    most: int | None = None
    profiles: int = 1


class TritonExporter(Exporter):
    """A Triton repository, through the verified ONNX export: each export adds a version."""

    name = "triton"
    source = "https://docs.nvidia.com/deeplearning/triton-inference-server"
    Options = TritonOptions
    suffix = ".onnx"
    writes = "folder"

    options: TritonOptions

    def export(self, model: Model, path: Path) -> Verification:
        """Add a version of the model to the repository at `path`, which is made if it is not there.

        Raises:
            ExportError: Triton's messages are not installed, the repository holds another model of that name, or a
                model in front of it that this export would not renew, or the model cannot be exported.
            WriteError: the disk takes no more.
            Mismatch: the ONNX file differs from the model.
        """
        path, name = Path(path), self.options.name or model.spec.name
        messages()
        if not _NAME.fullmatch(name):
            raise ExportError(
                f"{name!r} cannot name a served model, whose name has letters, digits, `_`, `-` and `.`; "
                "give another with --name"
            )
        if path.exists() and not path.is_dir():
            raise ExportError(f"{path} is not a folder, and a repository is one; give another path")
        if not path.parent.is_dir():
            raise ExportError(f"folder {path.parent} does not exist; create it, or write elsewhere")
        try:
            with explain_disk_errors(str(path)), scratch_folder(path) as place:
                report, graphs = self._graphs(model, place)
                notes = list(report.notes)
                new, names = place / "new", [name, f"{name}_step"][: len(graphs)]
                fronts = self._fronts(model, graphs, names, notes)
                every = [*names, *(f"{name}_{each}" for each in fronts)]
                version = repository.next_version(path, every)
                configs: dict[str, Any] = {}
                for one, graph in zip(names, graphs, strict=True):
                    labels = _labels(fronts, graph) if one == name else {}
                    configs[one] = self._tensors(one, graph, new / one, version, labels, bool(fronts), notes)
                for each, pipeline in fronts.items():
                    front = Front(
                        pipeline=each,
                        model=name,
                        metadata=graphs[0].metadata,
                        step=(names[1], graphs[1].metadata) if len(graphs) > 1 else None,
                        batched=configs[name].max_batch_size > 0,
                    )
                    config = self._pipeline(model, front, type(pipeline), new / f"{name}_{each}", version)
                    configs[f"{name}_{each}"] = config
                repository.check(path, configs)
                repository.check_fronts(path, name, every)
                repository.add(new, path, version, every)
        except OSError as error:
            raise ExportError(f"{path} cannot be written: {error}; write elsewhere") from error
        notes.append(f"Version {version} of {', '.join(every)}.")
        return evolve(report, file=path, notes=tuple(notes))

    def read(self, path: Path, shell: Model) -> LoadedModel:
        """A file that is served, as `--to onnx` reads it."""
        return OnnxExporter(OnnxOptions()).read(path, shell)

    def _graphs(self, model: Model, place: Path) -> tuple[Verification, list[_Graph]]:
        """The files to serve, verified: one, or two for a model that generates."""
        folder, options = place / "files", self.options
        folder.mkdir()
        if options.kind == "tensorrt":
            return self._engines(model, folder)
        onnx = folder / "model.onnx"
        report, described = OnnxExporter(options.onnx()).export_intermediate(model, onnx)
        files = [role_path(metadata.role, onnx) for metadata in described]
        return report, [_Graph(onnx=f, file=f, metadata=m) for f, m in zip(files, described, strict=True)]

    def _engines(self, model: Model, folder: Path) -> tuple[Verification, list[_Graph]]:
        from peirce_export.tensorrt.backends import has_gpu, is_installed
        from peirce_export.tensorrt.building import TensorRTOptions
        from peirce_export.tensorrt.exporter import TensorRTExporter
        from peirce_export.tensorrt.header import Header

        if not (is_installed("tensorrt") and has_gpu()):
            lacks = "no GPU that CUDA sees" if is_installed("tensorrt") else "no TensorRT"
            raise UnavailableError(
                f"--kind tensorrt builds an engine on the GPU that will run it, and this machine has {lacks}; run the "
                "same command there, after `pip install 'peirce[tensorrt]'`, or serve the ONNX file on that GPU with "
                "--kind onnxruntime --device gpu"
            )
        options, engine = self.options, folder / "model.engine"
        through = TensorRTOptions(
            backend="tensorrt",  # Triton runs no engines of TensorRT for RTX
            profile=options.profile,
            opset=options.opset,
            precision=options.precision,
            generate=options.generate,
            keep_onnx=True,
            seed=options.seed,
        )
        report = TensorRTExporter(through).export(model, engine)
        graphs = []
        for file in [engine, step_of(engine)] if options.generate else [engine]:
            header = Header.read(file)
            first = str(header.metadata.signature.inputs[0].dims[0])
            graphs.append(
                _Graph(
                    onnx=file.with_suffix(".onnx"),
                    file=file,
                    metadata=header.metadata,
                    most=max(
                        (sizes[first].most for sizes in header.profiles if first in sizes), default=None
                    ),
                    profiles=len(header.profiles),
                )
            )
        return report, graphs

    def _fronts(
        self, model: Model, graphs: Sequence[_Graph], names: Sequence[str], notes: list[str]
    ) -> dict[str, Pipeline]:
        """The pipelines that fit the model, by name, each tried with its own example on the ONNX file."""
        if not self.options.questions:
            return {}
        if graphs[0].metadata.precision == "bfloat16":
            notes.append(NO_BFLOAT16)
            return {}
        if (folder := model.folder) is None:
            notes.append(NO_QUESTIONS)
            return {}
        found: dict[str, Pipeline] = {}
        with saved_files(folder, without=(WEIGHTS,)) as files:
            assets = files.assets
        signature = graphs[0].metadata.signature
        fitting = pipelines_for(signature, assets, self.options.generate)
        for each, kind in fitting.items():
            try:
                with Session(graphs[0].onnx) as session:
                    pipeline, answers = kind(folder, session), list[Mapping[str, Any]]()
                    pipeline.ask(pipeline.example(), answers.append)
            except PeirceError as error:
                raise ExportError(
                    f"{names[0]}_{each} cannot answer with this model: {error}. Leave it out with --no-questions"
                ) from error
            wrong = {name for one in answers for name in one} ^ {one.name for one in kind.answer}
            if wrong:
                entry = default_catalogue().entry("pipelines", each)
                raise ExportError(
                    f"the pipeline {each!r} does not answer as it declares: {', '.join(sorted(wrong))}; upgrade "
                    f"{entry.distribution or entry.plugin}"
                )
            found[each] = pipeline
        if not found:
            unasked = ", ".join(inputs_without_a_field(signature, assets, True))
            reason = NO_INPUT.format(unasked) if unasked else NO_QUESTIONS
            notes.append(NO_STEP if pipelines_for(signature, assets, True) else reason)
        return found

    def _tensors(
        self,
        name: str,
        graph: _Graph,
        folder: Path,
        version: int,
        labels: Mapping[str, Sequence[str]],
        has_fronts: bool,
        notes: list[str],
    ) -> Any:
        """Write one version of a model of tensors; return its configuration."""
        options, signature = self.options, graph.metadata.signature
        batch = options.max_batch if graph.most is None else min(options.max_batch, graph.most)
        if batch and not self._is_batchable(graph):
            batch = 0
            notes.append(
                f"{name} is not batched: its rows depend on each other, or not every tensor has rows."
            )
        # A pipeline in front calls the version that it was exported with, until its own next version is ready.
        serving = evolve(options, max_batch=batch, versions=options.versions + has_fronts)
        config = tensor_config(name, graph.metadata, serving, labels, graph.profiles)
        place = folder / str(version)
        place.mkdir(parents=True)
        self._place(graph, place)
        if mask := mask_bytes(signature):
            (folder / WARMUP).mkdir()
            (folder / WARMUP / MASK).write_bytes(mask)
        for output, texts in labels.items():
            (folder / labels_file(output)).write_text(
                "".join(f"{text}\n" for text in texts), encoding="utf-8"
            )
        if options.kind == "onnxruntime":
            config.default_model_filename = graph.file.name
        return _write_config(folder, config)

    def _is_batchable(self, graph: _Graph) -> bool:
        if not has_rows(graph.metadata.signature):
            return False
        if graph.metadata.precision == "bfloat16":  # ONNX Runtime's CPU provider runs none
            return True
        with Session(graph.onnx, providers=["CPUExecutionProvider"]) as session:
            return rows_are_independent(session, graph.metadata.precision, self.options.seed)

    def _place(self, graph: _Graph, place: Path) -> None:
        """Put the file of a version into its folder, with what belongs to it."""
        if self.options.kind == "tensorrt":
            os.replace(graph.file, place / FILES["tensorrt"])
            return
        if self.options.kind == "python":
            if graph.metadata.precision == "bfloat16":
                raise ExportError(
                    "the kind python has no bfloat16, which numpy lacks; use --kind onnxruntime, or another --precision"
                )
            _write_program(place, "TensorModel")
        for file in graph.file.parent.glob(f"{graph.file.name}*"):
            shutil.copy2(file, place / file.name)

    def _pipeline(self, model: Model, front: Front, kind: type[Pipeline], folder: Path, version: int) -> Any:
        """Write one version of a pipeline; return its configuration."""
        place = folder / str(version)
        place.mkdir(parents=True)
        _write_program(place, "PipelineModel")
        front.write(place / FRONT)
        assert model.folder is not None
        with saved_files(model.folder, without=(WEIGHTS,)) as files:
            for name in (SPEC, *(f"{ASSETS}/{asset}" for asset in files.assets)):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(files.read(name))
            (place / PROVENANCE).write_text(json.dumps(files.provenance), encoding="utf-8")
        if (model.folder / RECORD).is_file():
            (place / RECORD).write_bytes(read_bytes(model.folder / RECORD, text=True))
        return _write_config(folder, pipeline_config(folder.name, kind, self.options))


def _labels(fronts: Mapping[str, Pipeline], graph: _Graph) -> dict[str, Sequence[str]]:
    """The names of what outputs score, where there are as many as the last dim and each is one line."""
    found: dict[str, Sequence[str]] = {}
    for pipeline in fronts.values():
        for output, names in pipeline.labels().items():
            dim = graph.metadata.signature.output(output).dims[-1]
            if dim == len(names) and not any(set(name) & set("\r\n") for name in names):
                found[output] = names
    return found


def _write_program(place: Path, name: str) -> None:
    (place / FILES["python"]).write_text(_PROGRAM.format(name=name), encoding="utf-8")


def _write_config(folder: Path, config: Any) -> Any:
    """Write a configuration and return it."""
    (folder / CONFIG).write_text(config_text(config), encoding="utf-8")
    return config
