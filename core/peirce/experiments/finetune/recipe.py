"""Recipes: what is fixed and what is searched when a model is fine-tuned, as TOML files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from attrs import field, frozen, validators

from peirce.errors import TaskError, unknown
from peirce.spec import is_path, read_document, structure

FORMAT = 1
"""The newest format of recipes that this version reads."""

Value = int | float | str | bool


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

    format: int = FORMAT
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
    """Read a recipe.

    Args:
        name: a path if it ends in `.toml` or has a separator, else the name of a ready recipe.

    Raises:
        TaskError: there is no such recipe, or its format is newer.
        SpecError: it is not valid.
    """
    ready = ready_recipes()
    if not is_path(name) and name not in ready:
        raise TaskError(unknown("recipe", name, ready))
    path = ready.get(name, Path(name))
    document = read_document(path, "recipe")
    found = document.data.get("format")
    if isinstance(found, int) and found > FORMAT:
        raise TaskError(
            f"recipe {path}: format {found} is newer than {FORMAT}, the newest that this version of Peirce reads; "
            "upgrade peirce"
        )
    return structure(Recipe, document.data, where=document.at, label="key of a recipe")


def recipe_of(task: str) -> tuple[str, Recipe]:
    """The name of a task's own recipe, and the recipe; where it has none, one without a name and without a search."""
    for name in ready_recipes():
        recipe = load_recipe(name)
        if recipe.task == task and recipe.default:
            return name, recipe
    return "", Recipe(task=task)
