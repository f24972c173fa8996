"""Classes by the words that a masked language model prefers: templates, label words, and the task `zeroshot`."""

from peirce_plugins.tasks.zeroshot.plugin import register_tasks

__all__ = ["register_tasks"]
