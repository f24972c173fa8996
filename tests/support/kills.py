"""Signals that a process sends itself at the n-th touch of a file, and forks that end so."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from itertools import count

CHANGES = frozenset(
    {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "os.truncate", "os.chmod"}
)
"""The audit events of what changes a folder, beside opening a file to write to it."""
TOUCHES = CHANGES | {"open", "os.scandir"}


def signal_at(number: int, at: int, counts: Callable[[str, tuple[object, ...]], bool]) -> None:
    """Send this process a signal at the `at`-th audit event that counts."""
    seen, process = count(1), os.getpid()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if os.getpid() == process and counts(event, arguments) and next(seen) == at:
            os.kill(process, number)

    sys.addaudithook(hook)


def below(folder: str) -> Callable[[str, tuple[object, ...]], bool]:
    """Whether an event touches something whose path has a part."""
    return lambda event, arguments: event in TOUCHES and folder in str(arguments[0])


def fork(body: Callable[[], object]) -> int:
    """The number of a fork that runs a body, and ends with 0, or with 3 if the body raises."""
    child = os.fork()
    if child == 0:
        try:
            body()
        except BaseException:
            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    return child


def forked(body: Callable[[], object]) -> int:
    """How a fork ends that runs a body."""
    return os.waitstatus_to_exitcode(os.waitpid(fork(body), 0)[1])
