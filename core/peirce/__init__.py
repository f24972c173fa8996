"""Compose logic-biased neural networks from registered parts, train them, export them and run them.

Names are imported when they are first used, so that `import peirce` loads neither torch nor any plug-in. Authors of
parts import from `peirce.parts`.
"""

import warnings
from importlib import import_module
from typing import Any

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return _public(name)
    for room in ("peirce.parts", "peirce.model"):  # version 0.1 had the names that authors use here
        home = import_module(room)
        if name in home.__all__:
            warnings.warn(f"import {name} from {room}, not from peirce", DeprecationWarning, stacklevel=2)
            return getattr(home, name)
    raise AttributeError(f"module 'peirce' has no attribute {name!r}")
