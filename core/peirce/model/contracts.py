"""The contracts of parts that work on whole models: tasks and exporters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from peirce.parts import Part

if TYPE_CHECKING:
    from peirce.model.model import Model


class Task(Part, ABC):
    """Data, loss and metric of one job; `peirce train` and `peirce evaluate` run any of them in one loop."""

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def prepare(self) -> Any:
        """Read or make the data; slow work shows a progress bar."""

    @abstractmethod
    def overrides(self, data: Any) -> Mapping[str, Any]:
        """Settings of the spec that the data determine, such as `{"model.input.vocabulary": 193}`."""

    def check(self, model: Model, data: Any) -> None:
        """Refuse a model that cannot be trained on the data, with a `TaskError`, before its first step."""
        return

    @abstractmethod
    def batches(self, data: Any, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, in an order that seed and epoch determine."""

    @abstractmethod
    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The loss of one batch, a scalar."""

    def terms(self, model: Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The summands of `loss` by name, scalars, the same names for every batch; by default `loss` alone."""
        return {"loss": self.loss(model, batch)}

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """How many targets each of `terms` is a mean over, by the term's name.

        With them, several batches of a step count as one large batch would. A term without them counts the same in
        each batch, which is the same thing where batches have one size. Without targets a term is finite, such as 0.
        """
        return {}

    @abstractmethod
    def metrics(self, model: Model, data: Any, split: str) -> Mapping[str, float]:
        """The task's metrics on one split."""

    def remarks(self, model: Model, data: Any, split: str) -> tuple[str, ...]:
        """What a reader of the metrics must know, a sentence each, such as how they are filtered; shown beside them."""
        return ()

    @abstractmethod
    def assets(self, data: Any) -> Mapping[str, bytes]:
        """Files to keep beside a trained model, such as vocabularies, by name."""


class Exporter(Part, ABC):
    """Writes a model in another format; `name` is what `--to` takes."""

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def export(self, model: Model, path: Path) -> Any:
        """Write the model to `path`, verify it, and return the report."""
