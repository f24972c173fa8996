"""What an author of parts imports: a contract for each kind of part, and what parts of all kinds share.

Each contract is in a file of its name.
"""

import lazy_loader

from peirce.errors import with_older_names

_OLDER = {
    "dense": "peirce.parts:has_static_shapes",
    "merge": "peirce.parts:merge_specs",
    "terms": "peirce.parts:dim_terms",
}
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_older_names(__name__, _find, _OLDER)
