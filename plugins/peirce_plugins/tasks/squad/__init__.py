"""SQuAD: questions whose answers are spans of a text, or which the text does not answer."""

from peirce_plugins.tasks.squad.plugin import register_tasks

__all__ = ["register_tasks"]
