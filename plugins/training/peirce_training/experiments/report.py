"""A table of figures beside published ones: as Markdown, CSV, a picture and on the screen."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, frozen
from rich.markup import escape
from rich.table import Table

from peirce.commands import Fitting
from peirce.files import write_whole
from peirce_training.experiments.contract import ExperimentReport
from peirce_training.experiments.results import write_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NONE = "-"
"""What a table shows where there is no figure."""


@frozen(kw_only=True)
class Figure:
    """One figure of one row, and the published one.

    Args:
        row: the label of the row.
        column: the head of the column.
        values: one for each seed; one alone of what does not depend on them; none where nothing was measured.
        paper: what was published; None where nothing was.
        types: what it is a mean over, where that is not all, such as `13 of 23 types`.
    """

    row: str
    column: str
    values: tuple[float, ...] = ()
    paper: float | None = None
    types: str = ""

    @property
    def seeds(self) -> int:
        """How many values there are."""
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """Their mean."""
        return float(np.mean(self.values)) if self.values else None

    @property
    def low(self) -> float | None:
        """The lowest."""
        return min(self.values, default=None)

    @property
    def high(self) -> float | None:
        """The highest."""
        return max(self.values, default=None)


FIELDS = ("row", "column", "seeds", "mean", "low", "high", "paper", "types")
"""The columns of a table's CSV file, and the keys of its figures as JSON."""


@frozen(kw_only=True, eq=False)
class FigureTable:
    """A table of figures.

    Args:
        name: what its files are called, without their endings.
        title: what it shows.
        about: the line below the title of the Markdown file.
        columns: the heads of its columns; a picture of columns that are all numbers has lines, any other has bars.
        figures: by the label of their row, in the order of the columns.
        facts: the sentences that must stand beside the figures.
        sources: what the figures come from, a line each, for the Markdown file.
        published: what the published figures were measured on; empty where there are none.
        unit: what the picture's axis measures.
        across: what the picture's other axis counts.
        logarithmic: whether the picture's axis is.
        shaded: the columns that the picture sets off, and what they are.
        constant: the rows that depend on no training, which a picture of lines dots.
        digits: how many decimals are shown of a figure below 1,000.
        drawn: the columns in the picture; all of them when empty.
    """

    name: str
    title: str
    about: str
    columns: tuple[str, ...]
    figures: Mapping[str, Sequence[Figure]]
    facts: Sequence[str] = ()
    sources: Sequence[str] = ()
    published: str = ""
    unit: str = ""
    across: str = ""
    logarithmic: bool = False
    shaded: tuple[Sequence[str], str] = ((), "")
    constant: Sequence[str] = ()
    digits: int = 1
    drawn: Sequence[str] = ()

    def write(self, directory: Path) -> ExperimentReport:
        """Write Markdown, CSV and picture, each whole or not at all."""
        directory.mkdir(parents=True, exist_ok=True)
        files = [directory / f"{self.name}.{ending}" for ending in ("md", "csv", "png")]
        write_whole(files[0], self.markdown())
        listed = [figure for row in self.figures.values() for figure in row]
        write_rows(files[1], listed, FIELDS)
        write_whole(files[2], self.picture())
        figures = [{name: getattr(figure, name) for name in FIELDS} for figure in listed]
        return ExperimentReport(figures=figures, facts=self.facts, files=files, shown=Fitting(self.shown()))

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [f"# {self.title}", "", self.about, ""]
        lines.append("| |" + "".join(f" {column} |" for column in self.columns))
        lines.append("|---|" + "---:|" * len(self.columns))
        lines += [f"| {' | '.join(row)} |" for row in self._rows()]
        lines += ["", *(f"{fact}\n" for fact in self.facts), *(f"* {source}" for source in self.sources)]
        return "\n".join(lines).rstrip() + "\n"

    def shown(self) -> Table:
        """The table for a screen."""
        table = Table("", title=f"{self.name}: {self.title}", caption=" ".join(self.facts))
        for column in self.columns:
            table.add_column(column, justify="right")
        for label, *texts in self._rows():
            table.add_row(escape(label), *texts)
        return table

    def _rows(self) -> Iterator[tuple[str, ...]]:
        return ((label, *map(self.text, figures)) for label, figures in self.figures.items())

    def text(self, figure: Figure) -> str:
        """A figure such as `27.4 (26.9 to 28.0), 13 of 23 types [25.0]`."""
        text = self._number(figure.mean)
        if figure.seeds > 1:
            text += f" ({self._number(figure.low)} to {self._number(figure.high)})"
        if figure.values and figure.types:
            text += f", {figure.types}"
        return text if figure.paper is None else f"{text} [{self._number(figure.paper)}]"

    def _number(self, value: float | None) -> str:
        return NONE if value is None else f"{value:,.{self.digits if value < 1000 else 0}f}"

    def picture(self) -> bytes:
        """The figures as PNG."""
        if self.drawn:
            figures = {k: [f for f in row if f.column in self.drawn] for k, row in self.figures.items()}
            return evolve(self, columns=tuple(self.drawn), figures=figures, drawn=()).picture()
        from matplotlib.figure import Figure as Picture

        lines = all(column.isdecimal() for column in self.columns)
        width = 8 if lines else max(6.0, 1.8 * len(self.columns) + 2)
        picture = Picture(figsize=(width, 4.5), layout="constrained")
        axes = picture.subplots()
        (self._lines if lines else self._bars)(axes)
        if self.published:
            axes.plot([], [], "--", color="k", linewidth=1, label=f"paper, {self.published}")
        axes.set(ylabel=self.unit, xlabel=self.across, title=f"{self.title} ({self.name})")
        if self.logarithmic:
            axes.set_yscale("log")
        axes.legend(fontsize="small")
        content = io.BytesIO()
        picture.savefig(content, format="png", dpi=120)
        return content.getvalue()

    def _bars(self, axes: Axes) -> None:
        """A bar for each row and column, a line over the seeds, and a dash where the published figure is."""
        width = 0.8 / len(self.figures)
        for i, (label, figures) in enumerate(self.figures.items()):
            places = np.arange(len(self.columns)) - 0.4 + (i + 0.5) * width
            axes.bar(places, [f.mean or 0.0 for f in figures], width, color=f"C{i}", label=label)
            for place, figure in zip(places, figures, strict=True):
                if figure.low is not None and figure.high is not None:
                    axes.plot([place, place], [figure.low, figure.high], color="0.2", linewidth=1.5)
                _dash(axes, figure, place, width / 2)
        axes.set_xticks(np.arange(len(self.columns)), [column.replace(", ", "\n") for column in self.columns])

    def _lines(self, axes: Axes) -> None:
        """A line for each row: the means, with a band from lowest to highest and a dot for each seed."""
        shaded, meaning = list(map(int, self.shaded[0])), self.shaded[1]
        if shaded:
            axes.axvspan(min(shaded) - 0.4, max(shaded) + 0.4, color="0.92", label=meaning)
        for i, (label, figures) in enumerate(self.figures.items()):
            known: list[Any] = [figure for figure in figures if figure.values]
            places = [int(figure.column) for figure in known]
            style, colour = (":", "0.4") if label in self.constant else ("-", f"C{i}")
            axes.plot(places, [f.mean for f in known], style, color=colour, label=label)
            band = [f.low for f in known], [f.high for f in known]
            axes.fill_between(places, *band, color=f"C{i}", alpha=0.15, linewidth=0)
            for place, figure in zip(places, known, strict=True):
                if label not in self.constant:
                    axes.plot([place] * figure.seeds, figure.values, ".", color=colour, markersize=4)
                _dash(axes, figure, place, 0.2)
        axes.set_ylim(0, None)
        axes.set_xticks([int(column) for column in self.columns])


def _dash(axes: Axes, figure: Figure, place: float, half: float) -> None:
    """A dash where the published figure is."""
    if figure.paper is not None:
        axes.plot([place - half, place + half], [figure.paper] * 2, "--", color="k", linewidth=1)
