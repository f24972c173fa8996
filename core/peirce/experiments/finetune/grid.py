"""The points of a search, case by case: settings by dotted key, each with a name that a folder can have."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from attrs import frozen

from peirce.errors import TaskError
from peirce.experiments.finetune.recipe import Recipe

Settings = Mapping[str, Any]
"""Values by dotted key: `task.KEY`, `train.KEY`, `model.KEY`."""

LONGEST_NAME = 120
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")


@frozen
class Point:
    """One point of a case's grid.

    Args:
        name: what its folder is called.
        values: the searched settings.
        settings: all settings, these included.
    """

    name: str
    values: Settings
    settings: Settings


@frozen
class Case:
    """One of several problems with a search each, or the only one.

    Args:
        name: what its folder is called; empty for the only one.
        points: its points.
    """

    name: str
    points: tuple[Point, ...]


def cases(
    recipe: Recipe, given: Settings, each: tuple[str, Sequence[Any]] | None, options: type[Any]
) -> list[Case]:
    """All that is to be run.

    Args:
        recipe: what is fixed and what is searched.
        given: settings that go before the recipe's. A list in place of a single value is searched.
        each: a setting and its values, a case each.
        options: the options of the task.

    Raises:
        TaskError: a case stands twice, or the recipe has no grid for one.
    """
    defaults = {f"task.{f.name}": f.default for f in attrs.fields(options)}
    found: dict[str, Case] = {}
    for value in each[1] if each else (None,):
        base = {**recipe.settings, **given, **({each[0]: value} if each else {})}
        axes = {key: own for key, own in _grid(recipe, {**defaults, **base}).items() if key not in given}
        for key, own in given.items():
            if isinstance(own, list) and _searched(key, options):
                if not own:
                    raise TaskError(
                        f"--set {key}: an empty list leaves nothing to search; give at least one value"
                    )
                axes[key] = own
        name = _safe(str(value)) if each else ""
        if name in found:
            raise TaskError(f"--each names {name!r} twice; leave one out")
        found[name] = Case(name, tuple(_points(base, axes)))
    return list(found.values())


def _grid(recipe: Recipe, settings: Settings) -> Mapping[str, Sequence[Any]]:
    for grid in recipe.grid:
        if grid.suits(settings):
            return grid.values
    wanted = [
        ", ".join(f"{key} is one of {', '.join(map(str, values))}" for key, values in grid.only.items())
        for grid in recipe.grid
    ]
    if wanted:
        raise TaskError(
            f"the recipe has no grid for these settings: it has one where {'; or '.join(wanted)}; set one of them"
        )
    return {}


def _points(base: Settings, axes: Mapping[str, Sequence[Any]]) -> Iterator[Point]:
    fixed = {key: value for key, value in base.items() if key not in axes}
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination, strict=True))
        parts = [f"{key.rpartition('.')[2]}-{value}" for key, value in values.items()]
        yield Point(_safe("_".join(parts)) or "only", values, {**fixed, **values})


def _searched(key: str, options: type[Any]) -> bool:
    """Whether a list of values for a setting means to try each, since the setting itself is no list."""
    prefix, _, name = key.partition(".")
    if prefix == "task" and name in attrs.fields_dict(options):
        return not isinstance(attrs.fields_dict(options)[name].default, tuple | list)
    return prefix == "train"


def _safe(name: str) -> str:
    """A name that a folder can have; a long one ends in a digest."""
    short = _UNSAFE.sub("-", name)
    if len(short) <= LONGEST_NAME and short.strip("."):
        return short
    return f"{short[: LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}" if name else ""


def shown(settings: Settings) -> str:
    """Settings as one line."""
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in settings.items())
