"""The contracts of what works on whole models: tasks, exporters, and the runtimes of exported files.

This module does not need torch, so that a runtime works without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from attrs import frozen

from peirce.errors import InputError
from peirce.parts import NoOptions, Part, Signature

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import RenderableType
    from torch import Tensor

    from peirce.model.generation import Stepper
    from peirce.model.model import Model
    from peirce.spec import Spec

Progress = Callable[[str], None]
"""Called with a few words before each step of something slow."""
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


class OnDevice(ABC):
    """An output that stayed where it was computed; it may be an input of the session's next run.

    Attributes:
        dtype: its numpy dtype, float32 for bfloat16.
        shape: its sizes.
        device: where it lies, in the runtime's own words, such as `cpu` or `cuda`.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    device: str

    @abstractmethod
    def numpy(self) -> NDArray[Any]:
        """A copy of it in the memory of the CPU."""


@frozen(kw_only=True)
class Source:
    """What an exported file says of the model that it was exported from.

    Args:
        spec: as TOML.
        weights: their digest, as `peirce.model.weights_digest` computes it; None where the file does not say.
    """

    spec: str
    weights: str | None


class LoadedModel(ABC):
    """An exported file that its runtime has opened. `peirce.Session` checks inputs and fills in defaults before `run`.

    Attributes:
        signature: the file's inputs and outputs.
        providers: what computes, in the runtime's own names.
        generated: the input that generation appends tokens to; None for a file that does not generate.
        role: which graph of its model it is, in the exporter's own words; `model` for all of it.
    """

    signature: Signature
    providers: tuple[str, ...]
    generated: str | None = None
    role: str = "model"

    @abstractmethod
    def dtype(self, name: str) -> np.dtype[Any]:
        """The numpy dtype of an input or output."""

    @abstractmethod
    def run(self, feeds: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> list[NDArray[Any]]:
        """Compute outputs, in that order, from every input.

        Raises:
            InputError: the file does not run with these sizes.
        """

    def run_on_device(
        self, feeds: Mapping[str, NDArray[Any] | OnDevice], outputs: Sequence[str]
    ) -> list[OnDevice]:
        """Compute outputs, in that order, which stay where they are computed; by default a runtime does not do that.

        Raises:
            InputError: the file does not run with these sizes, or its runtime keeps nothing on a device.
        """
        raise InputError("the runtime of this file leaves no outputs on a device; use `run`")

    def stepper(self) -> Callable[[Mapping[str, NDArray[Any]]], Stepper]:
        """A function from prompts to what generation steps through; by default a file does not generate.

        Raises:
            InputError: the file was not exported to generate. The function raises it where a prompt is empty.
        """
        raise InputError("the runtime of this file does not generate")

    @abstractmethod
    def close(self) -> None:
        """Let go of the model's memory."""


class Runtime(ABC):
    """Opens and verifies the files of one format, by their suffix; it is made without arguments.

    Neither its module nor `open` may need torch: a serving machine need not have it.
    """

    def check(self, path: Path) -> str | None:
        """Hold a file against the digest that it carries, before it is opened.

        Returns:
            The digest; None for a file without one, which by default is every file.

        Raises:
            ModelFileError: the file is not what was exported.
        """
        return None

    def source(self, path: Path) -> Source | None:
        """The model that a file was exported from, as far as it says; by default it does not.

        Raises:
            ModelFileError: the file is damaged, or was not exported by Peirce.
        """
        return None

    @abstractmethod
    def open(self, path: Path, providers: Sequence[str] | None, threads: int | None) -> LoadedModel:
        """Open a file, which is there.

        Args:
            path: the file.
            providers: what should compute, in the runtime's own names, by preference; None leaves the choice to it.
            threads: threads within an operator; None leaves the choice to the runtime.

        Raises:
            ModelFileError: the file is damaged, or was not exported by Peirce.
            InputError: there is no such provider.
        """

    def open_with_options(
        self,
        path: Path,
        providers: Sequence[str] | None,
        threads: int | None,
        options: Mapping[str, Mapping[str, Any]],
    ) -> LoadedModel:
        """Open a file with options of its providers, by name; by default a runtime takes none. Raises as `open`."""
        if options:
            raise InputError(f"the runtime of {path} takes no provider_options; leave them out")
        return self.open(path, providers, threads)

    @abstractmethod
    def verify(
        self,
        path: Path,
        model: Model,
        *,
        seed: int = 0,
        providers: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Report:
        """Hold a file against its model.

        Args:
            path: the file.
            model: the model; it is not changed.
            seed: of the random inputs.
            providers: what should compute; None takes what needs no special hardware, where there is a choice.
            progress: called before each step.

        Raises:
            ExportError: the file differs from the model.
            ModelFileError: the file is missing, damaged, or was not exported by Peirce.
        """
