"""Measures what the tests run of each distribution, lines and branches, and writes benchmarks/results/coverage.csv.

`tox -e coverage` runs this; arguments go to pytest. Code that only runs in processes of their own, such as workers and
commands, counts as not covered.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from workspace import ROOT, distributions

TABLE = ROOT / "benchmarks" / "results" / "coverage.csv"
COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def rows(report: dict[str, Any]) -> list[dict[str, object]]:
    """A row for each distribution, from what coverage.py writes as JSON."""
    found = []
    for name, each in distributions().items():
        files = [
            file["summary"]
            for path, file in report["files"].items()
            if {*Path(path).parts} & {*each.packages}
        ]
        counts = {count: sum(file[count] for file in files) for count in COUNTS}
        every = counts["num_statements"] + counts["num_branches"]
        if every:
            covered = counts["covered_lines"] + counts["covered_branches"]
            found.append({"distribution": name, **counts, "percent": f"{100 * covered / every:.1f}"})
    return found


def main() -> int:
    packages = [package for each in distributions().values() for package in each.packages]
    with TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        command = [sys.executable, "-P", "-m", "pytest", "-n", "2", "--dist", "worksteal", "--durations=30"]
        command += [
            *(f"--cov={package}" for package in packages),
            "--cov-branch",
            f"--cov-report=json:{report}",
        ]
        done = subprocess.run([*command, *sys.argv[1:]], cwd=ROOT, env=os.environ, check=False)
        if not report.is_file():
            return done.returncode or 1
        table = rows(json.loads(report.read_text(encoding="utf-8")))
    if not sys.argv[1:]:  # a part of the tests is not what the table is of
        with TABLE.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, table[0])
            writer.writeheader()
            writer.writerows(table)
    for row in table:
        print(*row.values(), sep="\t")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
