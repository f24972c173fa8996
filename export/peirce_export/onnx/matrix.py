"""One model in every opset, on every provider: which of them compute what it computes, as a table."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnxruntime as ort
from attrs import asdict, field, frozen

from peirce.commands import Fitting
from peirce.compose import read_model
from peirce.errors import PeirceError
from peirce.model import MODEL, Exportable, Model, Report
from peirce_export.casting import precision_of
from peirce_export.metadata import BITS, Metadata
from peirce_export.onnx.content import Content
from peirce_export.onnx.exporter import DEFAULT_OPSET, OPSETS, trace, write
from peirce_export.onnx.plugin_providers import plugin_providers
from peirce_export.onnx.providers import CPU, choose
from peirce_export.onnx.verifying import OnnxGraph
from peirce_export.report import Verification
from peirce_export.roles import exportable_for
from peirce_export.runtimes import Progress
from peirce_export.verification import verify

if TYPE_CHECKING:
    from rich.console import Group

SCHEMA = "peirce.matrix/1"
ASKED = range(DEFAULT_OPSET, OPSETS.stop)
"""The opsets of the table: from the default one to the last."""
REMOTE = "AzureExecutionProvider"
"""A provider that calls a service, and computes nothing on this machine."""


@frozen(kw_only=True)
class Cell:
    """A file of one opset on one provider.

    Args:
        opset: of the file.
        provider: what computed it.
        passed: whether every output is within its tolerance.
        error: the largest of all outputs; None where nothing was computed.
        why: what prevented the run, or what differs; empty if it passed.
    """

    opset: int
    provider: str
    passed: bool
    error: float | None = None
    why: str = ""


@frozen(kw_only=True)
class Matrix(Report):
    """A model in every opset, on every provider.

    Args:
        precision: of the files.
        cells: opset by opset.
        passed: whether all cells passed.
    """

    precision: str
    cells: tuple[Cell, ...]
    passed: bool = field(init=False)

    @passed.default
    def _all_passed(self) -> bool:
        return all(cell.passed for cell in self.cells)

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return {"schema": SCHEMA, **asdict(self), "file": str(self.file)}

    def __rich__(self) -> Group:
        """A table with a column for each provider, and the reasons for failures below it."""
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        title = Text(f"{self.file}: {self.precision}, largest relative error")
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column("opset", justify="right")
        for name in dict.fromkeys(cell.provider for cell in self.cells):
            table.add_column(name.removesuffix("ExecutionProvider"), no_wrap=True)
        for opset in dict.fromkeys(cell.opset for cell in self.cells):
            cells = [cell for cell in self.cells if cell.opset == opset]
            found = ["" if cell.error is None else f" {cell.error:.1e}" for cell in cells]
            states = [("ok", "green") if cell.passed else ("NO", "bold red") for cell in cells]
            table.add_row(str(opset), *(Text(*s).append(f, "") for s, f in zip(states, found, strict=True)))
        whys = dict.fromkeys(
            f"{cell.provider}, opset {cell.opset}: {cell.why}" for cell in self.cells if cell.why
        )
        return Group(title, Fitting(table), *(Text(text, "dim") for text in (*whys, *self.notes)))


def matrix(
    file: Path,
    model: Model,
    like: Metadata | None = None,
    *,
    providers: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Matrix:
    """Export a model in each of `ASKED`, and verify each file on several providers.

    Args:
        file: what the report is of.
        model: the model.
        like: of an exported file, whose role, precision and quantisation the others have too; None takes the model's.
        providers: what computes; None takes all that this ONNX Runtime has.
        seed: of the random inputs.
        progress: called with a few words before each step.
    """
    from peirce_export.onnx.quantising import quantise

    say = progress or (lambda words: None)
    known = (*ort.get_available_providers(), *plugin_providers())
    names = choose(providers or [name for name in known if name != REMOTE], None)
    precision, how = (like.precision, like.quantisation) if like else (precision_of(model), None)
    view = exportable_for(like.role if like else MODEL, model)
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        for opset in ASKED:
            say(f"tracing at opset {opset}")
            try:
                graph = trace(view, opset, precision, for_cpus=True)
                content = write(quantise(graph, how) if how else graph, path)
            except PeirceError as error:
                cells += [Cell(opset=opset, provider=name, passed=False, why=_line(error)) for name in names]
                continue
            for name in names:
                say(f"opset {opset} on {name}")
                cells.append(_cell(OnnxGraph(content), view, opset, name, seed))
    return Matrix(file=file, precision=BITS[how] if how else precision, cells=tuple(cells))


def matrix_of(file: Path, model: str | None = None, **how: Any) -> Matrix:
    """The matrix of a saved model's folder, or of an exported file, whose model lies in its folder by default.

    Args:
        file: the folder or the file.
        model: the folder of a saved model, or a spec.
        how: see `matrix`.
    """
    like = None if file.is_dir() else Content.read(file).metadata
    folder = model or (file if like is None else file.parent)
    return matrix(file, read_model(folder), like, **how)


def _cell(graph: OnnxGraph, view: Exportable, opset: int, provider: str, seed: int) -> Cell:
    only = [provider] if provider == CPU else [provider, CPU]
    report: Report | None
    why = ""
    try:
        report = verify(graph, view, seed=seed, providers=only)
        if report.providers[0] != provider:
            report, why = None, "it does not start; `peirce doctor` says why"
    except PeirceError as error:
        report, why = getattr(error, "report", None), _line(error)
    errors = [line.error for line in report.lines] if isinstance(report, Verification) else []
    return Cell(opset=opset, provider=provider, passed=not why, error=max(errors, default=None), why=why)


def _line(error: Exception) -> str:
    """The first sentence of an error."""
    return str(error).splitlines()[0]
