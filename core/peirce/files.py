"""Files that are whole or absent: written beside their place, then renamed into it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically; numbers that JSON lacks become null."""
    write_whole(path, json.dumps(finite(content), indent=2, ensure_ascii=False) + "\n")


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
