"""Recipes: a spec, and how it is pretrained, in one file; those of the paper's Table 8 ship with the plug-in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from peirce.errors import TaskError, unknown
from peirce.files import parse_toml, read_text
from peirce.registry import no_recipe
from peirce.spec import is_path

FORMAT = 1
FOLDER = Path(__file__).parent / "recipes"
_TABLES = ("model", "task", "train")
_KEYS = ("format", "spec", "batch", "vocabulary", *_TABLES)


@frozen(kw_only=True)
class PretrainingRecipe:
    """How a model is pretrained.

    Args:
        name: the recipe's name, that of its file.
        spec: a ready spec's name, or the path of one, from the recipe's folder if it is relative.
        batch: the rows of one step, over all processes; None if `train.accumulate` says it.
        vocabulary: the entries of the tokenizer that is trained where none is given.
        model: keys of the spec to change, dotted.
        task: options of the task.
        train: options of the training.
    """

    name: str
    spec: str
    batch: int | None = None
    vocabulary: int = 32768
    model: Mapping[str, Any] = field(factory=dict)
    task: Mapping[str, Any] = field(factory=dict)
    train: Mapping[str, Any] = field(factory=dict)

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


def load_recipe(path_or_name: str) -> PretrainingRecipe:
    """Read a recipe.

    Args:
        path_or_name: a path if it ends in `.toml` or has a separator, else the name of a ready recipe.

    Raises:
        TaskError: there is no such recipe, or it has a key that recipes do not have, or a value of the wrong kind.
    """
    if is_path(path_or_name):
        path = Path(path_or_name)
    else:
        ready = ready_recipes()
        if path_or_name not in ready:
            raise TaskError(
                no_recipe(path_or_name)
                or f"{unknown('recipe', path_or_name, ready)}. A path ends in .toml or has a separator"
            )
        path = ready[path_or_name]
    try:
        table = parse_toml(read_text(path))
    except (OSError, ValueError) as error:
        raise TaskError(f"recipe {path} cannot be read: {error}") from error
    if message := no_recipe(path_or_name, table):
        raise TaskError(message)
    for key in table:
        if key not in _KEYS:
            raise TaskError(f"recipe {path}: {unknown('key of recipes', key, _KEYS)}")
    wrong = [
        *(f"{key} must be a table" for key in _TABLES if not isinstance(table.get(key, {}), dict)),
        *(f"{key} must be a count" for key in ("batch", "vocabulary") if not _is_count(table.get(key, 1))),
        *(() if isinstance(table.get("spec"), str) else ("spec must be the name or the path of a spec",)),
        *(() if table.get("format") == FORMAT else (f"format must be {FORMAT}",)),
    ]
    if wrong:
        raise TaskError(f"recipe {path}: {'; '.join(wrong)}")
    spec = table["spec"]
    return PretrainingRecipe(
        name=path.stem,
        spec=str(path.parent / spec) if is_path(spec) else spec,
        batch=table.get("batch"),
        vocabulary=table.get("vocabulary", 32768),
        model=_flatten("model", table.get("model", {})),
        task=table.get("task", {}),
        train=table.get("train", {}),
    )


def _flatten(prefix: str, value: Any) -> dict[str, Any]:
    """The values of nested tables by dotted key."""
    if not isinstance(value, dict):
        return {prefix: value}
    return {name: each for key in value for name, each in _flatten(f"{prefix}.{key}", value[key]).items()}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
