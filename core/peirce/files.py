"""Files that are whole or absent: written beside their place, then renamed into it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to, which takes its place when the block ends, and is removed when it fails.

    A reader sees the old file or the new one, never a part. A file that stood there hands on its permissions.
    """
    if path.exists() and not path.is_file():
        # A device such as /dev/null could be replaced by whoever may write there, and must not.
        raise FileExistsError(f"{path} is a directory or a device, where a file would go")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}")
    fresh = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        yield fresh
        if path.exists():
            fresh.chmod(path.stat().st_mode & 0o777)
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, whole or not at all; text as UTF-8."""
    with replacing(path) as fresh:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)
