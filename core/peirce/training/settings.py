"""Every setting that `--set` takes for a training, with its default and meaning, for listings and the documentation."""

from __future__ import annotations

from typing import Any

from peirce.model import AnyTask
from peirce.parts import fields
from peirce.training.options import PREFIX_TASK, PREFIX_TRAIN, TrainingOptions


def settings(task: type[AnyTask] | None = None) -> list[dict[str, Any]]:
    """The settings of a training and of a task: `name`, `type`, `meaning`, and `default` where there is one."""
    classes: list[tuple[str, type[Any]]] = [(PREFIX_TRAIN, TrainingOptions)]
    if task is not None:
        classes.append((PREFIX_TASK, task.Options))
    return [
        {**setting, "name": f"{prefix}.{setting['name']}"}
        for prefix, cls in classes
        for setting in fields(cls)
    ]


def rows(task: type[AnyTask] | None = None) -> list[tuple[str, str, str]]:
    """The same as rows of text: name, default, meaning."""
    return [
        (one["name"], "required" if one["required"] else _shown(one["default"]), one["meaning"])
        for one in settings(task)
    ]


def _shown(default: Any) -> str:
    """A default as `--set` takes it."""
    if default is None or default == "":
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, list | tuple):
        return "[" + ", ".join(f'"{item}"' if isinstance(item, str) else str(item) for item in default) + "]"
    return str(default)
