"""An encoder and its upgrades on a task, trained alike, with controls: what the experiments `upgrade/...` share.

Their `--data` is an encoder that `peirce import transformers` has made. All rows but one begin with it, and all are
trained with the same examples, batches and steps.
"""

from __future__ import annotations

import platform
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from peirce.registry import default_registry, load_spec
from peirce.spec import PartSpec, Spec
from peirce_papers.text.networks import ARMS as FROM_SCRATCH
from peirce_training.experiments import Arm, Cell, NetworkRow, Networks, identity

if TYPE_CHECKING:
    from peirce.model import AnyTask, Model
    from peirce.parts import Plan
    from peirce_training import TrainingOptions, TrainResult

SCRATCH = "FOLNet from scratch"
DISTANCE = PartSpec(use="distance", options={"clip": 16})
RELATIONS: Mapping[str, Any] = {"operators": "jm.atp", "binary": 16, "positions": [DISTANCE]}
CONTROLS: Mapping[str, Mapping[str, Any]] = {
    "another attention": {"operators": ("attention",)},
    "adapters": {"operators": ("adapter",)},
}
"""As many new parameters without relations."""
TRAINING: Mapping[str, Any] = {
    "train.beta2": 0.999,
    "train.schedule": "linear",
    "train.precision": "bf16",
    "train.save": "trained",
    "train.test_split": "",
    "model.regularisation.dropout": 0.0,
}


def upgrade_arms(gains: Mapping[str, object]) -> Mapping[str, Arm]:
    """A row for each upgrade, and the network that is trained from scratch."""
    scratch = {"train.lr": 1e-3, "train.rates": {}, "train.save": "all"}
    return {
        **{label: Arm(name=label, spec="", changes={}) for label in gains},
        SCRATCH: evolve(FROM_SCRATCH[0], name=SCRATCH, own=scratch),
    }


@frozen(kw_only=True)
class UpgradeRow(NetworkRow):
    """A row that says what the training ran on.

    Args:
        processor: its name.
    """

    processor: str


R = TypeVar("R", bound=UpgradeRow)


class Upgrades(Networks[R]):
    """A model and its upgrades on a task."""

    gains: ClassVar[Mapping[str, Mapping[str, Any]]]
    """What each row that begins with the model gains in the layers that are trained, as `Upgrade` takes it."""
    shuffled: ClassVar[str]
    """The row whose operators read the relations of other pairs."""
    aside: ClassVar[Mapping[str, Any]] = {"tokenizer": ""}

    @abstractmethod
    def kinds(self) -> tuple[type[Any], type[Any]]:
        """The class of the task, and that of the task for relations that are shuffled."""

    def right(self, model: Model, data: Any, task: Any) -> NDArray[np.bool_]:
        """Whether each test example is answered right, by a task, and in the precision of the training."""
        import torch

        with torch.autocast("cpu", torch.bfloat16, enabled=self.training.precision == "bf16"):
            found: NDArray[np.bool_] = (task or self.task).right(model, data, "test")
        return found

    @abstractmethod
    def count_right(self, model: Model, data: Any, task: Any = None) -> Iterator[Mapping[str, Any]]:
        """The rows of a trained model, by the task that it was trained on."""

    def places(self) -> Mapping[str, Any]:
        """The tokenizer of the model."""
        return {"task.tokenizer": str(Path(self.request.data) / "assets")}

    def make_tasks(self, options: dict[str, Any]) -> Mapping[str, AnyTask]:
        """The task, which is the experiment's own."""
        kind, _ = self.kinds()
        return {"": kind(kind.Options(**options))}

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
        rates = {name: rate for name, rate in training.rates.items() if self.gains[label] or name != "new"}
        new = ("new",) if self.gains[label] else ()
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
            gains = self.gains[label]
            upgraded = (
                Upgrade(**gains, layers=self.trained).spec(self.plan, registry) if gains else self.plan.spec
            )
            found[label] = upgraded.replace(changes)
        return found

    def cells(self) -> Iterator[Cell]:
        """The trainings, which begin with the model; the control's relations are shuffled."""
        from peirce.files import digest_of
        from peirce.model import WEIGHTS

        start = Path(self.request.data)
        weights = digest_of(start / WEIGHTS)
        for cell in super().cells():
            if cell.label == SCRATCH:
                yield cell
                continue
            kind = self.kinds()[cell.label == self.shuffled]
            task = kind(cell.task.options)
            options = self.task_identity("", task)
            run = identity(cell.spec, options, cell.training, cell.seed, weights, kind.name)
            yield evolve(cell, task=task, run=run, start=start)

    def facts(self, cell: Cell, trained: TrainResult) -> dict[str, Any]:
        """The attributes of every row."""
        return {**super().facts(cell, trained), "processor": _processor()}

    def measure(self, cell: Cell, trained: TrainResult, data: Any, before: Sequence[R]) -> Iterator[R]:
        """A row for each group of test examples, by the task that the model was trained on."""
        common = self.facts(cell, trained)
        for counts in self.count_right(trained.model, data, cell.task):
            yield self.row(**common, **counts)


def _processor() -> str:
    """The processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
