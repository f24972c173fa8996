"""The runs of the papers' tables that a CPU does not finish, in pieces of minutes that go on where the last ended.

Each run is one command of `peirce`, which resumes from its last checkpoint; a piece is that command, ended as Ctrl-C
ends it once its minutes are over. On a CPU pieces give the weights of one whole run to the bit. A run that has ended
gives one row, a line of JSON with the figures of its table.

python benchmarks/campaign.py list                # what is done, what has begun, what lacks its data
python benchmarks/campaign.py next                # the next piece
python benchmarks/campaign.py pack campaign.tar   # the data of what is not done, 40 MB at most, for another machine
"""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measuring import RESULTS, SHARED, machine

from peirce.files import read_json, write_json

MOST_MB = 40
"""What data may take: another machine gets them with the code."""
SAVE = "--set train.save_minutes=2"


@dataclass(frozen=True)
class Run:
    """One run.

    Args:
        command: of `peirce`, with `{data}` and `{out}`.
        needs: folders and files of the data that it reads.
        first: a command that makes `{out}-data` of them, if any.
    """

    command: str
    needs: tuple[str, ...]
    first: str = ""

    def commands(self, data: Path, out: Path) -> Iterator[list[str]]:
        """The commands that are left, as words; `pretrain` is told to resume, and experiments do so by themselves."""
        if self.first and not any(Path(f"{out}-data").glob("*.txt")):
            yield [word.format(data=data, out=out) for word in shlex.split(self.first)]
        words = [word.format(data=data, out=out) for word in shlex.split(self.command)]
        yield [*words, "--resume"] if words[0] == "pretrain" else words


def pretraining(recipe: str) -> Run:
    """Pretraining on books, for more steps than the 1,500 that a CPU took."""
    files = ("text/gutenberg-train.txt.gz", "text/gutenberg-valid.txt.gz")
    read = f"--data {{data}}/{files[0]} --valid {{data}}/{files[1]} --set train.steps=20000"
    return Run(f"pretrain {recipe} {read} -o {{out}} {SAVE}", files)


def table(name: str, data: str, more: str = "") -> Run:
    """A table of a paper at its sizes, with three seeds unless there is more to say."""
    return Run(
        f"experiments run {name} --data {{data}}/{data} -o {{out}} --scale paper {more} {SAVE}", (data,)
    )


RUNS: Mapping[str, Run] = {
    "pretraining-folnet": pretraining("folnet-small"),
    "pretraining-bert": pretraining("bert-small"),
    "rcc8": table("relations/rcc8", "relation-algebras"),
    "clutrr": table("relations/clutrr", "clutrr/data_db9b8f04"),
    "tpru-table1": Run(
        f"experiments run tpru/table1 --data {{out}}-data -o {{out}} --scale paper {SAVE}",
        ("logical-entailment",),
        "entailment generate {out}-data --pairs 100000 --published {data}/logical-entailment",
    ),
    **{f"tega-table{n}": table(f"tega/table{n}", "kg/fb15k-237", "--seeds 0") for n in (3, 5, 6, 16)},
    # whose encoders are larger than what is packed: they must be on the machine
    "logical-dream": Run(
        f"experiments run logical/table2 --data {{data}}/dream -o {{out}} {SAVE} "
        "--set model.options.source={data}/models/minilm",
        ("dream", "models/minilm"),
    ),
    "logical-dialogsum": Run(
        f"experiments run logical/table3 --data {{data}}/dialogsum --scale paper -o {{out}} {SAVE} "
        "--set model.options.source={data}/models/bart-large",
        ("dialogsum", "models/bart-large"),
    ),
}


def piece(command: Sequence[str], over: Callable[[], bool]) -> bool:
    """Run a command until it ends or its time is over; whether it has ended.

    Raises:
        SystemExit: it failed.
    """
    print(f"peirce {shlex.join(command)}", flush=True)
    process = subprocess.Popen([sys.executable, "-m", "peirce", *command])
    try:
        while process.poll() is None and not over():
            time.sleep(0.2)
    finally:
        if cut := process.poll() is None:
            process.send_signal(signal.SIGINT)
        code = process.wait()
    if code and not cut:
        sys.exit(f"peirce {shlex.join(command)} failed with {code}; mend it, and go on with `next`")
    return not code


def is_over(ends: float) -> bool:
    """Whether the clock is beyond a time."""
    return time.monotonic() > ends


def figures(out: Path) -> dict[str, Any]:
    """What a run that has ended measured: a table's means by row and column, or a training's metrics."""
    found = {}
    for path in sorted(out.glob("*.csv")):
        if path.name != "results.csv":
            with path.open(encoding="utf-8", newline="") as file:
                found |= {f"{row['row']}, {row['column']}": row["mean"] for row in csv.DictReader(file)}
    return found or dict(read_json(out / "metrics.json"))


def state(out: Path, name: str) -> dict[str, Any]:
    """The pieces and seconds of a run so far, and whether it is done."""
    path = out / f"{name}.json"
    return dict(read_json(path)) if path.exists() else {"pieces": 0, "seconds": 0.0, "done": False}


def lacking(run: Run, data: Path) -> str:
    """What a run needs and the data lack."""
    return ", ".join(each for each in run.needs if not (data / each).exists())


def go_on(asked: argparse.Namespace) -> None:
    """Run the next piece; keep the row of a run that ends."""
    for name, run in RUNS.items():
        own = state(asked.out, name)
        if own["done"] or lacking(run, asked.data):
            continue
        begun, commands = time.monotonic(), run.commands(asked.data, asked.out / name)
        over = partial(is_over, begun + 60 * asked.minutes)
        asked.out.mkdir(parents=True, exist_ok=True)
        own["done"] = all(piece(words, over) for words in commands)
        own |= {"pieces": own["pieces"] + 1, "seconds": own["seconds"] + time.monotonic() - begun}
        if own["done"]:
            row = {"run": name, "command": run.command, **own, "machine": machine()}
            with asked.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row | {"figures": figures(asked.out / name)}) + "\n")
        write_json(asked.out / f"{name}.json", own)
        return
    print("nothing is left that has its data; `list` says what lacks which")


def show(asked: argparse.Namespace) -> None:
    """Print the state of each run."""
    for name, run in RUNS.items():
        own, missing = state(asked.out, name), lacking(run, asked.data)
        begun = f"{own['pieces']} pieces, {own['seconds'] / 60:.0f} minutes" if own["pieces"] else "not begun"
        print(f"{name:20} {'done, ' * own['done']}{begun}{f'; lacks {missing}' * bool(missing)}")


def pack(asked: argparse.Namespace) -> None:
    """Write the data of the runs that are not done into one file."""
    left = [run for name, run in RUNS.items() if not state(asked.out, name)["done"]]
    needed = sorted({each for run in left if not lacking(run, asked.data) for each in run.needs})
    with tarfile.open(asked.file, "w") as archive:
        for each in needed:
            archive.add(asked.data / each, each)
    size = asked.file.stat().st_size / 1e6
    if size > MOST_MB:
        asked.file.unlink()
        sys.exit(f"the data of {', '.join(needed)} are {size:.0f} MB, and {MOST_MB} is the most")
    print(f"{asked.file}: {size:.1f} MB; there: tar -xf {asked.file} -C DATA, then next --data DATA")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["list", "next", "pack"])
    parser.add_argument("file", nargs="?", type=Path, default=Path("campaign.tar"), help="of `pack`")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--out", type=Path, default=Path("runs/campaign"), help="checkpoints and states")
    parser.add_argument("--rows", type=Path, default=RESULTS / "campaign.jsonl", help="of what has ended")
    parser.add_argument("--minutes", type=float, default=8)
    asked = parser.parse_args()
    {"list": show, "next": go_on, "pack": pack}[asked.what](asked)


if __name__ == "__main__":
    main()
