"""Checks that a command makes before it works: installed packages and picture files; and a safe path for processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from peirce.errors import TaskError


def require(feature: str, *packages: str, extra: str, instead: str = "") -> None:
    """Refuse to go on without packages of an extra.

    Args:
        feature: the command or feature that needs them, in the singular, such as `--engine ray`.
        packages: the names that are imported.
        extra: the extra of `peirce` that brings them, or a whole requirement, such as `peirce-text[train]`.
        instead: what else the user can do, such as `give a folder`.

    Raises:
        TaskError: names those that are missing, what needs them, and how to install them.
    """
    if missing := [name for name in packages if find_spec(name) is None]:
        requirement = extra if "[" in extra else f"peirce[{extra}]"
        raise TaskError(
            f"{feature} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed; "
            f"run `pip install '{requirement}'`" + (instead and f" or {instead}")
        )


def shadowing_folder(error: BaseException) -> str | None:
    """A sentence about a folder that hides a package of the same name, if an import error comes from that; else None.

    Where a package such as `onnx` is not installed, Python imports a folder of exported files with that name instead.
    """
    name = ""
    if isinstance(error, ImportError):
        name = (error.name or "").partition(".")[0]
    elif isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        name = error.obj.__name__
    spec = find_spec(name) if name else None
    if spec is None or spec.origin is not None or not spec.submodule_search_locations:
        return None if error.__cause__ is None else shadowing_folder(error.__cause__)
    folder = next(iter(spec.submodule_search_locations))
    return f"The folder {folder} hides the package {name}: rename the folder, or install the package"


PICTURES = (".svg", ".png", ".pdf")
"""The endings of picture files."""


def check_picture(path: Path, feature: str = "drawing", *, extra: str) -> None:
    """Refuse a file that no picture can be written to, before anything is computed for it.

    Args:
        path: where the picture would go.
        feature: what draws it, as `require` names it.
        extra: the extra that brings matplotlib.

    Raises:
        TaskError: its ending is not one of `PICTURES`, its folder does not exist, or matplotlib is missing.
    """
    if path.suffix.lower() not in PICTURES:
        raise TaskError(f"{path} is not the name of a picture; use one of the endings {', '.join(PICTURES)}")
    if not path.parent.is_dir():
        raise TaskError(f"folder {path.parent} does not exist; create it, or draw elsewhere")
    require(feature, "matplotlib", extra=extra)


_SAFE_PATH = "PYTHONSAFEPATH"
"""With this variable, Python looks for modules neither in the working directory nor beside a script."""


@contextmanager
def safe_path() -> Iterator[None]:
    """Let Python processes that start within the block import nothing from the working directory."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(_SAFE_PATH, None)
        if before is not None:
            os.environ[_SAFE_PATH] = before
