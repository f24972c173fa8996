"""Where the registry.toml that ships with Peirce lies, which version this is, and what this machine has."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent


def packaged_registry() -> Path:
    """The registry.toml that is in force when no other is found."""
    return _PACKAGE / "registry.toml"


@cache
def machine_memory() -> float:
    """The bytes of memory that this process may take at most; infinity where the system does not say."""
    found = float("inf")
    with suppress(AttributeError, OSError, ValueError):
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):  # of a container, on Linux
        with suppress(OSError, ValueError):
            found = min(found, int(Path("/sys/fs/cgroup", limit).read_text(encoding="ascii")))
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit_of_process = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit_of_process != resource.RLIM_INFINITY:
            found = min(found, limit_of_process)
    return found


@cache
def usable_cores() -> int:
    """The cores that this process may use: those that it is bound to, and no more than the quota of a container."""
    bound = getattr(os, "sched_getaffinity", None)
    found: float = len(bound(0)) if bound is not None else os.cpu_count() or 1
    for names in (
        ("cpu.max",),
        ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"),
    ):  # of either version, on Linux
        with suppress(OSError, ValueError):
            texts = [Path("/sys/fs/cgroup", name).read_text(encoding="ascii") for name in names]
            quota, period = map(int, " ".join(texts).split())  # ValueError for `max`: no quota
            found = min(found, quota / period) if quota > 0 else found
    return max(1, math.ceil(found))


def __getattr__(name: str) -> Any:
    # Reading the version opens a file, which `import peirce` and `peirce --help` can do without.
    if name == "__version__":
        try:
            return version("peirce-core")
        except PackageNotFoundError:
            return "0+unknown"
    raise AttributeError(f"module 'peirce.resources' has no attribute {name!r}")
