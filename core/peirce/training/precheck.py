"""Mistakes in a spec that no data can put right, found before the data are prepared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from peirce.errors import PlanError, RegistryError, unknown
from peirce.registry import Registry
from peirce.spec import HIDDEN, Spec, rest_field, toml_key


def precheck(spec: Spec, registry: Registry) -> None:
    """Refuse a spec with a part that is not registered, or with an option or a size that its part does not have.

    Values are not checked: those that the task's data determine are not known yet. The spec is resolved in full
    when they are.

    Raises:
        PlanError: every such mistake, with its place and the nearest valid name.
    """
    if problems := list(_problems(spec, registry)):
        raise PlanError("\n".join(problems))


def _problems(spec: Spec, registry: Registry) -> Iterator[str]:
    try:
        architecture = registry.get("architectures", spec.architecture)
    except RegistryError as error:
        yield f"{spec.at('model.architecture')}: {error}"
    else:
        label = f"dimension of architecture {architecture.name!r}"
        yield from _unknown_keys(spec, architecture.Dims, spec.dims, "model.dims", label)
        label = f"option of architecture {architecture.name!r}"
        yield from _unknown_keys(spec, architecture.Options, spec.options, "model.options", label)
    for kind, name, options, path in _named(spec):
        try:
            part = registry.get(kind, name)
        except RegistryError as error:
            yield f"{spec.at(path)}: {error}"
            continue
        label = f"option of {kind.removesuffix('s')} {part.name!r}"
        yield from _unknown_keys(spec, part.Options, options, path, label)


def _named(spec: Spec) -> Iterator[tuple[str, str, Mapping[str, Any], str]]:
    """Each part that a spec names: its kind, name and options, and its place."""
    layer = spec.operators.layer
    for i, operator in enumerate(layer if isinstance(layer, tuple) else ()):
        yield "operators", operator.use, operator.options, f"model.operators.layer.{i}"
    for name, options in spec.operators.options.items():
        yield "operators", name, options, f"model.operators.options.{name}"
    for kind in ("positions", "augmenters", "heads"):
        for i, entry in enumerate(getattr(spec, kind)):
            yield kind, entry.use, entry.options, f"model.{kind}.{i}"


def _unknown_keys(
    spec: Spec, cls: type[Any], given: Mapping[str, Any], path: str, label: str
) -> Iterator[str]:
    if rest_field(cls) is not None:
        return
    known = [toml_key(field) for field in attrs.fields(cls) if not field.metadata.get(HIDDEN)]
    for key in given:
        if key not in known:
            yield f"{spec.at(f'{path}.{key}')}: {unknown(label, key, known)}"
