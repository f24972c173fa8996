"""The class that a plug-in announces by a name, imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from peirce.errors import RegistryError
from peirce.registry.file import singular
from peirce.registry.foreign import ForeignError, in_a_line, run_foreign
from peirce.registry.registry import Catalogue, default_catalogue


def class_named(kind: str, name: str, base: type[Any], registry: Catalogue | None = None) -> type[Any]:
    """The class that a name of a kind stands for.

    Args:
        kind: what is announced as `MODULE:CLASS`, such as `pipelines` and `parsers`.
        name: as the plug-in's hook gives it.
        base: what the class must be a subclass of.
        registry: where to look; what is installed and active if None.

    Raises:
        RegistryError: there is none, its module is not there, or it is no subclass of `base`, or not a whole one.
    """
    entry = (registry or default_catalogue()).entry(kind, name)
    target = entry.part
    what = f"the {singular(kind)} {name!r} of {entry.plugin}, {target},"
    module, _, attribute = target.partition(":")
    try:
        found: Any = run_foreign(lambda: getattr(import_module(module), attribute))
    except ForeignError as error:
        cause = error.__cause__ or error
        raise RegistryError(f"{what} cannot be imported: {in_a_line(cause)}") from cause
    if not (isinstance(found, type) and issubclass(found, base)):
        package = base.__module__.partition(".")[0]
        raise RegistryError(f"{what} is no {base.__name__} of {package}; upgrade its distribution")
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise RegistryError(f"{what} does not define {', '.join(missing)}; upgrade its distribution")
    return found
