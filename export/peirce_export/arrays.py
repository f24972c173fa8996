"""Arrays by name in .npz files: written whole or not at all, read without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peirce.errors import InputError
from peirce.files import read_npz, replace_file


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Write arrays to a .npz file, whole or not at all; `path` keeps the suffix that it has."""
    # Written to an open file, since numpy would append .npz to another name.
    with replace_file(path) as fresh, fresh.open("wb") as file:
        np.savez(file, **dict(arrays))  # type: ignore[arg-type]  # numpy types its own keyword beside them
    return path


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file.

    Raises:
        InputError: the file is missing, is not a .npz file, or contains Python objects.
    """
    if not path.is_file():
        raise InputError(f"{path} is not a file; write one with numpy.savez(FILE, input_ids=..., ...)")
    try:
        return read_npz(path)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read as a .npz file: {error}; write it with numpy.savez, by input name"
        ) from error
