"""The contracts of what works on whole models, tasks and exporters. This module needs no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from attrs import frozen

from peirce.parts import NoOptions, Part

if TYPE_CHECKING:
    from rich.console import RenderableType
    from torch import Tensor

    from peirce.model.model import Model
    from peirce.spec import Spec

OptionsT = TypeVar("OptionsT")
DataT = TypeVar("DataT")


class Task(Part, ABC, Generic[OptionsT, DataT]):
    """Data, loss and metric of one job; `peirce train` and `peirce evaluate` run any of them in one loop.

    `class Returns(Task[ReturnsOptions, ReturnsData])` says what its options are, which its `Options` names too, and
    what `prepare` gives and every other method takes.

    Attributes:
        settings: settings of a training, such as `{"train.epochs": 5}`, that hold unless the user gives others.
    """

    Options: ClassVar[type] = NoOptions
    settings: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, options: OptionsT) -> None:
        self.options = options

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Options for the conformance checks beside those of `example`, and the small data that they name.

        Args:
            folder: an empty folder, for files that the task reads.
        """
        return {}

    @classmethod
    def suits(cls, data: str) -> bool:
        """Whether it is plain that a file or a data set of the user's own is for this task, whose option `data` takes
        it; by default it is not.

        Raises:
            TaskError: it cannot be read.
        """
        return False

    @abstractmethod
    def prepare(self) -> DataT:
        """Read or make the data; slow work shows a progress bar."""

    @abstractmethod
    def overrides(self, data: DataT) -> Mapping[str, Any]:
        """Settings of the spec that the data determine, such as `{"model.input.vocabulary": 193}`."""

    def overrides_for(self, spec: Spec, data: DataT) -> Mapping[str, Any]:
        """Those of `overrides` that concern a spec; by default all, so that one without a place for them is refused."""
        return self.overrides(data)

    def check(self, model: Model, data: DataT) -> None:
        """Refuse a model that cannot be trained on the data, with a `TaskError`, before its first step."""
        return

    @abstractmethod
    def batches(self, data: DataT, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, in an order that seed and epoch determine."""

    @abstractmethod
    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The loss of one batch, a scalar."""

    def terms(self, model: Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The summands of `loss` by name, scalars, the same names for every batch; by default `loss` alone."""
        return {"loss": self.loss(model, batch)}

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """How many targets each of `terms` is a mean over, by the term's name.

        With them, several batches of a step count as one large batch would. A term that is not named here weighs the
        same in every batch. A batch with no targets of a term gives a finite one, such as 0.
        """
        return {}

    @abstractmethod
    def metrics(self, model: Model, data: DataT, split: str) -> Mapping[str, float]:
        """The task's metrics on one split."""

    def remarks(self, model: Model, data: DataT, split: str) -> tuple[str, ...]:
        """What a reader of the metrics must know, a sentence each, such as how they are filtered; shown beside them."""
        return ()

    @abstractmethod
    def assets(self, data: DataT) -> Mapping[str, bytes]:
        """Files to keep beside a trained model, such as vocabularies, by name."""


AnyTask: TypeAlias = Task[Any, Any]
"""A task that is known by its name alone."""


@frozen(kw_only=True)
class Report:
    """What an exporter or a verification found; a subclass may know more.

    Args:
        file: what was written or verified.
        passed: whether the file agrees with its model; commands exit with 1 where it does not.
        notes: what the reader should know, a sentence each.
    """

    file: Path
    passed: bool
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON, with the name of its layout as `schema`."""
        found = {"file": str(self.file), "passed": self.passed, "notes": list(self.notes)}
        return {"schema": "peirce.report/1", **found}

    def __rich__(self) -> RenderableType:
        """The report for a terminal, as rich shows it."""
        from rich.text import Text

        state = Text("ok", "green") if self.passed else Text("NO", "bold red")
        return Text("\n").join([Text(f"{self.file}: ").append(state), *map(Text, self.notes)])


class Exporter(Part, ABC):
    """Writes a model in another format; `name` is what `--to` takes.

    `peirce export --to NAME` offers each field of `Options` as an option, with its meaning from the class's docstring.

    Attributes:
        writes: `file`, or `folder` for what adds to a folder, which may be there already.
    """

    writes: ClassVar[Literal["file", "folder"]] = "file"

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def export(self, model: Model, path: Path) -> Report:
        """Write the model to `path` and verify it.

        Raises:
            ExportError: it cannot be written, or differs from the model.
        """
