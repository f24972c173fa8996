"""How long `import peirce` and `peirce --help` take, beside a bare interpreter.

python benchmarks/startup.py [--repeats N]
"""

from __future__ import annotations

import subprocess
import sys
import time

from measuring import beside, parsed, record, spread, turns

WAYS = {
    "python -c pass": ["-c", "pass"],
    "import peirce": ["-c", "import peirce"],
    "peirce --help": ["-m", "peirce", "--help"],
    "peirce plugins list": ["-m", "peirce", "plugins", "list"],
}


def main() -> None:
    repeats = parsed(__doc__, 9).repeats

    def run(arguments: list[str]) -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    ways = {name: lambda a=arguments: run(a) for name, arguments in WAYS.items()}
    times = turns(ways, repeats, time.perf_counter)
    bare = times["python -c pass"]
    rows = [
        {"command": name} | spread("ms", [1e3 * each for each in own]) | beside("time / python", own, bare)
        for name, own in times.items()
    ]
    record("startup", rows)


if __name__ == "__main__":
    main()
