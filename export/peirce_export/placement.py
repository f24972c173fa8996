"""Placing exported files: they get their names once they are verified, and those of a failed export are kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from attrs import evolve

from peirce.errors import ExportError
from peirce.files import explain_disk_errors, scratch_folder
from peirce.model import Report
from peirce_export.failures import Mismatch, ValueMismatch

ReportT = TypeVar("ReportT", bound=Report)


def check_place(path: Path, example: str) -> Path:
    """Refuse an impossible path before anything is traced; return it as a `Path`.

    Raises:
        ExportError: its folder does not exist, or it is a folder or a device.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise ExportError(f"folder {path.parent} does not exist; create it, or write elsewhere")
    if path.exists() and not path.is_file():
        # A directory cannot be replaced; a device, such as /dev/null, could be, and must not.
        raise ExportError(f"{path} is a directory or a device; name a file, such as {example}")
    return path


def write_verified(path: Path, example: str, write: Callable[[Path], ReportT]) -> ReportT:
    """Write and verify files in a folder of their own, then put them where they belong.

    They appear under their names only once they are verified. Those that fail are kept in `FILE.rejected` to be
    examined, with the inputs they failed on; what was at `path` before stays.

    Args:
        path: the file; others that belong to it lie beside it.
        example: a file's name, for errors.
        write: writes the files, of which the first is at the path that it is given, and verifies them.

    Raises:
        ExportError: the file cannot be written, or differs from its model.
        WriteError: the disk takes no more.
    """
    path = check_place(path, example)
    try:
        with explain_disk_errors(str(path)), scratch_folder(path) as place:
            folder = place / "new"
            folder.mkdir()
            try:
                report = write(folder / path.name)
            except Mismatch as fault:
                if not os.listdir(folder):
                    raise
                raise _keep_rejected(fault, folder, path) from fault
            # The file itself last, so that a new graph never lies beside old data.
            for name in sorted(os.listdir(folder), key=lambda name: name == path.name):
                os.replace(folder / name, path.with_name(name))
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error}; write elsewhere") from error
    return evolve(report, file=path)


def _keep_rejected(fault: Mismatch, folder: Path, path: Path) -> Mismatch:
    """The fault with the failed export moved to a name that stays."""
    place, number = path.with_name(f"{path.name}.rejected"), 2
    while place.exists():
        place, number = path.with_name(f"{path.name}.rejected-{number}"), number + 1
    os.replace(folder, place)
    message = str(fault).replace(str(folder), str(place))
    moved = fault.with_message(f"{message}\nThe file that failed is kept: {place / path.name}")
    moved.report = None if fault.report is None else evolve(fault.report, file=place / path.name)
    if isinstance(fault, ValueMismatch) and isinstance(moved, ValueMismatch) and fault.inputs is not None:
        moved.inputs = place / fault.inputs.name
    return moved
