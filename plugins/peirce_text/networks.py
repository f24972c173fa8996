"""Networks of one size that are trained alike on a task, from scratch: what FOLNet's Fig. 5 compares."""

from __future__ import annotations

import runpy
import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs
from attrs import field, frozen
from peirce.experiments import (
    Cell,
    Figure,
    FigureTable,
    Matrix,
    ResultRow,
    TableExperiment,
    identity,
    last_loss,
    settings_by_part,
)
from peirce.model import ExperimentRequest
from peirce.registry import load_spec
from peirce.spec import Spec

if TYPE_CHECKING:
    from peirce.model import AnyTask, Model
    from peirce.training import TrainingOptions, TrainResult

_SMALL = {"model.regularisation.dropout": 0.0, "model.regularisation.init_std": 0.1}
_FOLNET = {
    "model.dims": {  # in this order, which is the spec's: a run is known by the spec's text
        "layers": 4,
        "unary": 64,
        "binary": 8,
        "heads": 4,
        "head_size": 16,
        "feedforward_unary": 256,
        "feedforward_binary": 16,
    },
    "model.positions": [{"use": "distance", "clip": 32, "cls": True}],
    **_SMALL,
}


@frozen(kw_only=True)
class Arm:
    """One of the networks that are compared.

    Args:
        name: what the table calls it.
        spec: the ready spec that it is a small form of.
        changes: what makes it small.
        width: the key of the spec that is set so that it has as many parameters as `Networks.like`; empty to leave it.
        longer: how many times the steps of the others it is trained.
    """

    name: str
    spec: str
    changes: Mapping[str, Any]
    width: str = ""
    longer: float = 1.0


ARMS = (
    Arm(name="FOLNet (jmc.atp)", spec="folnet-base", changes={**_FOLNET, "model.operators.layer": "jmc.atp"}),
    Arm(
        name="FOLNet (j.a)",
        spec="folnet-base",
        changes={**_FOLNET, "model.operators.layer": "j.a"},
        width="model.dims.feedforward_unary",
    ),
    Arm(
        name="BERT",
        spec="bert-base",
        changes={"model.dims": {"layers": 4, "unary": 64, "heads": 4, "feedforward": 256}, **_SMALL},
        width="model.dims.feedforward",
    ),
)
LONGER = attrs.evolve(ARMS[2], name="BERT, 4 times the steps", longer=4.0)
"""About the time that FOLNet takes, in place of the same steps; only on demand."""


@frozen(kw_only=True)
class NetworkRow(ResultRow):
    """How a network does on the examples of one group in one split; subclasses name the group and the examples."""

    arm: str
    split: str
    right: int = field(converter=int)
    last_loss: float = field(converter=float)

    group: ClassVar[str]
    """The attribute that tells groups apart."""
    count: ClassVar[str]
    """The attribute that counts a group's examples."""

    @property
    def accuracy(self) -> float:
        """The share of examples that the network has right."""
        return round(self.right / getattr(self, self.count), 4)


R = TypeVar("R", bound=NetworkRow)
FACTS = ("parameters", "steps", "seconds", "last_loss", "spec_digest", "commit", "evaluated", "command")


@frozen(kw_only=True, eq=False)
class Networks(Matrix[Cell, R]):
    """The networks on a task, with several seeds each.

    Args:
        task: what the networks learn.
        training: how each of them is trained; its steps are set.
        arms: the networks.
        changes: what differs from the arms' specs, by dotted key.
        like: the network that the others match in parameters.
        seeds: the seeds of each of them.
    """

    task: AnyTask
    training: TrainingOptions
    arms: tuple[Arm, ...] = ARMS
    changes: Mapping[str, Any] = field(factory=dict)
    like: Arm = ARMS[0]
    seeds: tuple[int, ...] = (0, 1, 2)

    constant: ClassVar[str]
    """The label of what depends on no training."""

    @abstractmethod
    def counted(self, model: Model, data: Any) -> Iterator[Mapping[str, Any]]:
        """The rows of a trained model: for each, its split, its right ones, and what its class adds."""

    @abstractmethod
    def baseline(self, data: Any) -> Mapping[str, tuple[str, object, float]]:
        """By the head of a column: the split and the group that it shows, None for all, and `constant`'s share."""

    @abstractmethod
    def table(self, rows: Sequence[R]) -> FigureTable:
        """The table of rows."""

    def tables(self, rows: Sequence[R]) -> Sequence[FigureTable]:
        """The table alone."""
        return (self.table(rows),)

    def cells(self) -> Iterator[Cell]:
        """The trainings, all networks of one seed before the next seed."""
        from peirce.training import plain

        specs = self.sized()
        asked = plain(self.task.options) | {"folder": ""}  # where the data lie does not count
        for seed in self.seeds:
            for arm in self.arms:
                steps = round((self.training.steps or 0) * arm.longer)
                training = attrs.evolve(self.training, steps=steps)
                yield Cell(
                    label=arm.name,
                    seed=seed,
                    spec=specs[arm.name],
                    task=self.task,
                    training=training,
                    run=identity(specs[arm.name], asked, training, seed),
                )

    def sized(self) -> dict[str, Spec]:
        """The specs of the networks by name, those with a `width` as near as can be to `like` in parameters."""
        given = self.task.overrides(self.prepared.of(self.task))

        def small(arm: Arm) -> Spec:
            slug = "-".join("".join(c if c.isalnum() else " " for c in arm.name.lower()).split())
            return load_spec(arm.spec, {**given, **arm.changes, **self.changes, "model.name": slug})

        target = self.parameters(small(self.like))
        specs: dict[str, Spec] = {}
        for arm in self.arms:
            spec = small(arm)
            if arm.width:
                count, width = self.parameters(spec), spec.dims[arm.width.rpartition(".")[2]]
                more = self.parameters(spec.replace({arm.width: width + 1})) - count
                spec = spec.replace({arm.width: max(1, width + round((target - count) / more))})
            specs[arm.name] = spec
        return specs

    def parameters(self, spec: Spec) -> int:
        """How many parameters a spec's model has."""
        from peirce.compose import build

        return sum(p.numel() for p in build(spec, registry=self.registry).parameters())

    def measured(self, cell: Cell, trained: TrainResult, data: Any, before: Sequence[R]) -> Iterator[R]:
        """A row for each group of examples."""
        common = {**self.facts(cell, trained), "arm": cell.label, "last_loss": last_loss(trained)}
        for counts in self.counted(trained.model, data):
            yield self.row(**common, **counts)

    def said(self, cell: Cell, rows: Sequence[R]) -> str:
        """The training's time and loss, and each row's accuracy."""
        found = ", ".join(f"{row.split} {getattr(row, row.group)}: {row.accuracy:.2f}" for row in rows)
        first = rows[0]
        return f"{super().said(cell, rows)}, {first.parameters:,} parameters, last loss {first.last_loss:.3f}; {found}"

    def accuracies(self, rows: Sequence[R], title: str, **more: Any) -> FigureTable:
        """Accuracy in percent by network and column, beside `constant`.

        Args:
            rows: the results.
            title: what the table shows.
            more: what the picture needs.
        """
        columns = self.baseline(self.prepared.of(self.task))
        options: Any = self.task.options
        found: dict[str, list[Figure]] = {}
        for arm in dict.fromkeys(row.arm for row in rows):
            for column, (split, group, _) in columns.items():
                by: dict[str, list[R]] = {}
                for row in rows:
                    if (row.arm, row.split) == (arm, split) and group in (None, getattr(row, row.group)):
                        by.setdefault(row.run, []).append(row)
                shares = [
                    sum(r.right for r in own) / sum(getattr(r, r.count) for r in own) for own in by.values()
                ]
                figure = Figure(row=arm, column=column, values=tuple(100 * share for share in shares))
                found.setdefault(arm, []).append(figure)
        found[self.constant] = [
            Figure(row=self.constant, column=column, values=(100 * share,))
            for column, (_, _, share) in columns.items()
        ]
        return FigureTable(
            name="accuracy",
            title=title,
            about=f"{self.task.name} on {options.folder or options.dataset}.",
            columns=tuple(columns),
            figures=found,
            facts=[f"Accuracy in %, mean (lowest to highest) over {len(self.seeds)} seeds."],
            sources=self.sources(rows, "arm"),
            unit="accuracy (%)",
            constant=(self.constant,),
            digits=0,
            **more,
        )


TRAINING = {"train.lr": 1e-3, "train.beta2": 0.98, "train.warmup_ratio": 0.05, "train.keep": 1}
"""How every network is trained, unless told otherwise."""


@frozen(kw_only=True, eq=False)
class FromScratch(TableExperiment):
    """The networks on a task, as an experiment.

    Args:
        networks: the matrix of the task that has the experiment's name.
        settings: the task's and the training's, by dotted key.
    """

    rows: tuple[str, ...] = tuple(arm.name for arm in ARMS)
    more: tuple[str, ...] = (LONGER.name,)
    scales: Mapping[str, str] = field(factory=lambda: {"scratch": "4 layers of 64, on the task's data alone"})
    networks: type[Networks[Any]]
    settings: Mapping[str, Any]

    def asked(self, request: ExperimentRequest) -> Networks[Any]:
        """The networks that a request asks for."""
        from peirce.training import make_task, training_options

        model, task, training = settings_by_part(
            TRAINING, self.settings, {"task.folder": request.data}, request.settings
        )
        return self.networks(
            directory=request.directory,
            task=make_task(self.name, task),
            training=training_options(training),
            arms=tuple(arm for arm in (*ARMS, LONGER) if arm.name in (request.rows or self.rows)),
            changes=model,
            seeds=request.seeds,
            command=request.command,
            only_evaluate=request.only_evaluate,
        )


FLAGS = {
    "--steps": "train.steps={}",
    "--lr": "train.lr={}",
    "--threads": "train.threads={}",
    "--batch": "task.batch_size={}",
}
"""Options of `run_command`, and the settings that they are short for."""


def run_command(name: str, flags: Mapping[str, str]) -> None:
    """Run `peirce experiments run NAME` with the short options of `python -m peirce_text.NAME.experiment`."""
    words = (word for one in sys.argv[1:] for word in (one.split("=", 1) if one.startswith("--") else [one]))
    arguments = ["peirce", "experiments", "run", name]
    for word in words:
        arguments += (
            ["--set", flags[word].format(next(words))]
            if word in flags
            else ["--row" if word == "--arm" else word]
        )
    sys.argv = arguments
    runpy.run_module("peirce", run_name="__main__")
