"""Two folders that change places in one step, where the operating system and the file system can do that."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
"""Of Linux's renameat2(2)."""
_RENAME_SWAP = 2
"""Of macOS's renamex_np(2)."""


class CannotExchangeError(Exception):
    """A folder cannot change places with another here; nothing has changed."""


def exchange(one: Path, other: Path) -> None:
    """Let two folders change places; nobody ever sees either name without one of them.

    Raises:
        OSError: they cannot; both are where they were.
    """
    names = os.fsencode(one), os.fsencode(other)
    library = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    if sys.platform.startswith("linux") and hasattr(library, "renameat2"):
        failed = library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)  # type: ignore[union-attr]
    elif sys.platform == "darwin" and hasattr(library, "renamex_np"):
        failed = library.renamex_np(*names, _RENAME_SWAP)  # type: ignore[union-attr]
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one), None, str(other))


def can_exchange(folder: Path) -> bool:
    """Whether folders can change places in a folder, which is tried."""
    one, other = folder / "one", folder / "other"
    one.mkdir()
    other.mkdir()
    try:
        exchange(one, other)
    except OSError:
        return False
    else:
        return True
    finally:
        one.rmdir()
        other.rmdir()
