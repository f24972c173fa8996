"""Files: how they are read, checked, locked and replaced, by one threat model (`docs/security.md`)."""

import lazy_loader

from peirce.errors import with_older_names

_OLDER = {
    "finite": "peirce.files:replace_non_finite",
    "replacing": "peirce.files:replace_file",
}
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_older_names(__name__, _find, _OLDER)
