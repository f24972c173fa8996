"""What a plug-in does to a process that imports it: nothing that others share."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from peirce.testing import process_state
from peirce.testing.check import Case, check
from peirce.testing.failures import BrokenError, NotApplicableError, NotRunError
from peirce.testing.processes import found_by


@check(
    "plugins",
    contract="importing a plug-in leaves the process alone: random states, defaults, warnings, environment, output",
)
def importing(case: Case) -> None:
    """In a process of its own, where torch, numpy and peirce.parts are imported already."""
    module, together = case.entry.part.value, case.entry.part.together
    if not _importable(module):
        raise NotApplicableError(f"{module} is an object of a test and no module that can be imported")
    found = _found(tuple(filter(_importable, together)), tuple(sys.path))[module]
    if "error" in found:
        raise NotRunError(f"not run: a new process cannot import it ({found['error']})")
    if found["changes"]:
        raise BrokenError("importing it changes\n" + "\n".join(f"  {line}" for line in found["changes"]))


@cache
def _found(modules: tuple[str, ...], path: tuple[str, ...]) -> dict[str, Any]:
    """What `process_state` writes of modules."""
    return found_by(process_state.__name__, *modules, path=path)


def _importable(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
