"""What commands print: a table that does not fit is turned, and keeps every heading and cell."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from peirce.commands import Fitting


def printed(width: int) -> str:
    table = Table("", "output", "same\nanswer")
    table.columns[1].no_wrap = True
    table.add_row("ok", "classification_logits", "98.0%")
    console = Console(file=io.StringIO(), width=width)
    console.print(Fitting(table))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_table_that_does_not_fit_is_turned_and_loses_nothing() -> None:
    assert "same answer" not in printed(60)
    narrow = printed(38)
    for text in ("ok", "output", "classification_logits", "same answer", "98.0%"):
        assert text in narrow
