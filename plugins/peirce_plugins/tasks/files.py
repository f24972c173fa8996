"""Files that are whole or absent: written beside their place, then renamed."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically; numbers that JSON lacks become null."""
    write_whole(path, (json.dumps(finite(content), indent=2, ensure_ascii=False) + "\n").encode())


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
