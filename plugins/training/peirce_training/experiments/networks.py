"""Networks of one size that are trained alike on a task, with several seeds each, and compared."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from attrs import evolve, field, frozen

from peirce.registry import load_spec
from peirce.spec import Spec
from peirce_training.experiments.matrix import Cell
from peirce_training.experiments.report import FigureTable
from peirce_training.experiments.tables import AccuracyRow, SeededMatrix, accuracies

if TYPE_CHECKING:
    from peirce.model import Model
    from peirce_training import TrainingOptions, TrainResult


@frozen(kw_only=True)
class Arm:
    """One of the networks that are compared.

    Args:
        name: what the table calls it.
        spec: the ready spec that it is a small form of.
        changes: what makes it small.
        width: the key of the spec that is set so that it has as many parameters as the first; empty to leave it.
        longer: how many times the steps of the others it is trained.
        own: settings that it has in place of the scale's, such as a learning rate, by dotted key.
    """

    name: str
    spec: str
    changes: Mapping[str, Any]
    width: str = ""
    longer: float = 1.0
    own: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class NetworkRow(AccuracyRow):
    """How a network does on the examples of one group in one split; subclasses name the group and the examples."""

    arm: str
    split: str


R = TypeVar("R", bound=NetworkRow)


class Networks(SeededMatrix[R]):
    """The networks on a task; the first of `arms` says how many parameters all have."""

    common: ClassVar[Mapping[str, Any]] = {
        "train.lr": 1e-3,
        "train.beta2": 0.98,
        "train.warmup_ratio": 0.05,
        "train.keep": 1,
    }
    named = "arm"
    arms: ClassVar[Mapping[str, Arm]]
    constant: ClassVar[str]
    """The label of what depends on no training."""

    @abstractmethod
    def count_right(self, model: Model, data: Any) -> Iterator[Mapping[str, Any]]:
        """The rows of a trained model: for each, its split, its right ones, and what its class adds."""

    @abstractmethod
    def baseline(self, data: Any) -> Mapping[str, tuple[Mapping[str, object], float]]:
        """By the head of a column: the attributes of its rows, and `constant`'s share."""

    def training_of(self, label: str) -> TrainingOptions:
        """With the network's own settings and steps."""
        from peirce_training import training_options

        training = training_options(self._settings(label)[2])
        return evolve(training, steps=round((training.steps or 0) * self.arms[label].longer))

    def _settings(self, label: str) -> tuple[Mapping[str, Any], ...]:
        """The settings of a network's model, of its task and of its training; its own replace the scale's."""
        from peirce_training import settings_by_part

        scale, asked = {**self.common, **self.scale.settings}, self.request.settings
        return settings_by_part(scale, self.arms[label].own, self.places(), asked)

    def spec_of(self, label: str) -> tuple[str, Mapping[str, Any]]:
        """The spec that a network is a small form of, and what makes it small."""
        slug = "-".join("".join(c if c.isalnum() else " " for c in label.lower()).split())
        return self.arms[label].spec, {**self.arms[label].changes, "model.name": slug}

    def spec_changes(self, label: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """All that differs from the ready spec of a network, by dotted key; `given` is what the data determine."""
        return {**given, **self.spec_of(label)[1], **self._settings(label)[0]}

    def specs(self, given: Mapping[str, Any]) -> Mapping[str, Spec]:
        """The specs of the networks, those with a `width` as near as can be to the first in parameters."""
        like = next(iter(self.arms))
        found: dict[str, Spec] = {}
        for label in (like, *self.labels):
            found[label] = load_spec(self.arms[label].spec, self.spec_changes(label, given))
        target = self.parameters(found[like])
        return {label: self._sized(found[label], self.arms[label].width, target) for label in self.labels}

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

    def measure(self, cell: Cell, trained: TrainResult, data: Any, before: Sequence[R]) -> Iterator[R]:
        """A row for each group of examples."""
        common = self.facts(cell, trained)
        for counts in self.count_right(trained.model, data):
            yield self.row(**common, **counts)

    def accuracies(
        self,
        rows: Sequence[R],
        title: str,
        about: str,
        columns: Mapping[str, tuple[Mapping[str, object], float]] | None = None,
        **more: Any,
    ) -> FigureTable:
        """Accuracy in percent by network and column, beside `constant`.

        Args:
            rows: the results.
            title: what the table shows.
            about: the task, and on what.
            columns: as `baseline` gives them, which is asked if they are None.
            more: what else `FigureTable` takes.
        """
        found = self.baseline(self.data) if columns is None else columns

        def accuracy(label: str, column: str) -> tuple[float, ...]:
            where, share = found[column]
            return (100 * share,) if label == self.constant else accuracies(rows, arm=label, **where)

        options: dict[str, Any] = {
            "name": "accuracy",
            "title": title,
            "about": about,
            "facts": [f"Accuracy in %, {self.over_seeds}."],
            "unit": "accuracy (%)",
            "constant": (self.constant,),
            "digits": 0,
        }
        return self.comparison_table(rows, found, accuracy, {}, labels=[self.constant], **{**options, **more})
