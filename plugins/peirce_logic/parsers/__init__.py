"""Parsers: a constituency tree for each sentence of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peirce.errors import InputError, unknown

if TYPE_CHECKING:
    from peirce_logic.parsers.parser import Parser

NAMES = ("brackets", "spacy")


def parser_of(name: str) -> Parser:
    """The parser of a name.

    Raises:
        InputError: there is none. TaskError: it needs a package that is not installed.
    """
    if name == "brackets":
        from peirce_logic.parsers.brackets import Brackets

        return Brackets()
    if name == "spacy":
        from peirce_logic.parsers.spacy import Spacy

        return Spacy()
    raise InputError(unknown("parser", name, NAMES))
