"""Fig. 5 from scratch: `python -m peirce_plugins.tasks.clutrr.experiment --data FOLDER`.

Trains networks of one size on stories of few facts, all with the same steps and batches, several seeds each, and tests
them on stories of more. Every finished run is a few rows of a CSV file, with its command, commit and seed; a run that
is there already is not done again, and one that was interrupted continues. The figure shows accuracy by number of
facts.
"""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import attrs
import numpy as np
import typer
from attrs import field, frozen
from peirce.errors import PeirceError, TaskError, unknown
from peirce.files import write_whole
from peirce.model import build
from peirce.registry import Registry
from peirce.spec import Spec, load_spec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from peirce_plugins.tasks.clutrr.stories import Text
from peirce_plugins.tasks.clutrr.task import Clutrr, ClutrrData, ClutrrOptions
from peirce_plugins.tasks.experiments.results import commit, digest, read_rows, write_rows
from peirce_plugins.tasks.extras import require_training
from peirce_plugins.tasks.loop import train
from peirce_plugins.tasks.options import TrainingOptions, plain

RESULTS, FIGURE = "results.csv", "accuracy.png"
_FOLNET = {
    "model.dims": {
        "layers": 4,
        "unary": 64,
        "binary": 8,
        "heads": 4,
        "head_size": 16,
        "feedforward_unary": 256,
        "feedforward_binary": 16,
    },
    "model.positions": [{"use": "distance", "clip": 32, "cls": True}],
}
_SMALL = {"model.regularisation.dropout": 0.0, "model.regularisation.init_std": 0.1}


@frozen(kw_only=True)
class Arm:
    """One of the networks that are compared.

    Args:
        name: what the figure calls it.
        spec: the ready spec that it is a small form of.
        changes: what makes it small.
        width: the key of the spec that is set so that it has as many parameters as `Plan.like`; empty to leave it.
        longer: how many times the steps of the others it is trained.
    """

    name: str
    spec: str
    changes: Mapping[str, Any]
    width: str = ""
    longer: float = 1.0


ARMS = (
    Arm(
        name="FOLNet (jmc.atp)",
        spec="folnet-base",
        changes={**_FOLNET, **_SMALL, "model.operators.layer": "jmc.atp"},
    ),
    Arm(
        name="FOLNet (j.a)",
        spec="folnet-base",
        changes={**_FOLNET, **_SMALL, "model.operators.layer": "j.a"},
        width="model.dims.feedforward_unary",
    ),
    Arm(
        name="BERT",
        spec="bert-base",
        changes={"model.dims": {"layers": 4, "unary": 64, "heads": 4, "feedforward": 256}, **_SMALL},
        width="model.dims.feedforward",
    ),
)
"""What Fig. 5 compares, of one size and budget."""
LONGER = attrs.evolve(ARMS[2], name="BERT, 4 times the steps", longer=4.0)
"""About the time that FOLNet takes, in place of the same steps; only on demand."""


@frozen(kw_only=True)
class Plan:
    """What an experiment does.

    Args:
        directory: where models, results and the figure go.
        task: what is read, and how it is put to the models.
        training: how each model is trained.
        arms: the networks.
        like: the one that they match in parameters.
        seeds: the seeds of each of them.
        command: how the experiment was started.
        registry: where parts are looked up; the default registry if None.
    """

    directory: Path
    task: ClutrrOptions
    training: TrainingOptions
    arms: tuple[Arm, ...] = ARMS
    like: Arm = ARMS[0]
    seeds: tuple[int, ...] = (0, 1, 2)
    command: str = ""
    registry: Registry | None = None


COLUMNS = ("run", "arm", "seed", "train_hops", "split", "hops", "stories", "right", "accuracy")
FACTS = ("parameters", "steps", "seconds", "last_loss", "commit", "command")


@frozen
class Result:
    """One row of the results: how a run does on the stories of one number of facts in one split."""

    run: str
    arm: str
    seed: int = field(converter=int)
    train_hops: str
    split: str
    hops: int = field(converter=int)
    stories: int = field(converter=int)
    right: int = field(converter=int)
    parameters: int = field(converter=int)
    steps: int = field(converter=int)
    seconds: float = field(converter=float)
    last_loss: float = field(converter=float)
    commit: str
    command: str

    @property
    def accuracy(self) -> float:
        """The share of stories whose relation is named right."""
        return round(self.right / self.stories, 4)


def run(plan: Plan, console: Console) -> list[Result]:
    """Do the runs that are not done yet, then draw the figure.

    Returns:
        The rows of this plan's runs, earlier ones included.

    Raises:
        PeirceError: a run cannot be done; those before it are kept.
    """
    require_training()
    task = Clutrr(plan.task)
    data = task.prepare()
    plan.directory.mkdir(parents=True, exist_ok=True)
    path = plan.directory / RESULTS
    kept = read_rows(path, Result)
    specs = sized(plan, task, data, console)
    wanted = []
    for seed in plan.seeds:
        for arm in plan.arms:
            training = _training(plan, arm)
            name = _identity(plan, specs[arm.name], training, seed)
            wanted.append(name)
            title = f"{arm.name}, seed {seed}"
            if any(row.run == name for row in kept):
                console.print(f"{title}: done before (run {name})", highlight=False)
                continue
            console.rule(title)
            found = train(
                specs[arm.name],
                task,
                training,
                plan.directory / name,
                seed=seed,
                resume=True,
                registry=plan.registry,
                console=console,
                data=data,
            )
            rows = []
            for split in ("valid", "test"):
                if not data.splits[split].rows:
                    continue
                right, hops = task.right(found.model, data, split)
                for k in np.unique(hops):
                    rows.append(
                        Result(
                            run=name,
                            arm=arm.name,
                            seed=seed,
                            train_hops=_hops(plan),
                            split=split,
                            hops=int(k),
                            stories=int((hops == k).sum()),
                            right=int(right[hops == k].sum()),
                            parameters=sum(p.numel() for p in found.model.parameters()),
                            steps=found.steps,
                            seconds=round(found.seconds, 1),
                            last_loss=round(float(np.mean(found.losses[-100:])), 4),
                            commit=commit(),
                            command=plan.command,
                        )
                    )
            kept += rows
            write_rows(path, kept, (*COLUMNS, *FACTS))
            console.print(
                f"{title}: {found.steps:,} steps in {found.seconds:.0f} s, last loss {rows[0].last_loss:.3f}; "
                + ", ".join(f"{row.split} {row.hops}: {row.accuracy:.2f}" for row in rows),
                highlight=False,
                soft_wrap=True,
            )
    rows = [row for row in kept if row.run in wanted]
    draw(plan.directory / FIGURE, rows, plan.task, commonest(data))
    console.print(table(rows))
    console.print(f"{path} and {plan.directory / FIGURE}", highlight=False, soft_wrap=True)
    return rows


def sized(plan: Plan, task: Clutrr, data: ClutrrData, console: Console) -> dict[str, Spec]:
    """The specs of the arms by name, those with a `width` as near as can be to `plan.like` in parameters."""

    def small(arm: Arm) -> Spec:
        return load_spec(arm.spec, {**task.overrides(data), **arm.changes, "model.name": _slug(arm.name)})

    target = _parameters(small(plan.like), plan.registry)
    specs: dict[str, Spec] = {}
    for arm in plan.arms:
        spec = small(arm)
        if arm.width:
            count, width = _parameters(spec, plan.registry), spec.dims[arm.width.rpartition(".")[2]]
            more = _parameters(spec.replace({arm.width: width + 1}), plan.registry) - count
            spec = spec.replace({arm.width: max(1, width + round((target - count) / more))})
        console.print(f"{arm.name}: {_parameters(spec, plan.registry):,} parameters", highlight=False)
        specs[arm.name] = spec
    return specs


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
        cells = [
            f"{100 * np.mean(of_arm[k]):.0f} ({100 * min(of_arm[k]):.0f}-{100 * max(of_arm[k]):.0f})"
            for k in hops
        ]
        shown.add_row(escape(arm), *cells)
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


def _training(plan: Plan, arm: Arm) -> TrainingOptions:
    assert plan.training.steps is not None
    return attrs.evolve(plan.training, steps=round(plan.training.steps * arm.longer))


def _identity(plan: Plan, spec: Spec, training: TrainingOptions, seed: int) -> str:
    """A name that two runs share only if they do the same; where the data lie and the number of threads count not."""
    asked = plain(plan.task) | {"folder": ""}
    told = plain(training) | {"threads": 0}
    return f"{spec.name}-{seed}-{digest(spec.to_toml(), asked, told, seed)}"


def _hops(plan: Plan) -> str:
    return " ".join(map(str, plan.task.train_hops))


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())


def _parameters(spec: Spec, registry: Registry | None) -> int:
    return sum(p.numel() for p in build(spec, registry=registry).parameters())


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise TaskError(f"{option} must be whole numbers with commas between them, not {text!r}") from None


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
    seeds: Annotated[str, typer.Option(help="Seeds, with commas between them.")] = "0,1,2",
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each run.")] = 2000,
    batch: Annotated[int, typer.Option(min=1, help="Stories in a batch.")] = 32,
    lr: Annotated[float, typer.Option(help="The highest learning rate.")] = 1e-3,
    text: Annotated[
        str, typer.Option(help="What is read: story, clean_story, or facts for the graph in plain words.")
    ] = "story",
    threads: Annotated[int, typer.Option(min=0, help="Torch's threads; 0 leaves what is set.")] = 0,
    only: Annotated[list[str] | None, typer.Option("--arm", help="Only this network; repeatable.")] = None,
) -> None:
    """Train FOLNet and BERT of one size on CLUTRR from scratch, and draw accuracy by number of facts."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    try:
        known = {arm.name: arm for arm in (*ARMS, LONGER)}
        for name in only or ():
            if name not in known:
                raise TaskError(f"--arm: {unknown('network', name, known)}")
        plan = Plan(
            directory=output,
            task=ClutrrOptions(
                folder=str(folder),
                train_hops=_numbers(train_hops, "--train"),
                people="roles",
                text=_text(text),
                batch_size=batch,
            ),
            training=TrainingOptions(
                steps=steps, lr=lr, beta2=0.98, warmup_ratio=0.05, threads=threads, save_every=500, keep=1
            ),
            arms=tuple(known[name] for name in only) if only else ARMS,
            seeds=_numbers(seeds, "--seeds"),
            command=shlex.join(["python", "-m", "peirce_plugins.tasks.clutrr.experiment", *sys.argv[1:]]),
        )
        run(plan, console)
    except PeirceError as error:
        typer.secho(f"error: {error}", err=True, fg="red")
        raise typer.Exit(2) from error


if __name__ == "__main__":
    typer.run(main)
