"""Peirce's models as models of the package `transformers`, and back; and its models as architectures of Peirce.

`from peirce_hf import register; register()` makes `AutoModel...` and `pipeline` know Peirce's models.
Needs the extra `transformers`; nothing else in Peirce imports this package.
"""

from typing import Any

import lazy_loader

from peirce.extras import require

_lazily, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        require("peirce_hf", "transformers", extra="transformers")
    return _lazily(name)
