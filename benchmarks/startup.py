"""How long `import peirce` and `peirce --help` take, beside a bare interpreter.

python benchmarks/startup.py [--repeats N]
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from measuring import record, seconds

WAYS = {
    "python -c pass": ["-c", "pass"],
    "import peirce": ["-c", "import peirce"],
    "peirce --help": ["-m", "peirce", "--help"],
    "peirce plugins list": ["-m", "peirce", "plugins", "list"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats

    def run(arguments: list[str]) -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    times = seconds({name: lambda a=arguments: run(a) for name, arguments in WAYS.items()}, repeats)
    bare = times["python -c pass"]
    rows = [{"command": n, "ms": t * 1e3, "ms above python": (t - bare) * 1e3} for n, t in times.items()]
    record("startup", rows)


if __name__ == "__main__":
    main()
