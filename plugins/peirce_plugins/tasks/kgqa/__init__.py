"""First-order queries over knowledge graphs: language, exact engine, sampler, encoding, evaluation and the task.

Only `task` and `demo` import torch; everything else is light enough for `peirce ask`.
"""

from peirce_plugins.tasks.kgqa.plugin import register_tasks

__all__ = ["register_tasks"]
