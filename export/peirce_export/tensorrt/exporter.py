"""The exporter that `--to tensorrt` names: a verified ONNX file, then an engine for each of its graphs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attrs import evolve

from peirce.errors import ExportError
from peirce.files import digest_of, explain_disk_errors, scratch_folder
from peirce.model import MODEL, Exporter, Model
from peirce.parts import Signature
from peirce_export.casting import precision_of
from peirce_export.metadata import Precision
from peirce_export.onnx.exporter import OnnxExporter
from peirce_export.placement import check_place
from peirce_export.report import Verification, progress_spinner
from peirce_export.roles import GENERATING, exportable_for, role_path
from peirce_export.tensorrt.backends import Backend, backend, has_gpu
from peirce_export.tensorrt.building import FLAGS, TensorRTOptions, build, read_timing_cache
from peirce_export.tensorrt.header import Header, move_engines
from peirce_export.tensorrt.profiles import Profile, profiles
from peirce_export.tensorrt.verifying import computed_in
from peirce_export.verification import TF32, TOLERANCES

TURING = "7.5"
NO_RUN = "The figures above are of the ONNX file in between. The engine was not run: `peirce verify` runs it, on a GPU."


class TensorRTExporter(Exporter):
    """TensorRT engines, through the verified ONNX export, with profiles from the signature."""

    name = "tensorrt"
    source = "https://docs.nvidia.com/deeplearning/tensorrt"
    Options = TensorRTOptions
    suffix = ".engine"

    options: TensorRTOptions

    def export(self, model: Model, path: Path) -> Verification:
        """Write an engine to `path` and its header to `path` + `.json`.

        Both appear under their names once they are complete; what was there before stays until then.

        Raises:
            ExportError: TensorRT is not installed, or cannot build the model.
            WriteError: the disk takes no more.
            NotTaken: TensorRT does not take the graph; the error names parts and nodes.
            Mismatch: the ONNX file differs from the model.
            InputError: a profile does not fit the signature.
        """
        path = check_place(path, "model.engine")
        found, options = backend(self.options.backend), self.options
        capabilities = self._capabilities(found, precision_of(model))
        self._check_backend(found)
        if options.timing_cache is not None:
            read_timing_cache(Path(options.timing_cache))
        signatures = [
            exportable_for(role, model).signature for role in (GENERATING if options.generate else (MODEL,))
        ]
        ranges_of = [_profiles(signature, options.profile, signatures) for signature in signatures]
        with explain_disk_errors(str(path)), scratch_folder(path) as place:
            graphs, engines = place / "graphs", place / "engines"
            graphs.mkdir(parents=True)
            engines.mkdir()
            onnx = graphs / f"{path.stem}.onnx"
            report, described = OnnxExporter(options.onnx()).export_intermediate(model, onnx, for_cpus=False)
            notes = [*report.notes, NO_RUN]
            target = ", ".join(capabilities) or "this GPU"
            with progress_spinner(f"building {path.name}") as say:
                for metadata, ranges in zip(described, ranges_of, strict=True):
                    graph, engine = (role_path(metadata.role, file) for file in (onnx, engines / path.name))
                    say(f"building {engine.name} for {target}")
                    built = build(graph, metadata.signature, ranges, found, options, capabilities)
                    engine.write_bytes(built.plan)
                    Header(
                        metadata=metadata,
                        backend=found.name,
                        tensorrt=found.version,
                        capabilities=capabilities,
                        profiles=ranges,
                        layers=built.layers,
                        seconds=built.seconds,
                        size=len(built.plan),
                        sha256=digest_of(engine),
                        onnx=digest_of(graph),
                        flags={name: getattr(options, name) for name in FLAGS},
                    ).write(engine)
                    sizes = "; ".join(", ".join(f"{dim}={r}" for dim, r in each.items()) for each in ranges)
                    notes.append(
                        f"{engine.name}: {len(built.plan) / 1e6:,.0f} MB, {built.layers} layers, built in "
                        f"{built.seconds} s by {found.name} {found.version} for {target}; profiles {sizes} "
                        "(min:opt:max)."
                    )
            kept = graphs.iterdir() if options.keep_onnx or options.strip_plan else ()
            move_engines([*kept, *engines.iterdir()], path.parent)
        kind = computed_in(report.precision, options.tf32)
        precision = TF32 if kind == TF32 else report.precision
        return evolve(
            report, file=path, notes=tuple(notes), precision=precision, tolerance=TOLERANCES[kind][0]
        )

    def _check_backend(self, found: Backend) -> None:
        """Refuse now what TensorRT would refuse only after the export, and without a reason."""
        options = self.options
        if found.name == "rtx" and options.version_compatible:
            raise ExportError(
                "TensorRT for RTX comes without the lean runtime that version_compatible needs; leave it out, or use "
                "--backend tensorrt"
            )
        if (options.refit or options.strip_plan) and not has_gpu():
            raise ExportError(
                "TensorRT builds engines for refit and strip_plan on a machine with a GPU alone; run the same command "
                "there, or leave them out"
            )

    def _capabilities(self, found: Backend, precision: Precision) -> tuple[str, ...]:
        wanted = self.options.compute_capability
        if found.name != "rtx":
            if wanted:
                raise ExportError(
                    "the backend 'tensorrt' builds for the machine's own GPU; leave --compute-capability out, or use "
                    "--backend rtx"
                )
            return ()
        capabilities = tuple(dict.fromkeys(map(found.parse_capability, wanted)))
        if TURING in capabilities and (self.options.precision or precision) != "float16":
            raise ExportError(
                f"compute capability {TURING} (Turing) multiplies in float16 alone; add --precision float16, or leave "
                "it out"
            )
        return capabilities or tuple(each for each in found.capabilities() if each != TURING)


def _profiles(signature: Signature, texts: Iterable[str], both: Iterable[Signature]) -> tuple[Profile, ...]:
    """The profiles of one graph; of the two graphs of generation, each takes the dims that it has."""
    others = {symbol for each in both for symbol in each.symbols} - set(signature.symbols)
    parts = [part for text in texts for part in text.split(",")]
    return profiles(signature, [part for part in parts if part.partition("=")[0].strip() not in others])
