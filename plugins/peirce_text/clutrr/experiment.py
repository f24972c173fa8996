"""Fig. 5 from scratch: `python -m peirce_text.clutrr.experiment --data FOLDER`.

Trains networks of one size on stories of few facts, all with the same steps and batches, several seeds each, and tests
them on stories of more. The figure shows accuracy by number of facts.
"""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import numpy as np
import typer
from attrs import field, frozen
from peirce.errors import PeirceError, TaskError, unknown
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
from peirce.files import write_whole
from peirce.model import Model
from peirce.training import TrainingOptions
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from peirce_text.clutrr.stories import Text
from peirce_text.clutrr.task import Clutrr, ClutrrData, ClutrrOptions

FIGURE = "accuracy.png"
COLUMNS = ("run", "arm", "seed", "train_hops", "split", "hops", "stories", "right", "accuracy")


@frozen(kw_only=True)
class Result(comparison.Result):
    """How a run does on the stories of one number of facts in one split."""

    train_hops: str
    split: str
    hops: int = field(converter=int)
    stories: int = field(converter=int)
    right: int = field(converter=int)

    @property
    def accuracy(self) -> float:
        """The share of stories whose relation is named right."""
        return round(self.right / self.stories, 4)

    @property
    def short(self) -> str:
        """Such as `test 4: 0.95`."""
        return f"{self.split} {self.hops}: {self.accuracy:.2f}"


def run(plan: Plan, console: Console) -> list[Result]:
    """Do the runs that are not done yet, then draw the figure.

    Args:
        plan: the runs; its task is `Clutrr`.
        console: where progress is shown.

    Returns:
        The rows of this plan's runs, earlier ones included.

    Raises:
        PeirceError: a run cannot be done; those before it are kept.
    """
    require_training()
    task = cast(Clutrr, plan.task)
    data = task.prepare()
    told = " ".join(map(str, task.options.train_hops))

    def measured(model: Model) -> Iterator[dict[str, Any]]:
        for split in ("valid", "test"):
            if not data.splits[split].rows:
                continue
            right, hops = task.right(model, data, split)
            for k in np.unique(hops):
                stories, known = int((hops == k).sum()), int(right[hops == k].sum())
                yield {
                    "train_hops": told, "split": split, "hops": int(k), "stories": stories, "right": known
                }  # fmt: skip

    rows = compare(plan, data, Result, COLUMNS, measured, console)
    draw(plan.directory / FIGURE, rows, task.options, commonest(data))
    console.print(table(rows))
    console.print(
        f"{plan.directory / RESULTS} and {plan.directory / FIGURE}", highlight=False, soft_wrap=True
    )
    return rows


def commonest(data: ClutrrData) -> dict[int, float]:
    """For each number of facts, the test accuracy of always naming the training stories' commonest relation."""
    part = data.splits["test"]
    guess = np.bincount(data.splits["train"].relations).argmax()
    return {int(k): float((part.relations[part.hops == k] == guess).mean()) for k in np.unique(part.hops)}


def table(rows: Sequence[Result]) -> Table:
    """Mean test accuracy in percent by arm and number of facts, with the lowest and highest over seeds."""
    by = _grouped(rows)
    hops = sorted({k for of_arm in by.values() for k in of_arm})
    shown = Table(title="Test accuracy in %, mean (lowest to highest) over seeds, by number of facts")
    shown.add_column("")
    for k in hops:
        shown.add_column(str(k), justify="right")
    for arm, of_arm in by.items():
        shown.add_row(escape(arm), *(spread(of_arm[k]) for k in hops))
    return shown


def draw(path: Path, rows: Sequence[Result], task: ClutrrOptions, guess: Mapping[int, float]) -> None:
    """Draw test accuracy by number of facts: each seed a dot, the mean a line, lowest to highest a band.

    Args:
        path: the PNG file to write.
        rows: the results.
        task: what was trained on.
        guess: the accuracy of the commonest relation, by number of facts.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    trained = task.train_hops
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.axvspan(min(trained) - 0.4, max(trained) + 0.4, color="0.92", label="trained on")
    for i, (arm, of_arm) in enumerate(_grouped(rows).items()):
        hops, colour = sorted(of_arm), f"C{i}"
        axes.plot(hops, [100 * np.mean(of_arm[k]) for k in hops], color=colour, label=arm)
        low, high = ([100 * edge(of_arm[k]) for k in hops] for edge in (min, max))
        axes.fill_between(hops, low, high, color=colour, alpha=0.15, linewidth=0)
        for k in hops:
            axes.plot([k] * len(of_arm[k]), [100 * a for a in of_arm[k]], ".", color=colour, markersize=4)
    axes.plot(list(guess), [100 * a for a in guess.values()], ":", color="0.4", label="commonest relation")
    axes.set_xlabel("facts from one person to the other")
    axes.set_ylabel("test accuracy (%)")
    axes.set_ylim(0, 102)
    axes.set_xticks(sorted(guess))
    seeds = len({row.seed for row in rows})
    axes.set_title(
        f"CLUTRR ({task.text}) from scratch, trained on {', '.join(map(str, trained))} facts, {seeds} seeds"
    )
    axes.legend()
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    write_whole(path, picture.getvalue())


def _grouped(rows: Sequence[Result]) -> dict[str, dict[int, list[float]]]:
    """Test accuracies over seeds, by arm and number of facts."""
    by: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        if row.split == "test":
            by.setdefault(row.arm, {}).setdefault(row.hops, []).append(row.accuracy)
    return by


def _text(name: str) -> Text:
    for known in get_args(Text):
        if name == known:
            return known
    raise TaskError(f"--text: {unknown('text', name, get_args(Text))}")


def main(
    folder: Annotated[
        Path, typer.Option("--data", metavar="FOLDER", help="CLUTRR's files, such as 1.2,1.3_train.csv.gz.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where models, results and the figure go.")
    ] = Path("runs/clutrr"),
    train_hops: Annotated[str, typer.Option("--train", help="Facts of the training stories.")] = "2,3",
    seeds: Seeds = "0,1,2",
    steps: Steps = 2000,
    batch: Annotated[int, typer.Option(min=1, help="Stories in a batch.")] = 32,
    lr: Rate = 1e-3,
    text: Annotated[
        str, typer.Option(help="What is read: story, clean_story, or facts for the graph in plain words.")
    ] = "story",
    threads: Threads = 0,
    only: Only = None,
) -> None:
    """Train FOLNet and BERT of one size on CLUTRR from scratch, and draw accuracy by number of facts."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    try:
        plan = Plan(
            directory=output,
            task=Clutrr(
                ClutrrOptions(
                    folder=str(folder),
                    train_hops=numbers(train_hops, "--train"),
                    people="roles",
                    text=_text(text),
                    batch_size=batch,
                )
            ),
            training=TrainingOptions(
                steps=steps, lr=lr, beta2=0.98, warmup_ratio=0.05, threads=threads, save_every=500, keep=1
            ),
            arms=chosen(only),
            seeds=numbers(seeds, "--seeds"),
            command=shlex.join(["python", "-m", "peirce_text.clutrr.experiment", *sys.argv[1:]]),
        )
        run(plan, console)
    except PeirceError as error:
        typer.secho(f"error: {error}", err=True, fg="red")
        raise typer.Exit(2) from error


if __name__ == "__main__":
    typer.run(main)
