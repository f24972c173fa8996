"""Views of a trained model: what it computes between the tokens of a text, as values that a renderer draws.

A plug-in says by a `Viewer` how its models read a text. `peirce_show.observe` captures the rest, of any operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from peirce.parts import NoOptions
from peirce.registry import Registry, fitting_classes
from peirce_show.hooks import VIEWS

if TYPE_CHECKING:
    from peirce.model import Model


@frozen(eq=False, kw_only=True)
class Matrix:
    """Numbers by row and column, in one or several channels.

    Args:
        layer: the layer's name, `1` for the first; `0` for what it is given.
        operator: what computed them, such as `join`.
        name: which of its matrices it is, such as `weights`; empty where there is one.
        rows, columns: the texts of what stands there, most often tokens.
        channels: the names of the channels, such as `mean of 4` and `1 of 4`.
        values: float32 [channels, rows, columns].
        share: whether numbers are shares between 0 and 1; others have signs.
        axes: what rows and columns are, in a word or two each.
    """

    layer: str
    operator: str
    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    channels: tuple[str, ...]
    values: NDArray[np.float32]
    share: bool
    axes: tuple[str, str]

    @property
    def title(self) -> str:
        """The operator and which of its matrices it is, such as `join.weights`."""
        return f"{self.operator}.{self.name}" if self.name else self.operator


@frozen(kw_only=True)
class Mark:
    """A stretch of the text that has a label.

    Args:
        start, end: where it stands, in characters.
        label: one of the view's `labels`; it has a colour.
        meaning: its explanation for a reader, in a line.
        sign: a letter or two that stand where its line begins.
        group: those of one group have lines at one height below the text; None for a mark on the words themselves.
    """

    start: int
    end: int
    label: str
    meaning: str
    sign: str = ""
    group: int | None = None


@frozen(eq=False, kw_only=True)
class View:
    """What there is to see of one text, or of one text in one model.

    Args:
        name: what it is of: the model's name, or the viewer's.
        text: the text; a pair's with a line between them.
        matrices: those of one layer after those of the one before.
        marks: labelled stretches of the text.
        labels: what marks may be labelled, each always with the colour of its place.
        notes: what a reader must know, a sentence each.
        answers: what the model predicts, the best first: rows of a table, all with the same columns.
    """

    name: str
    text: str
    matrices: tuple[Matrix, ...] = ()
    marks: tuple[Mark, ...] = ()
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    answers: tuple[Mapping[str, str | float], ...] = ()

    def answer_rows(self) -> list[tuple[str, ...]]:
        """The answers as texts."""
        return [
            tuple(f"{each:.3f}" if isinstance(each, float) else each for each in row.values())
            for row in self.answers
        ]


class Observe(Protocol):
    """`peirce_show.observe` with the channels that the user asks for."""

    def __call__(
        self, model: Model, inputs: Mapping[str, Any], tokens: Sequence[str], written: Sequence[str] = ()
    ) -> tuple[Matrix, ...]:
        """What a run computes between tokens, of inputs of one row."""


class Viewer(ABC):
    """Shows what models of some kind do with a text. One that extends another shows the models of both.

    Attributes:
        Options: its settings, an attrs class with `Args:`; `peirce look --set` takes them.
        works_alone: whether it also shows texts without a model.
    """

    Options: ClassVar[type] = NoOptions
    works_alone: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def shows(cls, model: Model, assets: Collection[str]) -> bool:
        """Whether it shows what this model does, whose files in `assets/` have these names."""

    def __init__(self, options: Any, folder: Path | None = None, model: Model | None = None) -> None:
        """Keep what is shown: a model in evaluation mode, and where it was saved; or neither, to work alone."""
        self.options, self._folder, self._model = options, folder, model

    @property
    def alone(self) -> bool:
        """Whether there is no model."""
        return self._model is None

    @property
    def folder(self) -> Path:
        """Where the model was saved."""
        assert self._folder is not None, "there is no model"
        return self._folder

    @property
    def model(self) -> Model:
        """The model, in evaluation mode."""
        assert self._model is not None, "there is no model"
        return self._model

    @abstractmethod
    def view(self, texts: Sequence[str], observe: Observe) -> View:
        """Look at a text, or at several that belong together.

        Raises:
            TaskError: the model cannot read them.
        """


def viewers_for(
    model: Model, assets: Collection[str], registry: Registry | None = None
) -> dict[str, type[Viewer]]:
    """The viewers that say that they show a model, by name; one that another of them refines is none.

    One that fails is named, and set aside.

    Args:
        model: the model.
        assets: the names of the files that it keeps in `assets/`.
        registry: where to look; what is installed and active if None.
    """
    return fitting_classes(VIEWS, Viewer, lambda each: each.shows(model, assets), registry)
