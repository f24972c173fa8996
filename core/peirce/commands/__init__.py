"""The command line of the core, and what commands share for their output; each command is imported when it runs."""

import lazy_loader

from peirce.errors import with_older_names

_OLDER = {
    "as_json": "peirce.commands:print_json",
    "as_table": "peirce.commands:print_table",
    "made": "peirce.commands:print_result",
    "made_model": "peirce.commands:print_new_model",
    "vacant": "peirce.commands:refuse_existing",
}
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_older_names(__name__, _find, _OLDER)
