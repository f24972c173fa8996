"""Which class opens an exported file: the runtimes that plug-ins announce, by the file's suffix."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

from peirce.errors import RegistryError, unknown
from peirce.model import Runtime
from peirce.registry.discovery import installed_plugins, switched_off
from peirce.registry.distributions import announcements
from peirce.registry.file import find_registry_file
from peirce.registry.foreign import ForeignError, in_a_line, run_foreign
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
    off: dict[str, tuple[str, ...]] = {}
    targets: dict[str, str] = {}
    if registry is None:
        file, installed = find_registry_file(), installed_plugins()
        for entry in announcements(GROUP):
            if plugins := switched_off(entry, file, installed):
                off[entry.name] = plugins
            else:
                targets[entry.name] = entry.target
    if suffix in targets:
        target = targets[suffix]
    else:
        catalogue = registry or default_catalogue()
        known = {*targets, *catalogue.names("runtimes")}
        if suffix in off and suffix not in known:
            raise RegistryError(
                f"the runtime of .{suffix} files belongs to {' and '.join(off[suffix])}, which is switched off; "
                f"`peirce plugins enable {off[suffix][0]}` switches it on"
            )
        if suffix not in known:
            raise RegistryError(unknown("suffix of a file to run", suffix, known))
        target = catalogue.entry("runtimes", suffix).part
    module, _, attribute = target.partition(":")
    try:
        found = run_foreign(lambda: getattr(import_module(module), attribute))
    except ForeignError as error:
        cause = error.__cause__ or error
        said = cause if isinstance(cause, ImportError | AttributeError) else in_a_line(cause)
        raise RegistryError(
            f"the runtime of .{suffix} files, {target}, cannot be imported: {said}"
        ) from cause
    if not (isinstance(found, type) and issubclass(found, Runtime)):
        raise RegistryError(
            f"the runtime of .{suffix} files, {target}, is no peirce.model.Runtime; upgrade its distribution"
        )
    return found
