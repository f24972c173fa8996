"""Recipes: what is fixed and what is searched when a model is fine-tuned, as TOML files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from attrs import field, frozen, validators

from peirce.errors import SpecError, TaskError, unknown
from peirce.files import parse_toml, read_text
from peirce.spec import Locations, structure

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

    def suits(self, settings: Mapping[str, Any]) -> bool:
        """Whether the grid is meant for these settings."""
        return all(settings.get(key) in values for key, values in self.only.items())


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

    @property
    def falls(self) -> bool:
        """Whether a lower value of the metric is a better one."""
        return self.metric.endswith(("loss", "perplexity"))


def ready_recipes() -> Mapping[str, Path]:
    """The recipes that ship with Peirce, by name."""
    folder = Path(str(resources.files(__package__))) / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_recipe(name: str | Path) -> Recipe:
    """Read a recipe.

    Args:
        name: a path if it ends in `.toml` or has a separator, else the name of a ready recipe.

    Raises:
        TaskError: there is no such recipe, or it is not valid.
    """
    text, ready = str(name), ready_recipes()
    if not text.endswith(".toml") and "/" not in text and "\\" not in text:
        if text not in ready:
            raise TaskError(unknown("recipe", text, ready))
        name = ready[text]
    path = Path(name)
    try:
        table = parse_toml(read_text(path))
        found = table.get("format", FORMAT)
        if isinstance(found, int) and found > FORMAT:
            raise TaskError(
                f"recipe {path}: format {found} is newer than {FORMAT}, the newest that this version of Peirce reads; "
                "upgrade peirce"
            )
        recipe = structure(Recipe, table, where=Locations(source=str(path)), path=(), label="key of a recipe")
    except OSError as error:
        raise TaskError(f"recipe {path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise TaskError(f"recipe {path} is no TOML: {error}") from error
    except SpecError as error:
        raise TaskError(f"recipe {error}") from error
    for key in (*recipe.settings, *(key for grid in recipe.grid for key in (*grid.values, *grid.only))):
        if not key.startswith(("task.", "train.", "model.")):
            raise TaskError(
                f"recipe {path}: {key!r} is no setting; settings are task.KEY, train.KEY and model.KEY, in quotes"
            )
    return recipe


def recipe_of(task: str) -> tuple[str, Recipe]:
    """The name of a task's own recipe, and the recipe; where it has none, one without a name and without a search."""
    for name, path in ready_recipes().items():
        recipe = load_recipe(path)
        if recipe.task == task and recipe.default:
            return name, recipe
    return "", Recipe(task=task)
