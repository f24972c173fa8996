"""How commands print: tables for people, one JSON object with `schema` for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peirce.errors import InputError, ModelFileError, escape_controls
from peirce.files import replace_non_finite

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

    from peirce.model import Model

METAVARS = {
    "SPEC": "a spec: a path that ends in `.toml` or has a separator, or a ready spec's name",
    "MODEL": "the folder of a saved model; where the help says so, a spec as well",
    "FILE": "one file, to read or to write",
    "FILES": "files, folders or patterns",
    "PATH": "a file or a folder",
    "DIR": "a folder to write to",
    "SIZES": "whole numbers with commas between them",
    "NAMES": "names with commas between them",
    "NAME": "the name of something registered or installed: a part, a task, an exporter, a provider",
    "KIND": "a kind of parts, such as `operators`; for `peirce new` one part, such as `operator`",
    "KIND.NAME": "a part's kind and name, such as `operators.prod`",
    "PLUGIN": "a plug-in: `distribution:entry-point`, or `module:NAME`",
    "MODULE": "the full name of a Python module",
    "RECIPE": "a path of a recipe, or a ready recipe's name",
    "CONFIG": "the configuration of a published model",
    "WEIGHTS": "the tensors of a published model",
    "OPERATORS": "a shorthand such as `jmc.atp`, or names of operators with commas between them",
    "LAYERS": "numbers of layers from 0 on, such as `4-6` or `0,2`",
    "KEY=SPACE": "a setting, and the values that it may have: a range or a list",
    "QUERY": "a first-order query",
    "TEXT": "words",
    "SPLIT": "a part of the data: train, valid or test",
    "GRAPH": "a knowledge graph: a folder of triples, a file of N-Triples, or a data set of pykeen by name",
    "DATA": "what an experiment learns from: a knowledge graph, or a folder of files",
    "LABEL": "a row of a table",
    "EXPERIMENT": "an experiment, such as `tega/table7`",
    "FIELD=VALUE": "a field of a question, and what it says",
    "EXPRESSION": "names with `and`, `or` and `not` between them, as pytest's `-k` takes them",
    "CHECK[KIND.NAME]=REASON": "a conformance check of a part that is known to fail, and why",
    "KEY=VALUE": "a setting; its value is TOML, or else text",
}
"""The placeholders of values in the help of commands; each means the same everywhere."""


def application(**more: Any) -> typer.Typer:
    """An application with the settings that all commands share."""
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **more)


def group(help: str, **more: Any) -> typer.Typer:
    """An application of several commands."""
    return application(help=help, no_args_is_help=True, **more)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
NewModel = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="DIR", help="Where the saved model goes.", show_default=False),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is in DIR.")]
PageFile = Annotated[
    Path | None,
    typer.Option(
        "--page", metavar="FILE", help="Also write the model as an .html page that answers in a browser."
    ),
]
WebRuntime = Annotated[
    Path,
    typer.Option(
        "--runtime", metavar="DIR", help="The folder `dist` of the npm package onnxruntime-web, for the page."
    ),
]
WEB_RUNTIME = Path("node_modules/onnxruntime-web/dist")
_PIPED_WIDTH = 200


def add_moved_command(app: typer.Typer, name: str, was: str, now: str) -> None:
    """Add a command under its older name, which takes any arguments and says what it is called now."""

    @app.command(
        name, hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
    )
    def refuse() -> None:
        raise InputError(f"`{was}` was removed; `{now}` does the same, and `peirce look --help` tells more")

    refuse.__doc__ = f"Older name of `{now}`."


def print_json(schema: str, **content: Any) -> None:
    """Print one object whose `schema` names its layout and version, such as `peirce.list/1`."""
    text = json.dumps(
        {"schema": schema, **replace_non_finite(content)}, indent=2, ensure_ascii=False, default=str
    )
    # Control characters can only be inside a string, where JSON writes them as these escapes.
    typer.echo(escape_controls(text))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print rows under headings; long cells are folded, never cut."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if title is not None:  # rich would fold it to the width of the table
        typer.echo(title)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else escape_controls(cell)) for cell in row))
    console().print(table)


class Fitting:
    """A table that fits the screen: as it is, or else turned to a line for each cell, so that nothing is cut.

    Args:
        table: rich's; columns that may not be folded say so.
    """

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """What is printed in so many columns."""
        from rich.table import Table

        whole, columns = self.table, self.table.columns
        if (
            whole.__rich_measure__(console, options.update(max_width=_PIPED_WIDTH)).minimum
            <= options.max_width
        ):
            yield whole
            return
        turned = Table(
            title=whole.title, caption=whole.caption, title_justify=whole.title_justify, box=whole.box,
            pad_edge=False, show_header=False,
        )  # fmt: skip
        for cells in zip(*(column.cells for column in columns), strict=True):
            for column, cell in zip(columns, cells, strict=True):
                if cell:
                    turned.add_row(" ".join(str(column.header).split()), cell)
            turned.add_section()
        yield turned


def console() -> Any:
    """A rich console on standard output; a pipe is wide, so that lines survive `grep`."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH, highlight=False)


def refuse_existing(output: Path, names: tuple[str, ...], overwrite: bool) -> None:
    """Refuse a folder that already has files that would be written, unless they may be replaced.

    Raises:
        ModelFileError: it has some of the names.
    """
    there = [name for name in names if (output / name).exists()]
    if there and not overwrite:
        raise ModelFileError(
            f"{output} already has {' and '.join(there)}; choose another folder, or give --overwrite to replace it"
        )


def print_result(json: bool, result: Mapping[str, object]) -> None:
    """Print the result of an import."""
    if json:
        print_json("peirce.import/1", **result)
        return
    for key, value in result.items():
        typer.echo(f"{key}: {value}")


def print_new_model(json: bool, model: Model, output: Path, **more: object) -> None:
    """Print the model that an import wrote."""
    parameters = sum(p.numel() for p in model.parameters())
    print_result(json, {"model": str(output), "name": model.spec.name, "parameters": parameters, **more})
