"""Which class opens an exported file: the runtimes that plug-ins announce, by the file's suffix."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from peirce.errors import RegistryError
from peirce.registry.registry import Catalogue, default_catalogue


def runtime_of(path: str | os.PathLike[str], registry: Catalogue | None = None) -> type[Any]:
    """The class that opens a file, by its suffix; no part is imported, and torch only if the runtime needs it.

    Args:
        path: the file, which need not exist.
        registry: where runtimes are looked up; what is installed and active if None.

    Raises:
        RegistryError: no plug-in has a runtime for such files, or the runtime's module is not there.
    """
    suffix = Path(path).suffix
    found = (registry or default_catalogue()).entry("runtimes", suffix.removeprefix(".").lower())
    module, _, attribute = found.part.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise RegistryError(
            f"the runtime of {suffix} files, {found.part} of {found.plugin}, cannot be imported: {error}"
        ) from error
