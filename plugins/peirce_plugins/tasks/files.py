"""JSON that any reader can read, and files that have reached the disk."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peirce.files import write_whole


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
