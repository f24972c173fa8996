"""FOLIO: does a conclusion follow from premises in plain English?"""

from peirce_plugins.tasks.folio.plugin import register_tasks

__all__ = ["register_tasks"]
