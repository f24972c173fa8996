"""Look-ups of ready specs and of classes that plug-ins announce; a class is imported when it is looked up."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from peirce.errors import RegistryError, SpecError, check_known, one_line
from peirce.registry.entry_points import announcements
from peirce.registry.file import singular
from peirce.registry.importing import import_target
from peirce.registry.registry import Registry, default_catalogue
from peirce.spec import RECIPE, Spec, read_spec

_log = logging.getLogger("peirce")


def load_spec(
    path_or_name: str | os.PathLike[str],
    overrides: Mapping[str, Any] | None = None,
    registry: Registry | None = None,
) -> Spec:
    """Read a spec from a file, or a ready spec by its name.

    Args:
        path_or_name: a path if it ends in `.toml` or has a separator, else the name of a ready spec.
        overrides: values to change, by dotted key, before the spec is checked.
        registry: where ready specs are looked up; what is installed and active if None. A path that extends no ready
            spec loads no plug-in.

    Raises:
        SpecError: there is no such file or ready spec, or it is not valid.
        RegistryError: a ready spec is asked for, and two plug-ins own one name.
    """
    return read_spec(path_or_name, overrides, ready=lambda name: ready_spec(name, registry))


def ready_spec(name: str, registry: Registry | None = None) -> Path:
    """The file of a ready spec.

    Raises:
        SpecError: there is none; the message lists the nearest names.
        RegistryError: two plug-ins own one name.
    """
    catalogue = registry or default_catalogue()
    try:
        return catalogue.entry("specs", name).part
    except RegistryError as error:
        bring = "" if catalogue.names("specs") else "; `pip install peirce` brings some"
        raise SpecError(f"{error}{bring}") from None


def ready_specs(registry: Registry | None = None) -> dict[str, Path]:
    """The files of the ready specs by name, sorted."""
    return {entry.name: entry.part for entry in (registry or default_catalogue()).entries("specs")}


def no_recipe(name: str, data: Mapping[str, Any] | None = None) -> str | None:
    """The message for a spec that is given where a recipe belongs; None for anything else.

    Args:
        name: the path or the name that was given.
        data: the content of the file; None where there is no file.
    """
    ready = data is None and name in default_catalogue().names("specs")
    if ready or (data is not None and "model" in data and not RECIPE & data.keys()):
        return f"{name} is a spec, not a recipe; `peirce train {name}` and other commands with SPEC take it"
    return None


def class_named(kind: str, name: str, base: type[Any], registry: Registry | None = None) -> type[Any]:
    """The class that a name of a kind stands for.

    Args:
        kind: what is announced as `MODULE:CLASS`, such as `pipelines` and `parsers`.
        name: as the plug-in's hook gives it.
        base: what the class must be a subclass of.
        registry: where to look; what is installed and active if None.

    Raises:
        RegistryError: there is no such name, its module cannot be imported, or it is not a concrete subclass of `base`.
    """
    entry = (registry or default_catalogue()).entry(kind, name)
    return _import_class(entry.part, base, f"the {singular(kind)} {name!r} of {entry.plugin}")


def fitting_classes(
    kind: str, base: type[Any], fits: Callable[[Any], bool], registry: Registry | None = None
) -> dict[str, type[Any]]:
    """The classes of a kind that fit, by name; a class that another fitting class extends is left out.

    A class that fails is reported and left out.

    Args:
        kind: what is announced as `MODULE:CLASS`, such as `pipelines`.
        base: what the classes must be subclasses of.
        fits: returns whether a class is wanted.
        registry: where to look; what is installed and active if None.
    """
    found: dict[str, type[Any]] = {}
    for entry in (registry or default_catalogue()).entries(kind):
        try:
            cls = class_named(kind, entry.name, base, registry)
            if fits(cls):
                found[entry.name] = cls
        except Exception as error:
            message = f"the {singular(kind)} {entry.name!r} of {entry.plugin} fails: {one_line(error)}"
            _log.warning("%s; it is not used", error if isinstance(error, RegistryError) else message)
    extended = {base for cls in found.values() for base in cls.__mro__[1:]}
    return {name: cls for name, cls in found.items() if cls not in extended}


def drawer_of(kind: str) -> Callable[[type[Any], Path], None]:
    """The function that draws a part of a kind into a file, from the entry-point group `peirce.pictures`.

    Args:
        kind: the kind, which is the entry point's name, such as `operators`.

    Raises:
        RegistryError: no installed distribution draws parts of that kind.
    """
    drawers = {entry.name: entry.target for entry in announcements("peirce.pictures")}
    check_known("kind of parts with a picture", kind, drawers, RegistryError)
    found: Callable[[type[Any], Path], None] = import_target(drawers[kind])
    return found


def _import_class(target: str, base: type[Any], what: str) -> type[Any]:
    """Import the class of a `module:attribute`, which must be a concrete subclass of a base."""
    try:
        found = import_target(target)
    except Exception as error:
        raise RegistryError(f"{what}, {target}, cannot be imported: {one_line(error)}") from error
    if not (isinstance(found, type) and issubclass(found, base)):
        lacks = f"is not a {base.__name__} of {base.__module__.partition('.')[0]}"
    elif missing := sorted(getattr(found, "__abstractmethods__", ())):
        lacks = f"does not define {', '.join(missing)}"
    else:
        return found
    raise RegistryError(f"{what}, {target}, {lacks}; upgrade its distribution")
