"""The plug-in `text_to_text`: registers the task. Torch is loaded when the registry asks for it, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peirce.hookspecs import hookimpl

if TYPE_CHECKING:
    from peirce.components import Task


@hookimpl
def register_tasks() -> list[type[Task]]:
    """Writing a target from a source."""
    from peirce_plugins.tasks.text_to_text.task import TextToText

    return [TextToText]
