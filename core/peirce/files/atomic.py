"""Files that are whole or absent: written in a folder beside their place, then renamed into it.

The folder is `.NAME.peirce-` with twelve digits. It is claimed by the process that writes, so that whoever writes there
next can tell a dead process's from a living one's, and removes it.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from peirce.files.digests import OWN, own_digest
from peirce.files.full_disk import writing
from peirce.files.locks import LOCK, Lock, TakenError, finished

_SCRATCH = re.compile(r"\..+\.peirce-[0-9a-f]{12}", re.DOTALL)


AS_IT_WAS = "what stood there is as it was"
"""What is safe when a place is written to beside it."""


class LeftoverWarning(UserWarning):
    """What another process left, or is writing; nobody can tell which, so it stays."""


@contextmanager
def scratch(place: Path) -> Iterator[Path]:
    """A folder of this process alone, beside `place`, to write in what will be moved there; removed in the end.

    What dead processes left beside `place` is removed first.
    """
    clear(place.parent)
    folder, claim = _claimed(place)
    try:
        yield folder
    finally:
        finished(partial(_remove, folder, claim))


def clear(folder: Path) -> None:
    """Remove what dead processes left in a folder, of what `scratch` gave them; warn of what may be a living one's."""
    try:
        found = [each.path for each in os.scandir(folder) if _SCRATCH.fullmatch(each.name)]
    except OSError:
        return  # where nothing can be listed, nothing can be written, which is told of then
    for left in map(Path, found):
        if left.is_symlink() or not left.is_dir():
            continue
        try:
            _remove(left, Lock(left / LOCK, make=False))
        except FileNotFoundError:
            # Just made or just removed by another process, or left between: without content, in any case.
            with suppress(OSError):
                left.rmdir()
        except TakenError as error:
            if not error.alive:
                warnings.warn(
                    f"{error.owner} left {left}, or still writes there, which cannot be seen from here; remove it if "
                    "that process has ended",
                    LeftoverWarning,
                    stacklevel=2,
                )
        except OSError:
            continue  # not ours to remove


def _claimed(place: Path) -> tuple[Path, Lock]:
    while True:
        # A name may be as long as names can be; people need its beginning.
        folder = place.with_name(f".{place.name[:40]}.peirce-{os.urandom(6).hex()}")
        try:
            folder.mkdir(mode=0o700)
            return folder, Lock(folder / LOCK)
        except (FileNotFoundError, TakenError):
            continue  # another process took it for a dead one's, before it was claimed
        except BaseException:
            with suppress(OSError):
                folder.rmdir()
            raise


def _remove(folder: Path, claim: Lock) -> None:
    """Remove a folder, its claim last, so that whatever is left of it has an owner."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name == LOCK:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()
    claim.release()
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` when the block ends, and is removed when it fails.

    A reader sees the old file or the new one, never a part. A file that stood there hands on its permissions. Of two
    processes that write at once, the last to end wins.

    Raises:
        WriteError: the disk takes no more.
    """
    if path.exists() and not path.is_file():
        # A device such as /dev/null could be replaced by whoever may write there, and must not.
        raise FileExistsError(f"{path} is a directory or a device, where a file would go")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}")
    with writing(str(path), AS_IT_WAS), scratch(path) as folder:
        fresh = folder / path.name
        yield fresh
        if path.exists():
            fresh.chmod(path.stat().st_mode & 0o777)
        os.replace(fresh, path)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, whole or not at all; text as UTF-8."""
    with replacing(path) as fresh:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically, with its own digest, which `reading.read_record` checks.

    Numbers that JSON lacks become null.
    """
    write_whole(path, signed_json(content))


def signed_json(content: Mapping[str, Any]) -> str:
    """A JSON text with its own digest."""
    plain = finite(content)
    return json.dumps({OWN: own_digest(plain), **plain}, indent=2, ensure_ascii=False) + "\n"


def finite(value: Any) -> Any:
    """A value with what JSON has no number for as None."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def sync(path: Path) -> None:
    """Make sure that a file or a folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
