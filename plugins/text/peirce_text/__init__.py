"""Language: tokenizers and readers, pretraining, and tasks on text.

Other packages may use the tokenizer, the readers and what tasks on texts share, which are handed out here.
"""

from typing import Any

import lazy_loader

from peirce.errors import renamed

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_RENAMED = {
    "Classifies": "ClassificationPipeline",
    "divided": "batch_rows",
    "evaluating": "evaluation_mode",
    "of_vocabulary": "vocabulary_settings",
    "padded": "pad",
    "say": "print_line",
    "shown": "with_progress",
}
"""Today's names by the older ones."""


def __getattr__(name: str) -> Any:
    """What the stub lists, also by its older name."""
    if name in _RENAMED:
        renamed(f"{__name__}.{name}", f"{__name__}.{_RENAMED[name]}", "2.0")
        name = _RENAMED[name]
    return _load(name)
