"""Reads pickles of plain values and of nothing else: what a file says to import or to call is refused, not run."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from peirce.errors import TaskError
from peirce.files import follow_pickle, read_bytes

_LITERALS = re.compile("(BIN)?INT[12]?|LONG[14]?|(SHORT_|BIN)*UNICODE")
"""The opcodes of whole numbers and strings."""


def read_pickle(path: Path) -> dict[Any, Any]:
    """The dict of a pickle that holds tuples, lists, sets, dicts, whole numbers and strings.

    Raises:
        TaskError: it cannot be read, is damaged, or holds anything else.
    """
    try:
        found = follow_pickle(io.BytesIO(read_bytes(path)), literals=_LITERALS)
        if not isinstance(found, dict):
            raise ValueError(f"it holds a {type(found).__name__} where published files have a dict")
        return found
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # what damaged pickles make their reader raise
        message = str(error) or type(error).__name__
        raise TaskError(
            f"{path} is damaged, or holds more than tuples, lists, sets, dicts, numbers and strings ({message}); "
            "nothing of it was run. Get the file from its authors again"
        ) from error
