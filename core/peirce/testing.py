"""Another name of `peirce_testing`, of the distribution peirce-testing: its modules are the same objects."""

import sys
from importlib import import_module
from pkgutil import iter_modules

from peirce.extras import require

require("the conformance suite", "peirce_testing", extra="testing")

import peirce_testing  # noqa: E402

sys.modules[__name__] = peirce_testing
for _module in ("strategies", "suite"):
    if any(_found.name == _module for _found in iter_modules(peirce_testing.__path__)):
        sys.modules[f"{__name__}.{_module}"] = import_module(f"peirce_testing.{_module}")
