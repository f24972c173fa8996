"""A disk that takes no more, since it is full, over a quota or read-only, or a file too large: one message for all."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from peirce.errors import PeirceError, WriteError, message_of

ADVICE = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room within the quota",
    errno.EROFS: "write to a file system that is not read-only",
    errno.EFBIG: "raise the limit on the size of files (`ulimit -f`), or write to another file system",
}
_RUST = re.compile(r"\(os error (\d+)\)")
_SHORT = re.compile(r"\d+ requested and \d+ written")
_NOWHERE = "No usable temporary directory"


@contextmanager
def writing(what: str, safe: str | Callable[[], str]) -> Iterator[None]:
    """Within it, a disk that takes no more is one sentence, whichever library met it.

    Args:
        what: what is written, and where, such as `the model in runs/a`; a `writing` within this one knows better.
        safe: what is whole all the same, such as `what stood there is as it was`, or what tells it once it is
            asked; this one knows better than those within it.

    Raises:
        WriteError: the disk is full, over its quota or read-only, or a file grew too large.
    """
    try:
        yield
    except WriteError as error:
        raise unwritten(error.what, error.number, safe if isinstance(safe, str) else safe()) from error
    except Exception as error:
        number = refused(error)
        if number is None:
            raise
        raise unwritten(what, number, safe if isinstance(safe, str) else safe()) from error


def unwritten(what: str, number: int, safe: str) -> WriteError:
    """The sentence of a disk that takes no more."""
    return WriteError(what, number, os.strerror(number), safe, ADVICE[number])


def refused(error: BaseException) -> int | None:
    """The number of the system's error, if a disk that takes no more is behind an error or behind its causes."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, WriteError):
            return link.number
        if (number := _number(link)) in ADVICE:
            return number
        # A complaint of Peirce's own names its cause; what merely was handled when it came is another matter.
        link = link.__cause__ or (None if isinstance(link, PeirceError) else link.__context__)
    return None


def _number(error: BaseException) -> int | None:
    if isinstance(error, OSError) and error.errno in ADVICE:
        return error.errno
    text = message_of(error)
    if found := _RUST.search(text):  # safetensors and tokenizers
        return int(found[1])
    if isinstance(error, OSError) and (_SHORT.search(text) or _NOWHERE in text):  # numpy; tempfile
        return errno.ENOSPC
    return None
