"""The doors out of the core: exporters, found in a registry, and the runtime, found by its entry point."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from peirce.errors import ExportError, ModelFileError, unknown
from peirce.spec import is_path

if TYPE_CHECKING:
    Session: Any
    from peirce.model import Model
    from peirce.registry import Registry


def export(
    model: Model | str | os.PathLike[str],
    *,
    path: str | os.PathLike[str],
    to: str = "onnx",
    registry: Registry | None = None,
    **options: Any,
) -> Any:
    """Write a model in another format and verify what was written.

    Args:
        model: the model to write, the directory of a saved one, or a spec (a `.toml` path or a ready name),
            whose model has random weights of seed 0.
        path: the file to write.
        to: the exporter's name; `peirce list exporters` shows those there are.
        registry: where to look for the exporter and the model's parts; the default registry when absent.
        options: options of the exporter; `peirce describe NAME` shows them.

    Returns:
        The exporter's report.

    Raises:
        RegistryError: no exporter has that name.
        ExportError: the exporter has no such option, the export failed, or what was written does not match.
        ModelFileError, SpecError: the directory or the spec cannot be used.
    """
    if registry is None:
        from peirce.registry import default_registry

        registry = default_registry()
    part = registry.get("exporters", to)
    known = [field.alias or field.name for field in attrs.fields(part.Options) if field.init]
    for name in options:
        if name not in known:
            raise ExportError(unknown(f"option of exporter {to!r}", name, known))
    try:
        chosen = part.Options(**options)
    except (TypeError, ValueError) as error:
        raise ExportError(f"exporter {to!r} cannot use these options: {error}") from error
    if isinstance(model, str | os.PathLike):
        model = read_model(model, registry)
    return part(chosen).export(model, Path(path))


def read_model(source: str | os.PathLike[str], registry: Registry | None = None) -> Model:
    """The model of a saved directory, or of a spec with random weights of seed 0.

    Args:
        source: a directory, a path that ends in `.toml`, or the name of a ready spec.
        registry: where to look for the model's parts; the default registry when it is absent.

    Raises:
        ModelFileError, SpecError: the directory or the spec cannot be used.
    """
    from peirce.compose.building import build
    from peirce.compose.loading import load

    if is_saved(source):
        return load(os.fspath(source), registry=registry)
    return build(os.fspath(source), seed=0, registry=registry)


def is_saved(source: str | os.PathLike[str]) -> bool:
    """Whether a model's source is a saved directory rather than a spec.

    Raises:
        ModelFileError: it is neither, but a path of something that is not there.
    """
    if Path(source).is_dir():
        return True
    if is_path(source) and Path(source).suffix != ".toml":
        raise ModelFileError(
            f"there is no saved model at {os.fspath(source)}; `Model.save` and `peirce train` write one. A spec is a "
            "path that ends in .toml, or the name of a ready spec"
        )
    return False


def __getattr__(name: str) -> Any:
    if name == "Session":
        return _session()
    raise AttributeError(f"module 'peirce.compose.exporting' has no attribute {name!r}")


def _session() -> Any:
    """The class that runs exported files: entry point `onnx` of the group `peirce.runtimes`."""
    announced = sorted(entry_points(group="peirce.runtimes", name="onnx"), key=lambda entry: entry.value)
    if not announced:
        raise ExportError(
            "no runtime for ONNX files is installed: no distribution announces 'onnx' in the entry-point "
            "group 'peirce.runtimes'; reinstall peirce"
        )
    return announced[0].load()
