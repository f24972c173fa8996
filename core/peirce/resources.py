"""Where the registry.toml that ships with Peirce lies, and which version this is.

A wheel holds `registry.toml` inside the package; an editable install finds it at the root of the repository.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent


def packaged_registry() -> Path:
    """The registry.toml that is in force when no other is found."""
    inside = _PACKAGE / "registry.toml"
    return inside if inside.exists() else _PACKAGE.parents[1] / "registry.toml"


def __getattr__(name: str) -> Any:
    # Reading the version opens a file, which `import peirce` and `peirce --help` can do without.
    if name == "__version__":
        try:
            return version("peirce")
        except PackageNotFoundError:
            return "0+unknown"
    raise AttributeError(f"module 'peirce.resources' has no attribute {name!r}")
