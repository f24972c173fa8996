"""The plug-in `zeroshot`: registers the task. Torch is loaded when the registry asks for it, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peirce.hookspecs import hookimpl

if TYPE_CHECKING:
    from peirce.components import Task


@hookimpl
def register_tasks() -> list[type[Task]]:
    """Classes by label words."""
    from peirce_plugins.tasks.zeroshot.task import ZeroShot

    return [ZeroShot]
