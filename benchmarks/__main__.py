"""Runs every benchmark beside this file, one after the other; `python benchmarks NAME...` runs some."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_BENCHMARKS = {
    "__main__",
    "direct_gather",
    "measuring",
    "mutants",
    "mutations",
    "plain_folnet",
    "tables",
    "gpu",
    "host_gpu",
    "lengths",
    "parses",
    "pretraining",
    "exports",
}
"""What others import, what makes pages, what needs a GPU, and what takes minutes: run it by itself."""


def main() -> None:
    known = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_BENCHMARKS)
    wanted = sys.argv[1:] or known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    failed = [
        name
        for name in wanted
        if subprocess.run([sys.executable, HERE / f"{name}.py"], check=False).returncode
    ]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
