"""The plug-in `pretraining`: registers the task, which is loaded when the registry asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peirce.hookspecs import hookimpl

if TYPE_CHECKING:
    from peirce.components import Task


@hookimpl
def register_tasks() -> list[type[Task]]:
    """Language models from plain text."""
    from peirce_plugins.tasks.pretraining.task import Pretraining

    return [Pretraining]
