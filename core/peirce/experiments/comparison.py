"""Networks of one size that are trained alike, with several seeds each, on a task: what they are, and their runs.

Every finished run is a few rows of a CSV file, with its command, commit and seed. A run that is there already is not
done again, and one that was interrupted continues.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import attrs
import numpy as np
import typer
from attrs import field, frozen
from rich.console import Console

from peirce.compose import build
from peirce.errors import TaskError, unknown
from peirce.experiments.results import commit, digest, read_rows, write_rows
from peirce.model import Model, Task
from peirce.registry import Registry, load_spec
from peirce.spec import Spec
from peirce.training import TrainingOptions, plain, train

RESULTS = "results.csv"
Seeds = Annotated[str, typer.Option(help="Seeds, with commas between them.")]
Steps = Annotated[int, typer.Option(min=1, help="Training steps of each run.")]
Rate = Annotated[float, typer.Option(help="The highest learning rate.")]
Threads = Annotated[int, typer.Option(min=0, help="Torch's threads; 0 leaves what is set.")]
Only = Annotated[list[str] | None, typer.Option("--arm", help="Only this network; repeatable.")]
"""The options of every comparison's command."""
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
"""What FOLNet's Fig. 5 compares, of one size and budget."""
LONGER = attrs.evolve(ARMS[2], name="BERT, 4 times the steps", longer=4.0)
"""About the time that FOLNet takes, in place of the same steps; only on demand."""


@frozen(kw_only=True)
class Plan:
    """What a comparison does.

    Args:
        directory: where models, results and figures go.
        task: what the networks learn.
        training: how each of them is trained; its steps are set.
        arms: the networks.
        like: the one that they match in parameters.
        seeds: the seeds of each of them.
        command: how the comparison was started.
        registry: where parts are looked up; the default registry if None.
    """

    directory: Path
    task: Task
    training: TrainingOptions
    arms: tuple[Arm, ...] = ARMS
    like: Arm = ARMS[0]
    seeds: tuple[int, ...] = (0, 1, 2)
    command: str = ""
    registry: Registry | None = None


FACTS = ("parameters", "steps", "seconds", "last_loss", "commit", "command")


@frozen(kw_only=True)
class Result:
    """One row of the results: a figure of a run, in a class of its own for each task, and what is behind it."""

    run: str
    arm: str
    seed: int = field(converter=int)
    parameters: int = field(converter=int)
    steps: int = field(converter=int)
    seconds: float = field(converter=float)
    last_loss: float = field(converter=float)
    commit: str
    command: str

    @property
    @abstractmethod
    def short(self) -> str:
        """The figure in a word or two, for a line of progress."""


R = TypeVar("R", bound=Result)


def compare(
    plan: Plan,
    data: Any,
    of: type[R],
    columns: Sequence[str],
    measured: Callable[[Model], Iterable[Mapping[str, Any]]],
    console: Console,
) -> list[R]:
    """Do the runs that are not done yet, and add their rows to `RESULTS`.

    Args:
        plan: the runs.
        data: what the task prepared.
        of: the class of a row.
        columns: its attributes and properties, in the order of the file's columns; `FACTS` follow them.
        measured: the figures of a trained model: for each row, those attributes that a class of rows adds.
        console: where progress is shown.

    Returns:
        The rows of this plan's runs, earlier ones included.

    Raises:
        PeirceError: a run cannot be done; those before it are kept.
    """
    plan.directory.mkdir(parents=True, exist_ok=True)
    path = plan.directory / RESULTS
    kept = read_rows(path, of)
    specs = sized(plan, data, console)
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
                plan.task,
                training,
                plan.directory / name,
                seed=seed,
                resume=True,
                registry=plan.registry,
                console=console,
                data=data,
            )
            facts: dict[str, Any] = {
                "run": name,
                "arm": arm.name,
                "seed": seed,
                "parameters": sum(p.numel() for p in found.model.parameters()),
                "steps": found.steps,
                "seconds": round(found.seconds, 1),
                "last_loss": round(float(np.mean(found.losses[-100:])), 4),
                "commit": commit(),
                "command": plan.command,
            }
            rows = [of(**facts, **figures) for figures in measured(found.model)]
            kept += rows
            write_rows(path, kept, (*columns, *FACTS))
            console.print(
                f"{title}: {found.steps:,} steps in {found.seconds:.0f} s, last loss {facts['last_loss']:.3f}; "
                + ", ".join(row.short for row in rows),
                highlight=False,
                soft_wrap=True,
            )
    return [row for row in kept if row.run in wanted]


def sized(plan: Plan, data: Any, console: Console) -> dict[str, Spec]:
    """The specs of the arms by name, those with a `width` as near as can be to `plan.like` in parameters."""

    def small(arm: Arm) -> Spec:
        changes = {**plan.task.overrides(data), **arm.changes, "model.name": _slug(arm.name)}
        return load_spec(arm.spec, changes)

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


def chosen(names: Sequence[str] | None) -> tuple[Arm, ...]:
    """The arms of these names, of `ARMS` and `LONGER`; all of `ARMS` for none.

    Raises:
        TaskError: there is no such network.
    """
    known = {arm.name: arm for arm in (*ARMS, LONGER)}
    for name in names or ():
        if name not in known:
            raise TaskError(f"--arm: {unknown('network', name, known)}")
    return tuple(known[name] for name in names) if names else ARMS


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers with commas between them, as a command's option has them.

    Raises:
        TaskError: the text is something else.
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise TaskError(f"{option} must be whole numbers with commas between them, not {text!r}") from None


def spread(values: Sequence[float]) -> str:
    """Shares in percent: their mean, the lowest and the highest."""
    low, middle, high = (100 * float(f(values)) for f in (min, np.mean, max))
    return f"{middle:.0f} ({low:.0f}-{high:.0f})"


def _training(plan: Plan, arm: Arm) -> TrainingOptions:
    assert plan.training.steps is not None
    return attrs.evolve(plan.training, steps=round(plan.training.steps * arm.longer))


def _identity(plan: Plan, spec: Spec, training: TrainingOptions, seed: int) -> str:
    """A name that two runs share only if they do the same; where the data lie and the number of threads count not."""
    asked = plain(plan.task.options) | {"folder": ""}
    told = plain(training) | {"threads": 0}
    return f"{spec.name}-{seed}-{digest(spec.to_toml(), asked, told, seed)}"


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())


def _parameters(spec: Spec, registry: Registry | None) -> int:
    return sum(p.numel() for p in build(spec, registry=registry).parameters())
