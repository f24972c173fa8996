"""Recipes, TOML files: what is fixed and what is searched when a model is fine-tuned; and the points of a search."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from attrs import field, frozen, validators

from peirce.errors import TaskError
from peirce_training import RECIPE_FORMAT, make_task, plain_options, read_recipe, settings_by_part

Value = int | float | str | bool
Settings = Mapping[str, Any]
"""Values by dotted key: `task.KEY`, `train.KEY`, `model.KEY`."""
LONGEST_NAME = 120


@frozen(kw_only=True)
class Grid:
    """What is searched.

    Args:
        values: the values of each setting; every combination is a point.
        only: for which values of settings this grid is meant; for all when empty.
    """

    values: Mapping[str, tuple[Value, ...]] = field(factory=dict)
    only: Mapping[str, tuple[Value, ...]] = field(factory=dict)


@frozen(kw_only=True)
class Recipe:
    """How a model is fine-tuned. Keys of settings are `task.KEY`, `train.KEY` and `model.KEY`, as in `--set`.

    Args:
        task: the registered task.
        source: where the values come from.
        default: whether this is the task's recipe when none is named.
        split: what the runs are compared on.
        metric: by which metric; a loss or a perplexity should fall, anything else rise.
        seeds: the seeds of each point, of which the median counts.
        unaveraged: cases that do not count in the average over cases.
        settings: what is fixed.
        grid: what is searched: the first grid that suits a case.
    """

    format: int = RECIPE_FORMAT
    task: str
    source: str = ""
    default: bool = False
    split: str = "valid"
    metric: str = ""
    seeds: tuple[int, ...] = field(default=(0,), validator=validators.min_len(1))
    unaveraged: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(factory=dict)
    grid: tuple[Grid, ...] = ()


def ready_recipes() -> Mapping[str, Path]:
    """The recipes that ship with Peirce, by name."""
    folder = Path(str(resources.files(__package__))) / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_recipe(name: str) -> Recipe:
    """A recipe by its path or its ready name (`read_recipe`)."""
    return read_recipe(Recipe, name, ready_recipes())


def recipe_of(task: str) -> tuple[str, Recipe]:
    """The name of a task's own recipe, and the recipe; where it has none, one without a name and without a search."""
    for name in ready_recipes():
        recipe = load_recipe(name)
        if recipe.task == task and recipe.default:
            return name, recipe
    return "", Recipe(task=task)


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


Cases = Mapping[str, Sequence[Point]]
"""The points of each of several problems with a search each, by the name of its folder; of the only one by an empty
name."""


def cases(recipe: Recipe, given: Settings, each: tuple[str, Sequence[Any]] | None = None) -> Cases:
    """All that is to be run.

    Args:
        recipe: what is fixed and what is searched.
        given: settings that go before the recipe's. A list in place of a single value is searched.
        each: an option of the task and its values, a case each.

    Raises:
        TaskError: the task does not take an option, a case is given twice, or the recipe has no grid for one.
    """
    found: dict[str, Sequence[Point]] = {}
    for value in each[1] if each else (None,):
        base = {**recipe.settings, **given, **({each[0]: value} if each else {})}
        single = {key: value for key, value in base.items() if not isinstance(value, list)}
        options = plain_options(make_task(recipe.task, settings_by_part(single)[1]).options)
        known = {f"task.{name}": option for name, option in options.items()} | single
        axes = {key: values for key, values in _grid(recipe, known).items() if key not in given}
        for key, values in given.items():
            takes_lists = key.startswith("model.") or isinstance(known.get(key), list)
            if isinstance(values, list) and not takes_lists:
                if not values:
                    raise TaskError(
                        f"--set {key}: an empty list leaves nothing to search; give at least one value"
                    )
                axes[key] = values
        name = _folder_name(str(value)) if each else ""
        if name in found:
            raise TaskError(f"--each names {name!r} twice; leave one out")
        found[name] = list(_points(base, axes))
    return found


def _grid(recipe: Recipe, settings: Settings) -> Settings:
    """The values of each setting in the first grid that is meant for these settings."""
    for grid in recipe.grid:
        if all(settings.get(key) in values for key, values in grid.only.items()):
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
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination, strict=True))
        name = "_".join(f"{key.rpartition('.')[2]}-{value}" for key, value in values.items())
        yield Point(_folder_name(name) or "only", values, {**base, **values})


def _folder_name(name: str) -> str:
    """A name that a folder can have; a long one ends in a digest."""
    short = re.sub(r"[^A-Za-z0-9._+-]+", "-", name)
    if not name or (len(short) <= LONGEST_NAME and short.strip(".")):
        return short
    return f"{short[: LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def settings_text(settings: Settings) -> str:
    """Settings as one line."""
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in settings.items())
