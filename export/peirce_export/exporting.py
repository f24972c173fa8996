"""Export and verification: the exporter is found by its name, the runtime by the suffix of the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from peirce.compose import read_model
from peirce.errors import ExportError, InputError, ModelFileError, check_known, one_line
from peirce.extras import shadowing_folder
from peirce.files import explain_disk_errors, hold_lock
from peirce.model import PROVENANCE, SPEC, Report
from peirce.registry import Registry, default_registry, ready_specs
from peirce_export.folder import verify_folder
from peirce_export.runtimes import Progress, find_runtime

if TYPE_CHECKING:
    from peirce.model import Model


def export(
    model: Model | str | os.PathLike[str],
    *,
    path: str | os.PathLike[str],
    to: str = "onnx",
    registry: Registry | None = None,
    **options: Any,
) -> Report:
    """Write a model in another format and verify what was written.

    Args:
        model: the model to write, as it is or as DistributedDataParallel and `torch.compile` wrap it; the directory of
            a saved one; or a spec (a `.toml` path or a ready name), whose model has random weights of seed 0.
        path: the file to write, or the folder to add to.
        to: the exporter's name; `peirce list exporters` shows those there are.
        registry: where to look for the exporter and the model's parts; the default registry when absent.
        options: options of the exporter; `peirce describe NAME` shows them.

    Returns:
        The exporter's report.

    Raises:
        RegistryError: no exporter has that name.
        ExportError: the exporter has no such option, the export failed, or what was written does not match.
        ModelFileError, SpecError: the directory or the spec cannot be used.
        InputError: what was given is no model, or its weights are sharded over processes.
        BusyError: another process exports to the file.
        WriteError: the disk is full or read-only.
    """
    registry = registry or default_registry()
    part = registry.get("exporters", to)
    known = [field.alias or field.name for field in attrs.fields(part.Options) if field.init]
    for name in options:
        check_known(f"option of exporter {to!r}", name, known, ExportError)
    try:
        chosen = part.Options(**options)
    except (TypeError, ValueError) as error:
        message = error.args[0] if error.args else error  # errors of attrs have more arguments
        raise ExportError(f"exporter {to!r} cannot use these options: {message}") from error
    path = Path(path)
    named = not part.suffix or path.suffix.lower() == part.suffix
    if part.writes == "file" and not named and not path.is_dir():
        raise ExportError(
            f"{path}: what exporter {to!r} writes must end in {part.suffix}, by which it is opened again; name it so"
        )
    with explain_disk_errors(str(path)), ExitStack() as lock:
        fits = path.is_dir() if part.writes == "folder" else path.is_file()
        # The exporter itself refuses a path that nothing can be written to.
        if path.parent.is_dir() and (fits or not path.exists()):
            try:
                lock.enter_context(hold_lock(path, folder=False))
            except OSError as error:
                raise ExportError(f"{path} cannot be written: {error}; write elsewhere") from error
        unwrapped = _read_or_unwrap(model, registry)
        try:
            report = part(chosen).export(unwrapped, path)
        except Exception as error:
            if (cause := shadowing_folder(error)) is None:
                raise
            raise ExportError(f"{one_line(error)}. {cause}") from error
    if not isinstance(report, Report):
        raise ExportError(
            f"exporter {to!r} wrote {path} and returned a {type(report).__name__}; it must return a "
            "peirce.model.Report, such as Report(file=path, passed=True, notes=())"
        )
    return report


def verify(
    file: str | os.PathLike[str],
    model: Model | str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    providers: Sequence[str] | None = None,
    progress: Progress | None = None,
    registry: Registry | None = None,
) -> Report:
    """Verify an exported file against its model, with the runtime of its suffix, or a saved model against its digests.

    Args:
        file: the exported file, or the directory of a saved model.
        model: the model, the directory of a saved one, or a spec, as for `export`; the file's own directory if None.
        seed: of the random inputs.
        providers: what computes, in the runtime's own names; None takes the CPU where there is a choice.
        progress: called with a few words before each step.
        registry: where to look for the model's parts; the default registry when absent.

    Returns:
        What was measured.

    Raises:
        ExportError: the file differs from the model.
        ModelFileError: the file or the model is missing, damaged or foreign, or no runtime knows the suffix.
    """
    file = Path(file)
    if file.is_dir():
        if model is not None:
            raise InputError(
                f"{file} is a saved model, which is checked against its digests; leave out the model"
            )
        return verify_folder(file)
    runtime = find_runtime(file)
    if model is None:
        model = file.parent
        if not (model / "spec.toml").is_file():
            raise ModelFileError(
                f"{model} has no saved model to verify {file.name} against; name one with --model MODEL"
            )
    return runtime.verify(
        file, _read_or_unwrap(model, registry), seed=seed, providers=providers, progress=progress
    )


def _read_or_unwrap(model: Any, registry: Registry | None) -> Model:
    """The model that a user names or gives, which torch may have wrapped, as in DistributedDataParallel."""
    if isinstance(model, str | os.PathLike):
        return read_model(model, registry)
    from peirce.model import unwrap  # it needs torch

    return unwrap(model)


def exported_file(source: str | os.PathLike[str]) -> Path:
    """The `model.onnx` in the folder of a trained model.

    Raises:
        ModelFileError: the file is missing; the message says how to make it.
    """
    folder, file = Path(source), Path(source, "model.onnx")
    if not folder.is_dir():
        name = os.fspath(source)
        if folder.suffix == ".toml" or name in ready_specs():
            raise ModelFileError(
                f"{name} is a spec, and has no trained weights; `peirce train {name} -o DIR` trains it, and "
                "`peirce export DIR -o DIR/model.onnx` exports it; then give DIR"
            )
        raise ModelFileError(f"there is no folder {name}; `peirce train SPEC -o {name}` writes one")
    if missing := [name for name in (SPEC, PROVENANCE) if not (folder / name).is_file()]:
        raise ModelFileError(
            f"{folder} has no {', '.join(missing)}; `peirce train SPEC -o DIR` writes a model"
        )
    if not file.is_file():
        raise ModelFileError(f"{folder} has no {file.name}; `peirce export {folder} -o {file}` writes it")
    return file
