"""FOLIO from scratch: `python -m peirce_text.folio.experiment --data FOLDER`.

Trains networks of one size on the training problems, all with the same steps and batches, several seeds each, and shows
how many validation problems they label right, beside always giving the commonest label.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer
from attrs import field, frozen
from peirce.errors import PeirceError
from peirce.experiments import (
    RESULTS,
    Only,
    Plan,
    Rate,
    Seeds,
    Steps,
    Threads,
    chosen,
    compare,
    comparison,
    numbers,
    spread,
)
from peirce.extras import require_training
from peirce.model import Model
from peirce.training import TrainingOptions
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from peirce_text.folio.problems import LABELS
from peirce_text.folio.task import Folio, FolioData, FolioOptions

COLUMNS = ("run", "arm", "seed", "split", "label", "problems", "right", "accuracy")
SHOWN = ("train", "valid")


@frozen(kw_only=True)
class Result(comparison.Result):
    """How a run does on the problems of one label in one split."""

    split: str
    label: str
    problems: int = field(converter=int)
    right: int = field(converter=int)

    @property
    def accuracy(self) -> float:
        """The share of problems that got their label."""
        return round(self.right / self.problems, 4)

    @property
    def short(self) -> str:
        """Such as `valid True: 0.52`."""
        return f"{self.split} {self.label}: {self.accuracy:.2f}"


def run(plan: Plan, console: Console) -> list[Result]:
    """Do the runs that are not done yet, then show the table.

    Args:
        plan: the runs; its task is `Folio`.
        console: where progress is shown.

    Returns:
        The rows of this plan's runs, earlier ones included.

    Raises:
        PeirceError: a run cannot be done; those before it are kept.
    """
    require_training()
    task = cast(Folio, plan.task)
    data = task.prepare()

    def measured(model: Model) -> Iterator[dict[str, Any]]:
        for split in SHOWN:
            right, given = task.labelled(model, data, split)
            for number, label in enumerate(LABELS):
                of_label = right == number
                yield {
                    "split": split,
                    "label": label,
                    "problems": int(of_label.sum()),
                    "right": int((given[of_label] == number).sum()),
                }

    rows = compare(plan, data, Result, COLUMNS, measured, console)
    console.print(table(rows, commonest(data)))
    console.print(f"{plan.directory / RESULTS}", highlight=False, soft_wrap=True)
    return rows


def commonest(data: FolioData) -> dict[str, float]:
    """For each split, the accuracy of always giving the training problems' commonest label."""
    guess = np.bincount(data.labels["train"]).argmax()
    return {split: float((data.labels[split] == guess).mean()) for split in SHOWN}


def table(rows: Sequence[Result], guess: dict[str, float]) -> Table:
    """Mean accuracy in percent by network and split, with the lowest and highest over seeds."""
    shown = Table(title="Accuracy in %, mean (lowest to highest) over seeds")
    shown.add_column("")
    for split in SHOWN:
        shown.add_column(split, justify="right")
    for arm in dict.fromkeys(row.arm for row in rows):
        shown.add_row(escape(arm), *(spread(_accuracies(rows, arm, split)) for split in SHOWN))
    shown.add_row("the commonest label", *(f"{100 * guess[split]:.0f}" for split in SHOWN))
    return shown


def _accuracies(rows: Sequence[Result], arm: str, split: str) -> list[float]:
    """Over all labels, of each seed."""
    by: dict[str, list[Result]] = {}
    for row in rows:
        if (row.arm, row.split) == (arm, split):
            by.setdefault(row.run, []).append(row)
    return [sum(row.right for row in own) / sum(row.problems for row in own) for own in by.values()]


def main(
    folder: Annotated[
        Path, typer.Option("--data", metavar="FOLDER", help="FOLIO's files, such as train.jsonl.gz.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where models and results go.")
    ] = Path("runs/folio"),
    seeds: Seeds = "0,1,2",
    steps: Steps = 600,
    batch: Annotated[int, typer.Option(min=1, help="Problems in a batch.")] = 16,
    lr: Rate = 1e-3,
    threads: Threads = 0,
    only: Only = None,
) -> None:
    """Train FOLNet and BERT of one size on FOLIO from scratch."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    try:
        plan = Plan(
            directory=output,
            task=Folio(FolioOptions(folder=str(folder), vocabulary=4000, batch_size=batch)),
            training=TrainingOptions(
                steps=steps, lr=lr, beta2=0.98, warmup_ratio=0.05, threads=threads, save_every=200, keep=1
            ),
            arms=chosen(only),
            seeds=numbers(seeds, "--seeds"),
            command=shlex.join(["python", "-m", "peirce_text.folio.experiment", *sys.argv[1:]]),
        )
        run(plan, console)
    except PeirceError as error:
        typer.secho(f"error: {error}", err=True, fg="red")
        raise typer.Exit(2) from error


if __name__ == "__main__":
    typer.run(main)
