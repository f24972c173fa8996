"""How the benchmarks measure: ways in turns, each figure with its spread over the turns, and peaks of live memory.

A figure is a median. Beside it stand the lowest and the highest of the turns, as columns of their own, which
`python benchmarks --compare` reads. A ratio is taken in each turn, so that a machine that others disturb slows both.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SOURCES = ("core", "plugins", "export", ":!*.md", ":!*/tests/*")
LOWEST, HIGHEST = ", lowest", ", highest"
Option = tuple[str, Mapping[str, Any]]
SHARED = Path(os.environ.get("PEIRCE_SHARED") or ROOT.parent / "shared")
"""The folder of data beside the repository, or PEIRCE_SHARED, which some benchmarks read by default."""

PEAK = "matrix product"
"""The way that a limit is measured by."""
_SIZE = 2048


def parsed(text: str | None, repeats: int, *more: Option, threads: int = 1) -> argparse.Namespace:
    """The options of a benchmark: `--repeats`, `--threads`, which is set, and its own.

    Args:
        text: what it says of itself.
        repeats: the turns by default.
        more: its own options, as those of `add_argument`.
        threads: of torch by default. CPU time is measured of one, and time on the clock of several.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=repeats, help=f"timed turns (default {repeats})")
    parser.add_argument("--threads", type=int, default=threads, help=f"of torch (default {threads})")
    for name, how in more:
        parser.add_argument(name, **how)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return options


def turns(
    ways: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] | None = None,
    often: int = 1,
) -> dict[str, list[float]]:
    """The seconds of each way in each turn, after one that is not timed.

    Args:
        ways: what is timed, by name.
        repeats: the turns.
        clock: what time is; by default CPU time of one thread, which other processes disturb less, and with several
            threads time on the clock.
        often: calls of a turn, which alternate as well; its time is their median. What takes a millisecond needs many.
    """
    clock = clock or (time.process_time if torch.get_num_threads() == 1 else time.perf_counter)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(repeats + 1):
        calls: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(often if number else 1):
            for name, way in ways.items():
                start = clock()
                way()
                calls[name].append(clock() - start)
        for name, own in calls.items():
            times[name] += [statistics.median(own)] if number else []
    return times


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """A figure with its spread, as three columns: the median, `NAME, lowest` and `NAME, highest`."""
    return {
        name: statistics.median(values),
        f"{name}{LOWEST}": min(values),
        f"{name}{HIGHEST}": max(values),
    }


def beside(name: str, times: Sequence[float], peer: Sequence[float]) -> dict[str, float]:
    """The ratio of two ways' times in each turn, with its spread."""
    return spread(name, [one / other for one, other in zip(times, peer, strict=True)])


def matrix_product() -> Callable[[], object]:
    """A product of two large float32 matrices, as a way: the machine's peak in the same turns."""
    one = torch.randn(_SIZE, _SIZE)
    return lambda: torch.mm(one, one)


def limits(product: Sequence[float], count: float) -> list[float]:
    """The seconds that so many operations take at the peak, in each turn of the matrix product."""
    return [taken * count / (2 * _SIZE**3) for taken in product]


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
    """What a figure depends on: CPU and its load, threads, versions, commit, with `+` where sources differ from it."""
    commit = _git("rev-parse", "--short", "HEAD")
    return {
        "processor": _cpu(),
        "load": round(os.getloadavg()[0], 1),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "onnxruntime": getattr(sys.modules.get("onnxruntime"), "__version__", None),
        "commit": commit + "+" * bool(_git("status", "--porcelain", *SOURCES)) if commit else None,
    }


def record(name: str, rows: list[dict[str, Any]]) -> None:
    """Print a table and keep it, with the machine that it was measured on, in benchmarks/results/NAME.json."""
    every = dict.fromkeys(name for row in rows for name in row)
    columns = [name for name in every if not name.endswith((LOWEST, HIGHEST))]
    print(f"\n{name}")
    shown = [[_cell(row, column) for column in columns] for row in rows]
    widths = [max(len(each) for each in column) for column in zip(columns, *shown, strict=True)]
    print("  ".join(column.ljust(width) for column, width in zip(columns, widths, strict=True)))
    for cells in shown:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)))
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


def _cell(row: Mapping[str, Any], column: str) -> str:
    value, low, high = (row.get(f"{column}{end}") for end in ("", LOWEST, HIGHEST))
    text = f"{value:.3g}" if isinstance(value, float) else "-" if value is None else str(value)
    return text if low is None else f"{text} ({low:.3g}-{high:.3g})"


def _command() -> str:
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _cpu() -> str:
    """The processor's name and, since some clouds shorten names, its family: `AMD EPYC, family 26`."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    family = [f"family {facts['cpu family']}"] if "cpu family" in facts else []
    return ", ".join([facts.get("model name") or platform.processor(), *family])
