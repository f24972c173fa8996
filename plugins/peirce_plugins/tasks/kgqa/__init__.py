"""First-order queries over knowledge graphs.

`queries` is the language, `graphs` and `engine` answer it exactly, `sampling` draws queries, `encoding` tells a model
of them, `embedding` trains vectors for it; `task` trains, `evaluation` ranks, `ask` asks, `experiments` are the tables
of TEGA. Only `task` (with `demo`) and `embedding` import torch; everything else is light enough for `peirce ask`.
"""

from peirce_plugins.tasks.kgqa.plugin import register_tasks

__all__ = ["register_tasks"]
