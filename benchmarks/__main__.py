"""Runs the benchmarks of speed, one after the other, and says what became slower.

`python benchmarks NAME...` runs some. `--compare RESULTS` then marks each ratio that became larger by more than the
spread: its lowest turn is above the highest of before. RESULTS is a folder of kept results, or a commit whose
`benchmarks/results` are taken; HEAD if none is named. `--kept` runs nothing, and compares what is kept. Ratios are to a
peer in the same run, so that results of two machines can be compared; of another processor or torch it says so.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measuring import HIGHEST, LOWEST, RESULTS, ROOT

BENCHMARKS = (
    "startup",
    "products",
    "overhead",
    "models",
    "padding",
    "layer",
    "growth",
    "positions",
    "pairs",
    "recurrent",
    "relations",
    "messages",
    "generation",
    "onnx_ratio",
    "runtimes",
    "engine",
    "sampler",
    "logic",
)
"""What `tox -e bench` runs; the other files measure quality, or need a GPU, a server or hours."""
SAME = ("processor", "threads", "torch", "onnxruntime")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter, prog="python benchmarks"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--compare", nargs="?", const="HEAD", metavar="RESULTS")
    parser.add_argument("--kept", action="store_true", help="run nothing, compare what is kept")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    begun, failed = time.time(), []
    for name in () if options.kept else options.names or BENCHMARKS:
        start = time.monotonic()
        if subprocess.run([sys.executable, ROOT / "benchmarks" / f"{name}.py"], check=False).returncode:
            failed.append(name)
        print(f"{name} took {time.monotonic() - start:.0f} s", flush=True)
    slower = 0
    if options.compare:
        with folder_of(options.compare) as before:
            for path in sorted(RESULTS.glob("*.json")):
                if (options.kept or path.stat().st_mtime >= begun) and (before / path.name).exists():
                    reports = (json.loads((folder / path.name).read_text()) for folder in (RESULTS, before))
                    for line in compared(*reports):
                        print(f"{path.stem}: {line}")
                        slower += line.startswith("slower")
    said = [f"failed: {', '.join(failed)}"] * bool(failed) + [f"{slower} ratios are slower"] * bool(slower)
    if said:
        sys.exit("; ".join(said))


def compared(now: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    """What became slower, and what stands in the way of a comparison, a sentence each."""
    if not any(LOWEST in name for report in (now, before) for row in report.get("rows", ()) for name in row):
        return
    for what in SAME:
        one, other = (report["machine"].get(what) for report in (before, now))
        if one != other:
            yield f"{what} was {one}, and is {other}"
    old = {key(row): row for row in before["rows"]}
    rows = {key(row): row for row in now["rows"]}
    if new := [each for each in rows if each not in old]:
        yield f"{len(new)} of {len(rows)} rows were not measured before, as {named(new[0])}"
    for each, row in rows.items():
        for name in (name for name in row if is_ratio(name) and f"{name}{HIGHEST}" in old.get(each, ())):
            highest = old[each][f"{name}{HIGHEST}"]
            if row[f"{name}{LOWEST}"] > highest:
                one, other = old[each][name], row[name]
                yield f"slower: {named(each)}: {name} {one:.3g} (to {highest:.3g}) became {other:.3g}"


def key(row: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What a row is about: all that is no measure, which are fractional numbers."""
    return tuple((name, value) for name, value in row.items() if isinstance(value, str | int))


def named(row: tuple[tuple[str, Any], ...]) -> str:
    """A row in words."""
    return ", ".join(value if isinstance(value, str) else f"{name} {value}" for name, value in row)


def is_ratio(name: str) -> bool:
    """Whether a column is a time beside a peer's, with its spread."""
    return (name == "ratio" or name.startswith(("time / ", "with / "))) and not name.endswith(
        (LOWEST, HIGHEST)
    )


@contextmanager
def folder_of(results: str) -> Iterator[Path]:
    """A folder of kept results, or a commit's."""
    if Path(results).is_dir():
        yield Path(results)
        return
    place = RESULTS.relative_to(ROOT).as_posix()
    done = subprocess.run(["git", "archive", results, place], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{results} is no folder and no commit: {done.stderr.decode().strip()}")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
        yield Path(folder) / place


if __name__ == "__main__":
    main()
