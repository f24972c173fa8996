"""How the benchmarks measure: interleaved runs on one machine, medians and their ratios, and peaks of live memory."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SHARED = Path(os.environ.get("PEIRCE_SHARED") or ROOT.parent / "shared")
"""The folder of data beside the repository, or PEIRCE_SHARED, which some benchmarks read by default."""

CLOCKS: Mapping[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
"""What time is: on a clock, or CPU time of this process's threads, which other processes disturb less."""


def seconds(
    ways: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The median time of each way; the ways take turns, so that a busy machine slows all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for _ in range(repeats):
        for name, way in ways.items():
            start = clock()
            way()
            times[name].append(clock() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def matrix_peak(clock: Callable[[], float] = time.perf_counter, size: int = 2048) -> float:
    """Floating-point operations a second in a large float32 matrix product, at its best."""
    one = torch.randn(size, size)
    times = []
    for _ in range(6):
        start = clock()
        torch.mm(one, one)
        times.append(clock() - start)
    return 2 * size**3 / min(times)


def operations(way: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products that a way makes."""
    with FlopCounterMode(display=False) as counter:
        way()
    return counter.get_total_flops()


def peak_bytes(way: Callable[[], object], tries: int = 20) -> int:
    """The largest rise of live bytes, temporaries inside kernels included.

    A rise, since a training step first frees the gradients of the one before, and the profiler counts that only where
    it saw them made. On some busy machines it also loses events, all of them or a part. So a way is profiled until two
    passes in a row agree.

    Raises:
        RuntimeError: no two passes agreed.
    """
    last = 0
    for _ in range(tries):
        rise = _largest_rise(way)
        if rise and rise == last:
            return rise
        last = rise
    raise RuntimeError(
        f"the profiler lost events in {tries} passes: no two in a row have the same peak of memory; run the benchmark "
        "again when the machine is less busy"
    )


def machine() -> dict[str, Any]:
    """What a figure depends on: CPU, threads, versions, commit."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "processor": _cpu(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": commit.stdout.strip() or None,
    }


def record(name: str, rows: list[dict[str, Any]]) -> None:
    """Print a table and keep it, with the machine that it was measured on, in benchmarks/results/NAME.json."""
    columns = list(rows[0])
    widths = [max(len(column), *(len(_cell(row[column])) for row in rows)) for column in columns]
    print(f"\n{name}")
    print("  ".join(column.ljust(width) for column, width in zip(columns, widths, strict=True)))
    for row in rows:
        print("  ".join(_cell(row[c]).ljust(w) for c, w in zip(columns, widths, strict=True)))
    RESULTS.mkdir(exist_ok=True)
    report = {
        "schema": f"peirce.benchmark.{name}/1",
        "command": _command(),
        "machine": machine(),
        "rows": rows,
    }
    path = RESULTS / f"{name}.json"
    fresh = path.with_suffix(".json.new")
    fresh.write_text(json.dumps(report, indent=2) + "\n")
    fresh.replace(path)


def _largest_rise(way: Callable[[], object]) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        way()
    assert profiler.profiler is not None
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = lowest = rise = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        lowest = min(lowest, live)
        rise = max(rise, live - lowest)
    return rise


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _command() -> str:
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if "model name" in line] if info.exists() else []
    return names[0].split(":", 1)[1].strip() if names else platform.processor()
