"""A spec as frozen values: read from TOML, checked key by key, written back. It needs neither parts nor torch."""

import lazy_loader

from peirce.errors import with_older_names

_OLDER = {
    "structured": "peirce.spec:structure_value",
}
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_older_names(__name__, _find, _OLDER)
