"""The contract of experiments: many trainings, whose results make one table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@frozen(kw_only=True)
class ExperimentRequest:
    """A request to run an experiment.

    Args:
        data: what is learnt from: a knowledge graph, a folder of files, as the experiment's task takes it.
        directory: where models and results go.
        scale: one of the experiment's scales; its first when empty.
        rows: the rows that are trained; the experiment's own when empty.
        seeds: the seeds of each row.
        settings: what differs from the scale's, by dotted key: `model.KEY`, `task.KEY`, `train.KEY`.
        command: how the experiment was started; kept beside every result.
        only_evaluate: evaluate again what is trained, and train nothing.
    """

    data: str
    directory: Path
    scale: str = ""
    rows: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    settings: Mapping[str, Any] = field(factory=dict)
    command: str = ""
    only_evaluate: bool = False


@frozen(kw_only=True)
class ExperimentReport:
    """The outcome of an experiment.

    Args:
        figures: the figures of the table as plain values for JSON, row by row.
        facts: the sentences that must stand beside them, such as how they were measured.
        files: what was written for readers: tables and pictures.
        shown: the table for a screen.
    """

    figures: Sequence[Mapping[str, Any]]
    facts: Sequence[str]
    files: Sequence[Path]
    shown: RenderableType


@frozen(kw_only=True, eq=False)
class Experiment(ABC):
    """Trainings whose results stand in one table; `peirce experiments` lists and runs it.

    A plug-in registers experiments by `register_experiments`. Listing instantiates them, so a module that defines one
    imports torch only in `run`.

    Args:
        name: what the user types, such as `tega/table7`.
        title: what it shows, in a line.
        rows: what is trained, as the table calls it.
        more: rows that are trained only when they are asked for.
        columns: the heads of the table's columns, as far as they are known before the data are read.
        published: the data that published figures exist for.
        scales: what each size of the experiment means, in a line, by name; the first one is taken unless another is
            asked for.
        folder: where models and results go unless the user names a directory; experiments whose results are rows of one
            kind may share it.
    """

    name: str
    title: str
    rows: tuple[str, ...]
    more: tuple[str, ...] = ()
    columns: tuple[str, ...]
    published: tuple[str, ...] = ()
    scales: Mapping[str, str]
    folder: str = "runs/experiments"

    @abstractmethod
    def run(self, request: ExperimentRequest, console: Console) -> ExperimentReport:
        """Do the trainings that are not done yet, and write the table.

        Args:
            request: what is asked for; its rows and its scale are the experiment's.
            console: where progress is shown.

        Raises:
            PeirceError: a training cannot be done; those before it are kept.
        """
