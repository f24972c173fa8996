"""Why plug-ins failed when last loaded, kept in the user's cache so that a listing need not import them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peirce.files import write_whole

_FORMAT = 1


def cache_folder() -> Path:
    """The folder for files that may be deleted at any time."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    if chosen:
        return Path(chosen) / "peirce"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "peirce" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/peirce"
    return Path.home() / ".cache/peirce"


def last_failures() -> dict[str, dict[str, Any]]:
    """`{plug-in: {"version": ..., "cause": ...}}` for this Python environment."""
    return dict(_read().get(sys.prefix, {}))


def record(loaded: Mapping[str, str | None], failed: Mapping[str, tuple[str | None, str]]) -> None:
    """Remember the version and cause of each plug-in that failed; forget the failures of those that loaded.

    A cache that cannot be written costs only what a listing would have shown, so it is no error.
    """
    environments = _read()
    before = environments.get(sys.prefix, {})
    after = {name: entry for name, entry in before.items() if name not in loaded}
    after.update({name: {"version": version, "cause": cause} for name, (version, cause) in failed.items()})
    if after == before:
        return
    environments[sys.prefix] = after
    path = cache_folder() / "plugins.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"format": _FORMAT, "environments": environments}, indent=1))
    except OSError:
        return


def _read() -> dict[str, dict[str, Any]]:
    try:
        data = json.loads((cache_folder() / "plugins.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):
        return {}
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        return {}
    environments = data.get("environments")
    return environments if isinstance(environments, dict) else {}
