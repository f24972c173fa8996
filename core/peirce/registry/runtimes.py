"""Which class opens an exported file: the runtimes that plug-ins announce, by the file's suffix."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from peirce.errors import RegistryError, unknown
from peirce.model import Runtime
from peirce.registry.registry import Catalogue, default_catalogue

GROUP = "peirce.runtimes"


def runtime_of(path: str | os.PathLike[str], registry: Catalogue | None = None) -> type[Runtime]:
    """The runtime of a file, by its suffix; no part is imported, and torch only if the runtime needs it.

    A distribution announces one in the entry-point group `peirce.runtimes`, a plug-in by `register_runtimes`.

    Args:
        path: the file, which need not exist.
        registry: the only place where runtimes are looked up; what is installed and active if None.

    Raises:
        RegistryError: there is no runtime for such files, its module is not there, or it is no `Runtime`.
    """
    suffix = Path(path).suffix.removeprefix(".").lower()
    announced = {entry.name: entry.value for entry in entry_points(group=GROUP)} if registry is None else {}
    if suffix in announced:
        target = announced[suffix]
    else:
        catalogue = registry or default_catalogue()
        known = {*announced, *catalogue.names("runtimes")}
        if suffix not in known:
            raise RegistryError(unknown("suffix of a file to run", suffix, known))
        target = catalogue.entry("runtimes", suffix).part
    module, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise RegistryError(
            f"the runtime of .{suffix} files, {target}, cannot be imported: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Runtime)):
        raise RegistryError(
            f"the runtime of .{suffix} files, {target}, is no peirce.model.Runtime; upgrade its distribution"
        )
    return found
