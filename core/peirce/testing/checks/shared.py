"""What a whole process shares, held as it was while a part works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from peirce.testing.failures import BrokenError
from peirce.testing.process_state import changes, process_state

SHARED = (
    "the random state",
    "torch's default",
    "torch's grad",
    "torch's deterministic",
    "torch's threads",
    "the working directory",
    "the mask of new files",
)
"""What begins the names of what parts leave alone; their libraries may start threads and filter warnings."""


@contextmanager
def left_alone(what: str, but: str = "no state") -> Iterator[None]:
    """Hold that nothing of `SHARED` is changed, save what begins with `but`."""
    before = process_state()
    yield
    found = [each for each in changes(before, process_state()) if each.startswith(SHARED)]
    found = [each for each in found if not each.startswith(but)]
    if found:
        raise BrokenError(
            f"`{what}` changes what the process shares\n" + "\n".join(f"  {each}" for each in found)
        )
