"""What commands and features need beside the core: packages and pictures, asked for before any work, and processes."""

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
    """Which folder breaks an import: one without code that is called as a package that an error names; None if none is.

    Python takes a folder such as `onnx` or `triton`, of exported files, for the package where that is not installed.
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
    return f"The folder {folder} stands in the place of the package {name}: rename it, or install the package"


PICTURES = (".svg", ".png", ".pdf")
"""Endings of files that pictures can have."""


def check_picture(path: Path, feature: str = "drawing", *, extra: str) -> None:
    """Refuse a file that no picture can be written to, before anything is computed for it.

    Args:
        path: where the picture would go.
        feature: what draws it, as `require` names it.
        extra: the extra that brings matplotlib.

    Raises:
        TaskError: its ending is none of `PICTURES`, its folder does not exist, or matplotlib is missing.
    """
    if path.suffix.lower() not in PICTURES:
        raise TaskError(f"{path} does not name a format of pictures; let it end in {', '.join(PICTURES)}")
    if not path.parent.is_dir():
        raise TaskError(f"folder {path.parent} does not exist; create it, or draw elsewhere")
    require(feature, "matplotlib", extra=extra)


_SAFE_PATH = "PYTHONSAFEPATH"
"""With this variable, Python looks for modules neither in the working directory nor beside a script."""


@contextmanager
def safe_path() -> Iterator[None]:
    """Processes of Python that are started within it import nothing from the working directory."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(_SAFE_PATH, None)
        if before is not None:
            os.environ[_SAFE_PATH] = before
