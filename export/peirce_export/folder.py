"""Verification of the folder of a saved model, without torch and without the parts: its files are checked against
their digests, and exported files in it against the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from peirce.errors import ModelFileError, PeirceError, RegistryError, SpecError
from peirce.files import read_text
from peirce.model import CONTENT, PROVENANCE, SPEC, WEIGHTS, Report, read_provenance, saved_files
from peirce.spec import Spec
from peirce_export.runtimes import Runtime, runtime_class

if TYPE_CHECKING:
    from rich.console import RenderableType

SCHEMA = "peirce.verify-folder/1"
OK, UNKNOWN, DAMAGED, STALE = "ok", "no digest", "damaged", "stale"


@frozen(kw_only=True)
class FolderReport(Report):
    """The report on a saved model's folder.

    Args:
        files: of each file its `bytes` and its `state`: `ok`, `no digest`, `damaged`, or `stale` for what was exported
            from another model.
    """

    files: Mapping[str, Mapping[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return {**Report.to_dict(self), "schema": SCHEMA, "files": self.files}

    def __rich__(self) -> RenderableType:
        """The report for a terminal."""
        from rich.console import Group
        from rich.text import Text

        colours = {OK: "green", UNKNOWN: "yellow", DAMAGED: "bold red", STALE: "bold red"}
        lines = [
            Text(f"{name}: ")
            .append(file["state"], colours[file["state"]])
            .append(f", {file['bytes']:,} bytes")
            for name, file in self.files.items()
        ]
        return Group(*lines, Report.__rich__(self))


def verify_folder(directory: Path) -> FolderReport:
    """Check each file of a saved model against its digest, and read what can be read without the model's parts.

    Raises:
        ModelFileError: there is no saved model.
    """
    try:
        with saved_files(directory, digests=False) as saved:
            wrong = {
                name: f"{name} is not what was saved: it does not match its digest"
                for name in saved.damaged()
            }
            sizes = {PROVENANCE: (directory / PROVENANCE).stat().st_size, **saved.sizes()}
            try:
                Spec.from_toml(saved.text(SPEC), source=SPEC)
            except (PeirceError, ValueError) as error:
                wrong.setdefault(SPEC, f"{SPEC} cannot be read: {error}")
    except ModelFileError as error:
        if not any((directory / name).exists() for name in (SPEC, WEIGHTS, PROVENANCE)):
            raise
        return FolderReport(file=directory, passed=False, notes=(str(error),), files={})
    known = UNKNOWN if saved.digests is None else OK
    files = {
        name: {"state": DAMAGED if name in wrong else known, "bytes": size} for name, size in sizes.items()
    }
    notes = [*wrong.values()]
    if wrong:
        notes.append("restore the damaged files from where the model was saved, or save the model again")
    elif saved.digests is None:
        notes.append("Peirce 0.1 saved this model, without digests; save it again to have them")
    for path in sorted(path for path in directory.iterdir() if path.is_file() and path.name not in files):
        if found := _exported_state(path):
            files[path.name] = {"state": found[0], "bytes": path.stat().st_size}
            notes += filter(None, [found[1]])
    passed = {OK, UNKNOWN} >= {str(file["state"]) for file in files.values()}
    return FolderReport(file=directory, passed=passed, notes=tuple(notes), files=files)


def _exported_state(path: Path) -> tuple[str, str] | None:
    """The state of another file in the folder and a note on it; None for a file that is not an exported one."""
    try:
        runtime = runtime_class(path)()
    except RegistryError:
        return None
    try:
        state = UNKNOWN if runtime.check(path) is None else OK
    except ModelFileError as error:
        return DAMAGED, str(error)
    try:
        if runtime.source(path) is None:
            return None
    except ModelFileError as error:
        return UNKNOWN, str(error)  # intact, and exported by another program
    message = staleness(path, runtime)
    return (STALE, message) if message else (state, "")


class StaleWarning(UserWarning):
    """An exported file lies beside a saved model that it was not exported from."""


def staleness(path: Path, runtime: Runtime) -> str | None:
    """How an exported file differs from the saved model in its folder; None if it does not, or nothing says so."""
    folder = path.parent
    if not (folder / PROVENANCE).is_file():
        return None
    try:
        recorded, source = read_provenance(folder).get(CONTENT), runtime.source(path)
        if source is None or None in (recorded, source.weights):
            return None
        differing = [] if source.weights == recorded else ["weights"]
        text = read_text(folder / SPEC)
        if Spec.from_toml(text, source=str(folder / SPEC)) != Spec.from_toml(source.spec, source=str(path)):
            differing.append("spec")
    except (ModelFileError, SpecError, OSError, ValueError):
        return None  # opening either reports what is wrong with it
    if not differing:
        return None
    return (
        f"{path} was exported from another model than the one in {folder}, with other {' and '.join(differing)}: "
        "the model was saved again since, or comes from elsewhere. Export it again with "
        f"`peirce export {folder} -o {path}`, or remove it"
    )
