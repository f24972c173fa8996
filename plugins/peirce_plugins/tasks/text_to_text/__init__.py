"""Pairs of texts: of a source a model learns to write the target."""

from peirce_plugins.tasks.text_to_text.plugin import register_tasks

__all__ = ["register_tasks"]
