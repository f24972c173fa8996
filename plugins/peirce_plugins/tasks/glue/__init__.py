"""GLUE: nine tasks on sentences and pairs of sentences, with their files, metrics and submissions."""

from peirce_plugins.tasks.glue.plugin import register_tasks

__all__ = ["register_tasks"]
