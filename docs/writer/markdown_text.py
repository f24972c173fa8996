"""Pieces of Markdown: tables, and text whose marks stand for themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; none without rows."""
    body = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return [f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}", *body, ""] if body else []


def filtered(lines: Sequence[str]) -> list[str]:
    """A long list or table, above which the site shows a field that filters it."""
    return ['<div class="filterable" markdown>', "", *lines, "", "</div>", ""]


def escaped(text: str) -> str:
    """Text whose brackets, stars and underscores outside of code stand for themselves."""
    pieces = text.split("`")
    pieces[::2] = [re.sub(r"([*_\[\]<])", r"\\\1", piece) for piece in pieces[::2]]
    return "`".join(pieces)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


__all__ = ["escaped", "filtered", "table"]
