"""The report of a verification as a value, as a table and as JSON; and a spinner while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve, field, frozen

from peirce.commands import Fitting
from peirce.model import Report

if TYPE_CHECKING:
    from rich.console import Group

SCHEMA = "peirce.verification/1"


@frozen(kw_only=True)
class Line:
    """One output of the file against the float64 reference, at its worst case.

    Args:
        output: the output's name.
        shape: its dims, as the file states them.
        dtype: its dtype in the file.
        error: max |file - reference| / max |reference|, the largest over the cases; inf where the file has
            NaN or infinity, or anything but zero where the reference is all zero.
        tolerance: the largest error that is accepted.
        case: the case with the largest error.
        rounded: the same error against the weights before they were cast; None when nothing was cast.
        agreement: the part of the rows with scores in which the best one is the model's; None for outputs that
            are not scores, and for files that are not quantised.
        least_agreement: the least accepted `agreement`.
    """

    output: str
    shape: tuple[str | int, ...]
    dtype: str
    error: float
    tolerance: float
    case: str
    rounded: float | None = None
    agreement: float | None = None
    least_agreement: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance, and enough answers agree."""
        agreed = self.agreement is None or self.agreement >= self.least_agreement
        return self.error <= self.tolerance and agreed


@frozen(kw_only=True)
class Verification(Report):
    """The verification of one file.

    Args:
        precision: the dtype of its weights.
        opset_requested: the opset that was asked for; None if the file is not ONNX.
        opset_actual: the opset of the file.
        seed: of the random inputs.
        providers: of the runtime, in effect.
        cases: the shapes and masks that were run, in words.
        lines: one for each output.
        reason: why the tolerance is what it is.
        passed: whether every output is within its tolerance.
        tolerance: the largest of the outputs.
    """

    precision: str
    opset_requested: int | None
    opset_actual: int | None
    seed: int
    providers: tuple[str, ...]
    cases: tuple[str, ...]
    lines: tuple[Line, ...]
    reason: str
    passed: bool = field(init=False)
    tolerance: float | None = field()

    @passed.default
    def _all_passed(self) -> bool:
        return all(line.passed for line in self.lines)

    @tolerance.default
    def _largest_tolerance(self) -> float:
        return max((line.tolerance for line in self.lines), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON; an infinite error is the text `inf`."""
        lines = [{**asdict(line), "passed": line.passed} for line in self.lines]
        for line in lines:
            for key in ("error", "rounded"):
                if line[key] == float("inf"):
                    line[key] = "inf"
        return {"schema": SCHEMA, **asdict(self), "file": str(self.file), "lines": lines}

    def __rich__(self) -> Group:
        """The report for a terminal."""
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        cast = any(line.rounded is not None for line in self.lines)
        opset = "" if self.opset_actual is None else f", opset {self.opset_actual}"
        if self.opset_actual != self.opset_requested:
            opset += f" (asked for {self.opset_requested})"
        title = f"{self.file}: {self.precision}{opset}"
        plain: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 2, 0, 0), "pad_edge": False}
        table = Table(title=title, title_justify="left", **plain)
        for name in ("", "output", "shape", "dtype"):
            table.add_column(name, no_wrap=name != "shape", min_width=12 if name == "shape" else None)
        scored = any(line.agreement is not None for line in self.lines)
        numbers = ["max\nrelative\nerror", "\n\ntolerance"]
        numbers += (["\nbefore\nrounding"] if cast else []) + (["\nsame\nanswer"] if scored else [])
        for name in numbers:
            table.add_column(name, justify="right", no_wrap=True)
        for line in self.lines:
            table.add_row(
                Text("ok", "green") if line.passed else Text("NO", "bold red"),
                line.output,
                Text(f"[{', '.join(map(str, line.shape))}]"),
                line.dtype,
                f"{line.error:.1e}",
                f"{line.tolerance:.0e}",
                *([f"{line.rounded:.1e}" if line.rounded is not None else ""] if cast else []),
                *(["" if line.agreement is None else f"{line.agreement:.1%}"] if scored else []),
            )
        below = [
            f"Against torch in float64, on {', '.join(self.providers)}, with random inputs of seed "
            f"{self.seed}: {'; '.join(self.cases)}.",
            f"Tolerance: {self.reason}",
        ]
        if cast:
            below.append("Before rounding: the same error against the weights as they were before the cast.")
        return Group(Fitting(table), *(Text(text, "dim") for text in (*below, *self.notes)))


def merge_reports(reports: Sequence[Verification]) -> Verification:
    """One report of several files that belong together, named by the first; later files' outputs carry their file."""
    first, *others = reports
    lines = [
        evolve(line, output=f"{other.file.name}: {line.output}") for other in others for line in other.lines
    ]
    cases = [case for other in others for case in other.cases]
    notes = dict.fromkeys(note for report in reports for note in report.notes)
    return evolve(first, lines=(*first.lines, *lines), cases=(*first.cases, *cases), notes=tuple(notes))


@contextmanager
def progress_spinner(title: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with the elapsed time on stderr; yields a function that changes the text beside it."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title)
        yield lambda words: progress.update(task, description=f"{title}: {words}")
