"""What the experiments of the paper's tables share: their settings, and whose tokenizer they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from peirce.errors import TaskError
from peirce_training.experiments import SeededMatrix, SeededRow

if TYPE_CHECKING:
    from peirce.model import AnyTask

S = TypeVar("S", bound=SeededRow)
DEPTH = 3
"""K, the levels of relations that every row's task gives; plain models leave them."""


class LogicalMatrix(SeededMatrix[S]):
    """Rows, plain and with logical embeddings. Relations are kept in the request's folder."""

    common: ClassVar[Mapping[str, Any]] = {
        **SeededMatrix.common,
        "train.schedule": "linear",
        "train.warmup_ratio": 0.1,
        "task.depth": DEPTH,
    }
    aside: ClassVar[Mapping[str, Any]] = {"cache": "", "processes": 1, "tokenizer": ""}
    untrained: ClassVar[Sequence[str]] = ()
    """Rows that begin with no pretrained model."""
    changed: ClassVar[Mapping[str, tuple[str, Mapping[str, Any]]]]
    """Rows whose spec is not the ready one of their name in small letters: the spec, and the changes."""

    def spec_of(self, label: str) -> tuple[str, Mapping[str, Any]]:
        """As `changed` has it."""
        return self.changed.get(label, (label.lower(), {}))

    def places(self) -> Mapping[str, Any]:
        """The file that keeps relations."""
        return {"task.cache": str(self.request.directory / "relations.sqlite")}

    def folders(self) -> Mapping[str, Mapping[str, Any]]:
        """Which tasks there are, by a name of each, and where their data lie where `places` does not say it."""
        return {"": {}}

    def make_tasks(self, options: dict[str, Any]) -> Mapping[str, AnyTask]:
        """The tasks, with the tokenizer of a pretrained model that lies in a folder, unless another is named.

        Raises:
            TaskError: there is none, or no data.
        """
        from peirce_training import make_task

        if {*self.labels} - {*self.untrained}:
            options.setdefault("tokenizer", self.changes.get("model.options.source", ""))
            if not options["tokenizer"]:
                raise TaskError(
                    f"the task {self.learns} needs the tokenizer of the pretrained model: --set task.tokenizer=FOLDER, "
                    "or --set model.options.source=FOLDER for a saved model there"
                )
        return {name: make_task(self.learns, {**options, **at}) for name, at in self.folders().items()}

    def lengths(self, rows: Sequence[S]) -> str:
        """The steps of the runs."""
        return " or ".join(f"{steps:,}" for steps in sorted({row.steps for row in rows}))
