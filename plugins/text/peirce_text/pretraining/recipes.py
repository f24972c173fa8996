"""Recipes: a spec, and how it is pretrained, in one file; those of the paper's Table 8 ship with the plug-in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen
from attrs.validators import ge, optional

from peirce.errors import TaskError
from peirce.spec import HIDDEN, is_path
from peirce_training import RECIPE_FORMAT, flatten, read_recipe

FOLDER = Path(__file__).parent / "recipes"


@frozen(kw_only=True)
class PretrainingRecipe:
    """How a model is pretrained.

    Args:
        name: the recipe's name, that of its file.
        spec: a ready spec's name, or the path of one, from the recipe's folder if it is relative.
        batch: the rows of one step, over all processes; None if `train.accumulate` says it.
        vocabulary: the entries of the tokenizer that is trained where none is given.
        model: keys of the spec to change; dotted once `load_recipe` has read them.
        task: options of the task.
        train: options of the training.
    """

    name: str = field(default="", metadata={HIDDEN: True})
    format: int = RECIPE_FORMAT
    spec: str
    batch: int | None = field(default=None, validator=optional(ge(1)))
    vocabulary: int = field(default=32768, validator=ge(1))
    model: Mapping[str, Any] = field(factory=dict)
    task: Mapping[str, Any] = field(factory=dict)
    train: Mapping[str, Any] = field(factory=dict)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the spec, of the task and of the training by dotted key."""
        parts = {"task": self.task, "train": self.train}
        return {
            **self.model,
            **{f"{part}.{key}": each for part in parts for key, each in parts[part].items()},
        }

    def accumulation(self, rows: int, processes: int) -> int | None:
        """How many batches of so many rows each process adds up in a step; None if the recipe has no `batch`.

        Raises:
            TaskError: they do not divide the recipe's batch.
        """
        if self.batch is None:
            return None
        if self.batch % (rows * processes):
            raise TaskError(
                f"recipe {self.name!r} has steps of {self.batch:,} rows, which batches of {rows} in "
                f"{processes} process{'es' if processes > 1 else ''} do not divide evenly; set task.batch_size to a "
                f"divisor of {self.batch / processes:g}, or train.accumulate to train with steps of another size"
            )
        return self.batch // (rows * processes)


def ready_recipes() -> dict[str, Path]:
    """The recipes that ship with Peirce, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def load_recipe(name: str) -> PretrainingRecipe:
    """A recipe by its path or its ready name (`read_recipe`)."""
    ready = ready_recipes()
    recipe, path = read_recipe(PretrainingRecipe, name, ready), ready.get(name, Path(name))
    spec = str(path.parent / recipe.spec) if is_path(recipe.spec) else recipe.spec
    model = flatten("model", recipe.model) if recipe.model else {}
    return evolve(recipe, name=path.stem, spec=spec, model=model)
