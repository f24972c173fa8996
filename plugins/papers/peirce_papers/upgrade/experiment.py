"""`peirce experiments run upgrade/rules --data MODEL`: does a trained encoder reason deeper when it gains relations?

MODEL is an encoder that `peirce import transformers` has made. All rows but one begin with it, and all are trained with
the same problems, batches and steps: which conclusions follow from rules in words, up to three of them in a row. They
are tested on more, with words that no problem for training has, and on problems of a second sampler.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import evolve, field, frozen

from peirce.registry import default_registry, load_spec
from peirce.spec import PartSpec, Spec
from peirce_papers.text.networks import ARMS as FROM_SCRATCH
from peirce_papers.upgrade.rules import SAMPLERS
from peirce_training.experiments import (
    Arm,
    Cell,
    FigureTable,
    NetworkRow,
    Networks,
    Scale,
    TableExperiment,
    identity,
)

if TYPE_CHECKING:
    from peirce.model import AnyTask, Model
    from peirce.parts import Plan
    from peirce_training import TrainingOptions, TrainResult

SCRATCH, SHUFFLED = "FOLNet from scratch", "jm.atp, same words, shuffled"
_DISTANCE = PartSpec(use="distance", options={"clip": 16})
_RELATIONS: Mapping[str, Any] = {"operators": "jm.atp", "binary": 16, "positions": [_DISTANCE]}
_SAME_WORDS = {**_RELATIONS, "positions": [_DISTANCE, PartSpec(use="edges", options={"relations": 2})]}
GAINS: Mapping[str, Mapping[str, Any]] = {
    "fine-tuned": {},
    "jm.atp": _RELATIONS,
    "jm.atp, from attention": {**_RELATIONS, "from_attention": True},
    "jm.atp, same words": _SAME_WORDS,
    "chain, from attention": {
        **_RELATIONS, "operators": ("join", "mu", "assoc", "chain"), "from_attention": True
    },
    SHUFFLED: _SAME_WORDS,
    "another attention": {"operators": ("attention",)},
    "adapters": {"operators": ("adapter",)},
}  # fmt: skip
"""What each row that begins with the model gains in the upper half of its layers, as `Upgrade` takes it."""
FIRST, SECOND = SAMPLERS
SCALES = {
    "small": Scale(
        about="the upper half of the layers trained, 800 steps of 16 problems",
        settings={
            "train.steps": 800,
            "train.lr": 2e-4,
            "train.rates": {"new": 6e-4, "heads.*": 6e-4},
            "train.beta2": 0.999,
            "train.schedule": "linear",
            "train.precision": "bf16",
            "train.save": "trained",
            "train.test_split": "",
            "model.regularisation.dropout": 0.0,
        },
    )
}


@frozen(kw_only=True)
class RulesRow(NetworkRow):
    """How a run does on the test problems of one sampler and one depth.

    Args:
        sampler: what drew them.
        depth: the rules in a row that lead to what is asked.
        problems: how many there are.
        processor: what the training ran on.
    """

    sampler: str
    depth: int = field(converter=int)
    problems: int = field(converter=int)
    processor: str

    count = "problems"
    groups = ("depth",)


class Upgrades(Networks[RulesRow]):
    """A model and its upgrades on rules in words."""

    row = RulesRow
    learns = "rules"
    arms: ClassVar[Mapping[str, Arm]] = {
        **{label: Arm(name=label, spec="", changes={}) for label in GAINS},
        SCRATCH: evolve(
            FROM_SCRATCH[0], name=SCRATCH, own={"train.lr": 1e-3, "train.rates": {}, "train.save": "all"}
        ),
    }
    constant = "always the same"
    aside: ClassVar[Mapping[str, Any]] = {"tokenizer": ""}

    def places(self) -> Mapping[str, Any]:
        """The tokenizer of the model."""
        return {"task.tokenizer": str(Path(self.request.data) / "assets")}

    def make_tasks(self, options: dict[str, Any]) -> Mapping[str, AnyTask]:
        """The task, which is the experiment's own."""
        from peirce_papers.upgrade.task import Rules, RulesOptions

        return {"": Rules(RulesOptions(**options))}

    @cached_property
    def plan(self) -> Plan:
        """The plan of the model."""
        from peirce.compose import resolve

        registry = self.registry or default_registry()
        return resolve(load_spec(Path(self.request.data) / "spec.toml", registry=registry), registry)

    @property
    def trained(self) -> Sequence[int]:
        """The layers that are trained, and that gain operators."""
        count = self.plan.dims.layers
        return range(count // 2, count)

    def training_of(self, label: str) -> TrainingOptions:
        """The head, what is new, and the upper half of the layers; all of a model from scratch."""
        training = super().training_of(label)
        if label == SCRATCH:
            return training
        upper = tuple(f"*layers.{i}.*" for i in self.trained)
        rates = {name: rate for name, rate in training.rates.items() if GAINS[label] or name != "new"}
        new = ("new",) if GAINS[label] else ()
        return evolve(training, trainable=(*new, "heads.*", *upper), rates=rates)

    def specs(self, given: Mapping[str, Any]) -> Mapping[str, Spec]:
        """The spec of each row."""
        from peirce_basics.upgrades import Upgrade

        registry, found = self.registry or default_registry(), {}
        for label in self.labels:
            changes = self.spec_changes(label, given)
            if label == SCRATCH:
                found[label] = load_spec(self.arms[label].spec, changes)
                continue
            gains = GAINS[label]
            upgraded = (
                Upgrade(**gains, layers=self.trained).spec(self.plan, registry) if gains else self.plan.spec
            )
            found[label] = upgraded.replace(changes)
        return found

    def cells(self) -> Iterator[Cell]:
        """The trainings, which begin with the model; the control's relations are shuffled."""
        from peirce.files import digest_of
        from peirce.model import WEIGHTS
        from peirce_papers.upgrade.task import ShuffledRules

        start = Path(self.request.data)
        weights = digest_of(start / WEIGHTS)
        for cell in super().cells():
            if cell.label == SCRATCH:
                yield cell
                continue
            kind = ShuffledRules if cell.label == SHUFFLED else type(cell.task)
            task = kind(cell.task.options)
            options = self.task_identity("", task)
            run = identity(cell.spec, options, cell.training, cell.seed, weights, kind.name)
            yield evolve(cell, task=task, run=run, start=start)

    def facts(self, cell: Cell, trained: TrainResult) -> dict[str, Any]:
        """The attributes of every row."""
        return {**super().facts(cell, trained), "processor": _processor()}

    def measure(
        self, cell: Cell, trained: TrainResult, data: Any, before: Sequence[RulesRow]
    ) -> Iterator[RulesRow]:
        """A row for each sampler and depth, by the task that the model was trained on."""
        common = self.facts(cell, trained)
        for counts in self.count_right(trained.model, data, cell.task):
            yield self.row(**common, **counts)

    def count_right(self, model: Model, data: Any, task: Any = None) -> Iterator[dict[str, Any]]:
        """The test problems of each sampler and depth."""
        import torch

        with torch.autocast("cpu", torch.bfloat16, enabled=self.training.precision == "bf16"):
            right = (task or self.task).right(model, data, "test")
        notes = data.splits["test"].notes
        for sampler, depth in dict.fromkeys(notes):
            here = np.array([note == (sampler, depth) for note in notes])
            counts = {"problems": int(here.sum()), "right": int(right[here].sum())}
            yield {"split": "test", "sampler": sampler, "depth": depth, **counts}

    def baseline(self, data: Any) -> dict[str, tuple[dict[str, object], float]]:
        """Always the same answer, which is right for half of the problems of each depth."""
        return {str(depth): ({"sampler": FIRST, "depth": depth}, 0.5) for depth in self.task.options.depths}

    def is_wanted(self, row: RulesRow) -> bool:
        """Whether a result is one that the first table shows."""
        return row.sampler == FIRST

    def table(self, rows: Sequence[RulesRow]) -> FigureTable:
        """Accuracy by row and depth, with the sampler that training has."""
        return self._by_depth(rows, FIRST, "accuracy")

    def tables(self, rows: Sequence[RulesRow]) -> Sequence[FigureTable]:
        """Accuracy with both samplers."""
        return (self.table(rows), self._by_depth(rows, SECOND, "labels-first"))

    def _by_depth(self, rows: Sequence[RulesRow], sampler: str, name: str) -> FigureTable:
        columns = {
            k: ({**where, "sampler": sampler}, share) for k, (where, share) in self.baseline(None).items()
        }
        trained = [str(depth) for depth in self.task.options.depths if depth <= self.task.options.trained]
        return self.accuracies(
            rows,
            f"Rules in words, {sampler}",
            f"{self.task.options.problems:,} problems for training; {Path(self.request.data).name} to begin with.",
            columns=columns,
            name=name,
            across="rules in a row",
            shaded=(trained, "trained on"),
        )


def _processor() -> str:
    """The processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


RULES = TableExperiment(
    name="upgrade/rules",
    title="Rules in words: an encoder that gains relations, with controls",
    rows=tuple(Upgrades.arms),
    columns=tuple(map(str, (1, 2, 3, 4, 6, 8))),
    folder="runs/upgrade",
    matrix=Upgrades,
    sizes=SCALES,
)
