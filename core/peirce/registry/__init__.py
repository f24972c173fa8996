"""The registry of parts: hooks, discovery of plug-ins, their loading and rules, and the owners of names."""

import lazy_loader

from peirce.errors import with_older_names

_OLDER = {
    "pipelines_for": "peirce_export:pipelines_for",
    "runtime_of": "peirce_export:runtime_class",
    "viewers_for": "peirce_show:viewers_for",
}
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_older_names(__name__, _find, _OLDER)
