"""From a spec to a model, and from a saved folder back to one."""

import lazy_loader

from peirce.errors import with_older_names

_EXPORT = "Session StaleWarning export exported_file verify"
_OLDER = {name: f"peirce_export:{name}" for name in _EXPORT.split()}
_OLDER["spec_schema"] = "peirce_testing:spec_schema"
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_older_names(__name__, _find, _OLDER)
