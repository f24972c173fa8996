"""Reads pickles of plain values and of nothing else: what a file says to import or to call is refused, not run.

The opcodes that are known are those of tuples, lists, sets, dicts, whole numbers and strings. Sets of old protocols and
defaultdicts are calls in a pickle; these alone may be called.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any, ClassVar

from peirce.errors import TaskError
from peirce.files import read_bytes

_CLASSES: dict[tuple[str, str], type] = {
    **{("builtins", known.__name__): known for known in (set, frozenset, list, dict, int)},
    ("collections", "defaultdict"): defaultdict,
}
_KNOWN = """
    PROTO FRAME MARK STOP POP POP_MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 BINUNICODE
    SHORT_BINUNICODE UNICODE EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST LIST APPEND APPENDS EMPTY_DICT DICT
    SETITEM SETITEMS EMPTY_SET FROZENSET ADDITEMS GLOBAL STACK_GLOBAL REDUCE PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET
    LONG_BINGET
"""


class _Plain(pickle._Unpickler):
    """The unpickler in Python, whose memo no number in a file makes large, with the opcodes above alone."""

    dispatch: ClassVar[dict[int, Any]] = {
        code: pickle._Unpickler.dispatch[code]
        for code in (getattr(pickle, name)[0] for name in _KNOWN.split())
    }

    def find_class(self, module: str, name: str) -> Any:
        known = _CLASSES.get((module.replace("__builtin__", "builtins"), name))  # as protocol 2 calls them
        if known is None:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which plain values do not need")
        return known


def read_pickle(path: Path) -> dict[Any, Any]:
    """The dict of a pickle that holds tuples, lists, sets, dicts, whole numbers and strings.

    Raises:
        TaskError: it cannot be read, is damaged, or holds anything else.
    """
    try:
        found = _Plain(io.BytesIO(read_bytes(path))).load()
        if not isinstance(found, dict):
            raise pickle.UnpicklingError(
                f"it holds a {type(found).__name__} where published files have a dict"
            )
        return found
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # what damaged pickles make their reader raise
        message = f"opcode {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise TaskError(
            f"{path} is damaged, or holds more than tuples, lists, sets, dicts, numbers and strings ({message}); "
            "nothing of it was run. Get the file from its authors again"
        ) from error
