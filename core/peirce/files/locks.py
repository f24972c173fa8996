"""Who writes where: claims that a living process holds on a place, and that end with the process.

A claim is a small file that its holder keeps locked. The operating system lets go of the lock however the process ends,
so a claim whose lock is free is a dead process's, whatever has become of its number since. Over a network locks may
hold for one machine alone: there another machine's claim proves nothing, and it stays until somebody removes it.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

from attrs import asdict, frozen

from peirce.errors import BusyError

if sys.platform != "win32":
    import fcntl

LOCK = ".peirce-lock"
"""The claim on a folder, in it; that on a file has the file's name before it and lies beside it."""
_LOCAL = (
    *("apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3"),
    *("overlay", "ramfs", "reiserfs", "tmpfs", "vfat", "xfs", "zfs"),
)
"""File systems that one machine has at a time, so that a free lock proves something of earlier starts as well."""
_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_MOST = 4096
_open_claims: set[int] = set()
_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())


@frozen
class Owner:
    """The process that made a claim.

    Args:
        pid: its number.
        host: the name of its machine.
        since: when it made the claim, in UTC.
        start: what tells this start of its machine from others.
    """

    pid: int
    host: str
    since: str
    start: str

    @classmethod
    def me(cls) -> Owner:
        """This process."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return cls(os.getpid(), platform.node(), now, _start())

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


class TakenError(Exception):
    """A claim that is another's.

    Args:
        path: the claim.
        owner: whose it is, as far as it says.
        alive: whether the owner is known to live; nothing is known otherwise.
    """

    def __init__(self, path: Path, owner: Owner | None, *, alive: bool) -> None:
        super().__init__(str(path))
        self.path, self.owner, self.alive = path, owner, alive


class Lock:
    """A claim of this process; `release` ends it.

    Args:
        path: its file, made if it is not there, and taken over if its owner has provably ended.
        make: whether to make the file.

    Raises:
        TakenError: it is another's, who lives or may live.
        FileNotFoundError: there is no such folder, or no file and none to be made.
        FileExistsError: something else has its name.
    """

    def __init__(self, path: Path, *, make: bool = True) -> None:
        self.path, self.pid = path, os.getpid()
        while True:
            self._handle = os.open(path, os.O_RDWR | (os.O_CREAT if make else 0) | _NO_LINK, 0o644)
            try:
                if self._taken():
                    break
            except BaseException:
                os.close(self._handle)
                raise
            os.close(self._handle)
        _open_claims.add(self._handle)

    def _taken(self) -> bool:
        """Whether this process holds it now; not if the file went away meanwhile."""
        if not stat.S_ISREG(os.fstat(self._handle).st_mode):
            raise FileExistsError(f"{self.path} is in the way: it is no regular file; remove it")
        locked = _lock(self._handle)
        there = os.pread(self._handle, _MOST, 0)
        if locked is False:
            raise TakenError(self.path, _read(there), alive=True)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._handle), os.lstat(self.path)):
                if there and (before := _read(there)) is None:
                    raise FileExistsError(f"{self.path} is in the way: Peirce did not write it; remove it")
                if there and (before is None or locked is None or not _proves(before, self.path)):
                    raise TakenError(self.path, before, alive=False)
                os.ftruncate(self._handle, 0)
                try:
                    os.pwrite(self._handle, json.dumps(asdict(Owner.me())).encode(), 0)
                except OSError:
                    self.path.unlink(missing_ok=True)
                    raise
                return True
        return False

    def release(self) -> None:
        """End it, and remove its file; a process that was forked from the holder cannot."""
        if self.pid == os.getpid() and self._handle in _open_claims:
            with suppress(OSError):
                if os.path.samestat(os.fstat(self._handle), os.lstat(self.path)):
                    self.path.unlink()
            _open_claims.discard(self._handle)
            os.close(self._handle)


_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def locked(place: Path, *, folder: bool, wait: bool = False) -> Iterator[None]:
    """Keep other processes from writing to a place until the block ends; this one may ask again within it.

    Folders that are made for it are removed again if nothing was put into them.

    Args:
        place: a folder, which is made if it is not there and has the claim in it; or something in a folder, which is
            made, and has the claim beside it.
        folder: which of the two it is.
        wait: whether to wait until a process that lives has ended, rather than be refused.

    Raises:
        BusyError: another process writes there, or may do so.
    """
    lock = place / LOCK if folder else place.with_name(f".{place.name}{LOCK}")
    known = lock.absolute()
    if known in _held.get():
        yield
        return
    made = [path for path in (lock.parent, *lock.parent.parents) if not path.exists()]

    def tidy() -> None:
        for path in made:
            with suppress(OSError):
                path.rmdir()

    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        claim = _claim(place, lock, wait=wait)
        token = _held.set(_held.get() | {known})
        try:
            yield
        finally:
            _held.reset(token)
            finished(claim.release)
    finally:
        finished(tidy)


def finished(tidy: Callable[[], None]) -> None:
    """Tidy up; who interrupts it, by Ctrl-C or a signal, waits until it is done."""
    try:
        tidy()
    except (KeyboardInterrupt, SystemExit):
        tidy()
        raise


def _claim(place: Path, lock: Path, *, wait: bool) -> Lock:
    while True:
        try:
            return Lock(lock)
        except FileNotFoundError:
            lock.parent.mkdir(parents=True, exist_ok=True)  # who had made it put nothing into it
        except TakenError as error:
            if not (wait and error.alive):
                raise BusyError(_refusal(place, error)) from None
            time.sleep(0.1)


def _refusal(place: Path, error: TakenError) -> str:
    owner = error.owner or "another process"
    if error.alive:
        return f"{owner} writes to {place}; wait until it has ended, or give another place"
    return (
        f"{owner} wrote to {place}, and whether it has ended cannot be seen from {platform.node()}: if it has, remove "
        f"{error.path}; else wait, or give another place"
    )


def _lock(handle: int) -> bool | None:
    """Lock a file for as long as it is open; None where that cannot be done."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return None
        raise
    return True


def _read(content: bytes) -> Owner | None:
    try:
        facts = json.loads(content)
        return Owner(int(facts["pid"]), str(facts["host"]), str(facts["since"]), str(facts["start"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _proves(owner: Owner, path: Path) -> bool:
    """Whether a lock that is free proves that its owner has ended."""
    return owner.start == _start() or _file_system(path) in _LOCAL


def _start() -> str:
    """This start of this machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return platform.node()


def _file_system(path: Path) -> str:
    """The kind of file system that a path is on; empty where the system does not tell."""
    try:
        lines = (
            Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        )
    except OSError:
        return ""
    place, longest, kind = path.resolve(), -1, ""
    for fields in map(str.split, lines):
        mount = Path(fields[4].replace("\\040", " "))
        if place.is_relative_to(mount) and len(mount.parts) >= longest:
            longest, kind = len(mount.parts), fields[fields.index("-") + 1]
    return kind


def _close_in_child() -> None:
    """A process that is forked must not hold its parent's claims when that has ended."""
    for handle in _open_claims:
        with suppress(OSError):
            os.close(handle)
    _open_claims.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
