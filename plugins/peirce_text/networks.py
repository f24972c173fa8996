"""Networks of one size that are trained alike on a task, from scratch: what FOLNet's Fig. 5 compares."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from attrs import evolve, frozen
from peirce.experiments import (
    AccuracyRow,
    Cell,
    FigureTable,
    Scale,
    SeededMatrix,
    TableExperiment,
    accuracies,
)
from peirce.registry import load_spec
from peirce.spec import Spec

if TYPE_CHECKING:
    from peirce.model import Model
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
        width: the key of the spec that is set so that it has as many parameters as the first; empty to leave it.
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
LONGER = evolve(ARMS[2], name="BERT, 4 times the steps", longer=4.0)
"""About the time that FOLNet takes, in place of the same steps; only on demand."""
NETWORKS = {arm.name: arm for arm in (*ARMS, LONGER)}


@frozen(kw_only=True)
class NetworkRow(AccuracyRow):
    """How a network does on the examples of one group in one split; subclasses name the group and the examples."""

    arm: str
    split: str


R = TypeVar("R", bound=NetworkRow)


class Networks(SeededMatrix[R]):
    """The networks on a task, with several seeds each."""

    common: ClassVar[Mapping[str, Any]] = {
        "train.lr": 1e-3,
        "train.beta2": 0.98,
        "train.warmup_ratio": 0.05,
        "train.keep": 1,
    }
    named = "arm"
    constant: ClassVar[str]
    """The label of what depends on no training."""

    @abstractmethod
    def counted(self, model: Model, data: Any) -> Iterator[Mapping[str, Any]]:
        """The rows of a trained model: for each, its split, its right ones, and what its class adds."""

    @abstractmethod
    def baseline(self, data: Any) -> Mapping[str, tuple[Mapping[str, object], float]]:
        """By the head of a column: the attributes of its rows, and `constant`'s share."""

    def training_of(self, label: str) -> TrainingOptions:
        """With the steps of the network."""
        return evolve(self.training, steps=round((self.training.steps or 0) * NETWORKS[label].longer))

    def spec_of(self, label: str) -> tuple[str, Mapping[str, Any]]:
        """The spec that a network is a small form of, and what makes it small."""
        slug = "-".join("".join(c if c.isalnum() else " " for c in label.lower()).split())
        return NETWORKS[label].spec, {**NETWORKS[label].changes, "model.name": slug}

    def specs(self, given: Mapping[str, Any]) -> Mapping[str, Spec]:
        """The specs of the networks, those with a `width` as near as can be to the first in parameters."""
        like = ARMS[0].name
        found: dict[str, Spec] = {}
        for label in (like, *self.labels):
            name, changes = self.spec_of(label)
            found[label] = load_spec(name, {**given, **changes, **self.changes})
        target = self.parameters(found[like])
        return {label: self._sized(found[label], NETWORKS[label].width, target) for label in self.labels}

    def _sized(self, spec: Spec, key: str, target: int) -> Spec:
        if not key:
            return spec
        count, width = self.parameters(spec), spec.dims[key.rpartition(".")[2]]
        more = self.parameters(spec.replace({key: width + 1})) - count
        return spec.replace({key: max(1, width + round((target - count) / more))})

    def parameters(self, spec: Spec) -> int:
        """How many parameters a spec's model has."""
        from peirce.compose import build

        return sum(p.numel() for p in build(spec, registry=self.registry).parameters())

    def measured(self, cell: Cell, trained: TrainResult, data: Any, before: Sequence[R]) -> Iterator[R]:
        """A row for each group of examples."""
        common = self.facts(cell, trained)
        for counts in self.counted(trained.model, data):
            yield self.row(**common, **counts)

    def accuracies(self, rows: Sequence[R], title: str, **more: Any) -> FigureTable:
        """Accuracy in percent by network and column, beside `constant`.

        Args:
            rows: the results.
            title: what the table shows.
            more: what the picture needs.
        """
        columns, options = self.baseline(self.data), self.task.options

        def accuracy(label: str, column: str) -> tuple[float, ...]:
            where, share = columns[column]
            return (100 * share,) if label == self.constant else accuracies(rows, arm=label, **where)

        return self.beside(
            rows,
            columns,
            accuracy,
            {},
            labels=[self.constant],
            name="accuracy",
            title=title,
            about=f"{self.task.name} on {options.folder or options.dataset}.",
            facts=[f"Accuracy in %, {self.over_seeds}."],
            unit="accuracy (%)",
            constant=(self.constant,),
            digits=0,
            **more,
        )


def from_scratch(matrix: type[Networks[Any]], settings: Mapping[str, Any], **told: Any) -> TableExperiment:
    """The networks on a task, as an experiment.

    Args:
        matrix: of the task.
        settings: the task's and the training's, by dotted key.
        told: the experiment's name, title and columns.
    """
    return TableExperiment(
        **told,
        folder=f"runs/{told['name']}",
        rows=tuple(arm.name for arm in ARMS),
        more=(LONGER.name,),
        matrix=matrix,
        sizes={"scratch": Scale(about="4 layers of 64, on the task's data alone", settings=settings)},
    )
