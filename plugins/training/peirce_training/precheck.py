"""Mistakes in a spec that no data can put right, found before the data are prepared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from peirce.errors import PlanError, RegistryError, unknown
from peirce.registry import Registry
from peirce.spec import HIDDEN, LayerSpec, OperatorsSpec, Spec, rest_field, toml_key


def precheck(spec: Spec, registry: Registry) -> None:
    """Refuse a spec with a part that is not registered, or with an option or a size that its part does not have.

    Values are not checked: those that the task's data determine are not known yet. The spec is resolved in full
    when they are.

    Raises:
        PlanError: every such mistake, with its place and the nearest valid name.
    """
    problems: list[str] = []
    for kind, name, given, path in _named(spec):
        try:
            part = registry.get(kind, name)
        except RegistryError as error:
            at = f"{path}.architecture" if kind == "architectures" else path
            problems.append(f"{spec.at(at)}: {error}")
            continue
        given = part.todays(given)
        label = f"option of {kind.removesuffix('s')} {part.name!r}"
        sets = {path: (part.Options, given, label)}
        if kind == "architectures":
            dims = f"dimension of architecture {part.name!r}"
            sets = {
                f"{path}.dims": (part.Dims, spec.dims, dims),
                f"{path}.options": (part.Options, given, label),
            }
        for place, (cls, options, what) in sets.items():
            known = [toml_key(field) for field in attrs.fields(cls) if not field.metadata.get(HIDDEN)]
            wrong = () if rest_field(cls) is not None else (key for key in options if key not in known)
            problems += [f"{spec.at(f'{place}.{key}')}: {unknown(what, key, known)}" for key in wrong]
    if problems:
        raise PlanError("\n".join(problems))


def _named(spec: Spec) -> Iterator[tuple[str, str, Mapping[str, Any], str]]:
    """Each part that a spec names: its kind, name and options, and its place."""
    yield "architectures", spec.architecture, spec.options, "model"
    groups: dict[str, OperatorsSpec | LayerSpec] = {"model.operators": spec.operators}
    groups |= {f"model.operators.layers.{i}": group for i, group in enumerate(spec.operators.layers)}
    for path, group in groups.items():
        for key in ("layer", "state"):
            said = getattr(group, key)  # a text names operators in more ways than one
            for i, each in enumerate(said if isinstance(said, tuple) else ()):
                name, options = (each, {}) if isinstance(each, str) else (each.use, each.options)
                yield "operators", name, options, f"{path}.{key}.{i}"
        for name, options in group.options.items():
            yield "operators", name, options, f"{path}.options.{name}"
    for kind in ("positions", "augmenters", "heads"):
        for i, entry in enumerate(getattr(spec, kind)):
            yield kind, entry.use, entry.options, f"model.{kind}.{i}"
