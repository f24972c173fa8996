"""Specs by name: the ready ones that plug-ins announce, and the reader that knows them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peirce.errors import RegistryError, SpecError
from peirce.registry.registry import Catalogue, default_catalogue
from peirce.spec import Spec, read_spec


def load_spec(
    path_or_name: str | os.PathLike[str],
    overrides: Mapping[str, Any] | None = None,
    registry: Catalogue | None = None,
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


def ready_spec(name: str, registry: Catalogue | None = None) -> Path:
    """The file of a ready spec.

    Raises:
        SpecError: there is none; the message lists the nearest names.
        RegistryError: two plug-ins own one name.
    """
    catalogue = registry or default_catalogue()
    try:
        return catalogue.entry("specs", name).part
    except RegistryError as error:
        raise SpecError(str(error)) from None


def ready_specs(registry: Catalogue | None = None) -> dict[str, Path]:
    """The files of the ready specs by name, sorted."""
    return {entry.name: entry.part for entry in (registry or default_catalogue()).entries("specs")}
