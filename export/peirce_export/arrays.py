"""Arrays by name in .npz files: written whole or not at all, read without pickle."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peirce.errors import InputError


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Write arrays to a .npz file, whole or not at all; `path` keeps the suffix that it has."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **dict(arrays))  # type: ignore[arg-type]  # numpy types its own keyword beside them
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file.

    Raises:
        InputError: the file is missing, is no .npz file, or holds Python objects.
    """
    if not path.is_file():
        raise InputError(f"{path} is not a file; write one with numpy.savez(FILE, input_ids=..., ...)")
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise InputError(
                    f"{path} holds one array without a name; write it with numpy.savez, by input name"
                )
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read as a .npz file of plain arrays: {error}") from error


def _umask() -> int:
    """The process's umask, which temporary files do not follow."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
