"""Files: how they are read, checked, locked and replaced, by one threat model (`docs/security.md`)."""

import lazy_loader

from peirce.errors import with_older_names

_OLDER = {
    "clear": "peirce.files:clear_leftovers",
    "digests_checked": "peirce.files:checks_digests",
    "finite": "peirce.files:replace_non_finite",
    "limit": "peirce.files:size_limit",
    "locked": "peirce.files:hold_lock",
    "replacing": "peirce.files:replace_file",
    "scratch": "peirce.files:scratch_folder",
    "whole_number": "peirce.files:parse_integer",
    "writing": "peirce.files:explain_disk_errors",
}
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_older_names(__name__, _find, _OLDER)
