"""How commands print: tables for people, one JSON object with `schema` for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_PIPED_WIDTH = 200


def as_json(schema: str, **content: Any) -> None:
    """Print one object whose `schema` names its layout and version, such as `peirce.list/1`."""
    typer.echo(json.dumps({"schema": schema, **content}, indent=2, ensure_ascii=False, default=str))


def as_table(headings: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print rows under headings; long cells are folded, never cut."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    console().print(table)


def console() -> Any:
    """A rich console on standard output; a pipe is wide, so that lines survive `grep`."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH, highlight=False)
