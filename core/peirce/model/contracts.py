"""The contracts of tasks and exporters, which work on whole models. This module needs no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
PlainRows: TypeAlias = Sequence[Mapping[str, Any]]
"""Rows of a task in plain Python, or what a model gives for each by itself: nested lists by name."""


@frozen(kw_only=True)
class Start:
    """What is trained where the user names nothing.

    Args:
        why: which it is and what else could be, a sentence for the user.
        spec: a spec's path or ready name; None for the model's own.
        model: a saved model to start from, if any.
        settings: of the model, the task and the training, by dotted key; what the user sets comes before them.
    """

    why: str
    spec: str | None = None
    model: Path | None = None
    settings: Mapping[str, Any] = {}


class Task(Part, ABC, Generic[OptionsT, DataT]):
    """Data, loss and metric of one job; `peirce train` and `peirce evaluate` run any of them in one loop.

    `class Returns(Task[ReturnsOptions, ReturnsData])` states the class of its options, which `Options` names too, and
    of the data that `prepare` returns and every other method takes.

    Attributes:
        settings: default settings of a training, such as `{"train.epochs": 5}`.
    """

    Options: ClassVar[type] = NoOptions
    settings: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, options: OptionsT) -> None:
        self.options = options

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Further options for the conformance checks, beside `example`; writes the small data files that they name.

        Args:
            folder: an empty folder, for files that the task reads.
        """
        return {}

    @classmethod
    def example_cases(cls, folder: Path) -> Iterable[Mapping[str, Any]]:
        """Options that differ from those of `example_in`, for data that are hard, such as a text that is too long or a
        class without texts; it may write further files. The `reference` is held in each case."""
        return ()

    def reference(self, data: DataT, split: str) -> Sequence[Mapping[str, Any]] | None:
        """The rows of a split in plain Python, in any order, for the conformance checks: what batches have of each by
        name, as nested lists without padding, read from the small data by other means; None where it is not stated.

        What no batch has, but the model reads, is given to the model when the next two are held to their values.
        """
        return None

    def reference_settings(self, data: DataT) -> Mapping[str, Any] | None:
        """What `overrides` gives for the small data, by other means; None where it is not stated."""
        return None

    def reference_loss(self, rows: PlainRows, outputs: PlainRows) -> float | None:
        """The loss in plain Python of rows as `reference` states them; None where it is not stated.

        Args:
            rows: those of a batch.
            outputs: what a model gives for each by itself, as nested lists, by name.
        """
        return None

    def reference_metrics(
        self, data: DataT, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float] | None:
        """Metrics in plain Python, some or all; None where they are not stated.

        Args:
            data: what `prepare` gave.
            split: the split that is measured.
            rows: as `reference` states them.
            outputs: what a model gives for each by itself, as nested lists, by name.
        """
        return None

    @classmethod
    def suits(cls, data: str) -> bool:
        """Whether a file or a data set of the user clearly belongs to this task, whose option `data` takes it; by
        default it does not.

        Raises:
            TaskError: it cannot be read.
        """
        return False

    @classmethod
    def columns_of(cls, data: str) -> Sequence[str]:
        """The names of the columns of a file or a data set of the user, for messages; by default none are known."""
        return ()

    @abstractmethod
    def prepare(self) -> DataT:
        """Read or make the data; slow work shows a progress bar."""

    @abstractmethod
    def overrides(self, data: DataT) -> Mapping[str, Any]:
        """Settings of the spec that the data determine, such as `{"model.input.vocabulary": 193}`."""

    def overrides_for(self, spec: Spec, data: DataT) -> Mapping[str, Any]:
        """The `overrides` that apply to a spec; by default all, so that a spec without a place for one is refused."""
        return self.overrides(data)

    @classmethod
    def start(cls) -> Start | None:
        """What to train where the user names neither a spec nor a model to start from; None if that must be named."""
        return None

    def begin(self, model: Model, data: DataT) -> str:
        """Give parameters what a training begins with, where the data tell it in closed form; by default nothing.

        What it gives is evaluated on the validation split like an epoch, so that training keeps it unless it finds
        better. Every process of a training calls it with the same data.

        Returns:
            What it begins with, as words in a sentence; empty for nothing.
        """
        return ""

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

        With them, several batches of a step count as one large batch would. A term that is not named here has the same
        weight in every batch. For a batch without targets a term must be finite, such as 0.
        """
        return {}

    @abstractmethod
    def metrics(self, model: Model, data: DataT, split: str) -> Mapping[str, float]:
        """The task's metrics on one split."""

    def remarks(self, model: Model, data: DataT, split: str) -> tuple[str, ...]:
        """What a reader of the metrics must know, a sentence each, such as how they are filtered; shown beside them."""
        return ()

    def write_report(self, model: Model, data: DataT, directory: Path) -> None:
        """Write what explains a trained model into its folder, where it is saved already; by default nothing."""
        return

    @abstractmethod
    def assets(self, data: DataT) -> Mapping[str, bytes]:
        """Files to keep beside a trained model, such as vocabularies, by name."""


AnyTask: TypeAlias = Task[Any, Any]
"""A task whose options and data are of any type."""


@frozen(kw_only=True)
class Report:
    """The result of an export or a verification; a subclass may have more fields.

    Args:
        file: what was written or verified.
        passed: whether the file agrees with its model; commands exit with 1 where it does not.
        notes: what the reader should know, a sentence each.
        precision: of the file: `float32`, `float16`, `bfloat16`, `int8` or `int4`.
        tolerance: how far the file's outputs may be from the model's, as a part of the largest value of each; if None,
            as far as its precision allows.
    """

    file: Path
    passed: bool
    notes: tuple[str, ...] = ()
    precision: str = "float32"
    tolerance: float | None = None

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
        writes: `file`, or `folder` for an exporter that adds files to a folder, which may exist already.
        suffix: how the names of its files end, such as `.npz`; the runtime of such files opens what `read` does not.
    """

    writes: ClassVar[Literal["file", "folder"]] = "file"
    suffix: ClassVar[str] = ""

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def export(self, model: Model, path: Path) -> Report:
        """Write the model to `path` and verify it.

        Raises:
            ExportError: it cannot be written, or differs from the model.
        """

    def read(self, path: Path, shell: Model) -> Any:
        """What a file computes; by default None, and the runtime of `suffix` opens it.

        Args:
            path: the file; of an exporter that adds to a folder, one in it that ends in `suffix`.
            shell: a model of the same spec without weights, which are NaN; an exporter of weights gives it those of the
                file.

        Returns:
            The shell, or another function that is called as the model is; or a `peirce_export.LoadedModel`.
        """
        return None
