"""Where the files that ship with Peirce lie, and which version this is.

A wheel holds `registry.toml` and `specs/` inside the package; an editable install finds them at the root of
the repository.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent


def packaged_registry() -> Path:
    """The registry.toml that is in force when no other is found."""
    return _packaged("registry.toml")


def packaged_specs() -> Path:
    """The folder of the ready specs."""
    return _packaged("specs")


def _packaged(name: str) -> Path:
    inside = _PACKAGE / name
    return inside if inside.exists() else _PACKAGE.parents[1] / name


def __getattr__(name: str) -> Any:
    # Reading the version opens a file, which `import peirce` and `peirce --help` can do without.
    if name == "__version__":
        try:
            return version("peirce")
        except PackageNotFoundError:
            return "0+unknown"
    raise AttributeError(f"module 'peirce.resources' has no attribute {name!r}")
