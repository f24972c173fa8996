"""Writing files that are whole or absent, by one process at a time, on disks that may be full.

A file is written in a folder beside its place and then renamed into it. Places are locked by the operating system,
which releases a lock however its process ends; what a dead process left is removed by the next writer.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peirce.errors import BusyError, PeirceError, WriteError, message_of

if TYPE_CHECKING:
    from filelock import FileLock

LOCK = ".peirce-lock"
"""The name of the lock in a folder; the lock of a file lies beside it and begins with the file's name."""
AS_IT_WAS = "what was there is unchanged"
"""What is still intact where files are written beside their place first."""
_SCRATCH = re.compile(r"\..+\.peirce-[0-9a-f]{12}", re.DOTALL)
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_ADVICE = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room within the quota",
    errno.EROFS: "write to a file system that is not read-only",
    errno.EFBIG: "raise the limit on the size of files (`ulimit -f`), or write to another file system",
}
_RUST = re.compile(r"\(os error (\d+)\)")
_SHORT = re.compile(r"\d+ requested and \d+ written|No usable temporary directory")
_held_locks: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())


@contextmanager
def hold_lock(place: Path, *, folder: bool, wait: bool = False) -> Iterator[None]:
    """Keep others from writing to a place until the block ends; the holder may take the lock again within it.

    Folders that are created for the lock are removed again if they stay empty. Where the file system has no locks,
    nobody is kept out.

    Args:
        place: a folder, with the lock inside it, or a file, with the lock beside it.
        folder: whether the place is a folder; one that does not exist is created.
        wait: whether to wait until another writer has ended, instead of raising.

    Raises:
        BusyError: another process, or another thread, writes there.
    """
    path = place / LOCK if folder else place.with_name(f".{place.name}{LOCK}")
    known = path.absolute()
    if known in _held_locks.get():
        yield
        return
    created = [parent for parent in path.parents if not parent.exists()]
    try:
        lock = _acquire_in_folder(path, place, wait)
        token = _held_locks.set(_held_locks.get() | {known})
        try:
            yield
        finally:
            _held_locks.reset(token)
            _release(lock)
    finally:
        for parent in created:
            with suppress(OSError):
                parent.rmdir()


def _acquire_in_folder(path: Path, place: Path, wait: bool) -> FileLock | None:
    """Take the lock of a place in a folder that is made for it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _acquire(path, wait=wait)
        except FileNotFoundError:  # the process that created the folder has removed it again
            continue
        except TimeoutError:
            if path.parent.is_dir() and not path.exists():
                path.touch()  # an error where no file can be, as in /proc; else the lock was just released
                continue
            raise BusyError(
                f"another process writes to {place}; wait until it has ended, or give another place"
            ) from None


def _acquire(path: Path, *, wait: bool = False) -> FileLock | None:
    """Take a lock; None where the file system has none.

    Raises:
        TimeoutError: another has it.
    """
    from filelock import FileLock

    lock = FileLock(path, timeout=-1 if wait else 0)
    try:
        lock.acquire()
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return None
    return lock


def _release(lock: FileLock | None) -> None:
    if lock is not None:
        with suppress(OSError):  # while it is held, so that a waiting process creates a new file
            os.unlink(lock.lock_file)
        lock.release()


@contextmanager
def scratch_folder(place: Path) -> Iterator[Path]:
    """A temporary folder beside `place`, for files that will be moved there; removed when the block ends.

    Folders that dead processes left beside `place` are removed first.
    """
    clear_leftovers(place.parent)
    while True:
        # The name may already have the greatest length; its beginning is enough for people.
        folder = place.with_name(f".{place.name[:40]}.peirce-{os.urandom(6).hex()}")
        try:
            try:
                folder.mkdir(mode=0o700)
            except PermissionError as error:
                error.filename = str(place)  # the name that people know
                raise
            # Another process or thread may take it for a dead one's before it is locked.
            with suppress(FileExistsError, FileNotFoundError, TimeoutError):
                lock = _acquire(folder / LOCK)
                break
        except BaseException:  # such as a signal, right after it was made
            shutil.rmtree(folder, ignore_errors=True)
            raise
    try:
        yield folder
    finally:
        try:
            _remove(folder)  # while the lock is held, which is its last file
        except KeyboardInterrupt:  # a signal may come while nothing but this is left to do
            _remove(folder)
            raise
        finally:
            _release(lock)


def _remove(folder: Path) -> None:
    """Remove a scratch folder, its lock last: one with files and no lock would pass for somebody's own for good."""
    with suppress(OSError):
        for each in os.scandir(folder):
            if each.is_dir(follow_symlinks=False):
                shutil.rmtree(each.path, ignore_errors=True)
            elif each.name != LOCK:
                os.unlink(each.path)
    shutil.rmtree(folder, ignore_errors=True)


def clear_leftovers(folder: Path) -> None:
    """Remove the scratch folders that dead processes left in a folder."""
    try:
        left = [Path(each.path) for each in os.scandir(folder) if _SCRATCH.fullmatch(each.name)]
    except OSError:
        return  # where nothing can be listed, nothing can be written; the writer reports it
    for each in left:
        if each.is_dir() and not each.is_symlink():
            with suppress(OSError):
                if not (each / LOCK).exists():
                    each.rmdir()  # made a moment ago, or somebody's own
                elif lock := _acquire(each / LOCK):
                    _remove(each)
                    _release(lock)


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` when the block ends, and is removed when it fails.

    A reader sees the old file or the new one, never a part. The new file takes over the permissions of the old one. Of
    two processes that write at once, the last to end wins.

    Raises:
        FileExistsError: `path` is a directory or a device.
        FileNotFoundError: its folder does not exist.
        WriteError: the disk is full or read-only.
    """
    if path.exists() and not path.is_file():
        # A device such as /dev/null could be replaced by whoever may write there, and must not.
        raise FileExistsError(f"{path} is a directory or a device, where a file would go")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"folder {path.parent} does not exist; create it, or write elsewhere")
    with explain_disk_errors(str(path)), scratch_folder(path) as folder:
        fresh = folder / path.name
        yield fresh
        if path.exists():
            fresh.chmod(path.stat().st_mode & 0o777)
        os.replace(fresh, path)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, whole or not at all; text as UTF-8."""
    with replace_file(path) as fresh:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all. Numbers that JSON lacks become null."""
    write_whole(path, json.dumps(replace_non_finite(content), indent=2, ensure_ascii=False) + "\n")


def replace_non_finite(value: Any) -> Any:
    """A plain value with None for NaN and infinities, which JSON lacks."""
    if isinstance(value, Mapping):
        return {str(key): replace_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_non_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def sync(path: Path) -> None:
    """Flush a file or a folder to the disk; file systems that cannot flush folders are left alone."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError) if path.is_dir() else nullcontext():
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def explain_disk_errors(what: str, safe: str | Callable[[], str] = AS_IT_WAS) -> Iterator[None]:
    """Turn the error of a full or read-only disk into one sentence, whichever library raised it.

    Args:
        what: what is written and where, such as `the model in runs/a`; of nested blocks, the inner one's is used.
        safe: what is still intact, or a function that says it; of nested blocks, the outer one's is used.

    Raises:
        WriteError: the disk is full, over its quota or read-only, or a file grew too large.
    """
    try:
        yield
    except Exception as error:
        if found := disk_error(error, what, safe):
            raise found from error
        raise


def disk_error(
    error: BaseException, what: str = "", safe: str | Callable[[], str] = AS_IT_WAS
) -> WriteError | None:
    """The error of a full or read-only disk, if one is the cause of an error; else None."""
    link: BaseException | None = error
    seen: list[BaseException] = []
    while link is not None and link not in seen:
        seen.append(link)
        if (number := _error_number(link)) in _ADVICE:
            what = link.what if isinstance(link, WriteError) else what
            intact = safe if isinstance(safe, str) else safe()
            return WriteError(what, number, intact, _ADVICE[number])
        # Peirce's own errors name their cause; an exception that was merely being handled is unrelated.
        link = link.__cause__ or (None if isinstance(link, PeirceError) else link.__context__)
    return None


def _error_number(error: BaseException) -> int:
    if isinstance(error, WriteError):
        return error.number
    if isinstance(error, OSError) and error.errno in _ADVICE:
        return error.errno
    text = message_of(error)
    if found := _RUST.search(text):  # safetensors and tokenizers
        return int(found[1])
    # numpy, and tempfile
    return errno.ENOSPC if isinstance(error, OSError) and _SHORT.search(text) else 0
