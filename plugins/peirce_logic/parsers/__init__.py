"""Parsers: a constituency tree for each sentence of a text."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from peirce.errors import RegistryError
from peirce.registry import Catalogue, default_catalogue

if TYPE_CHECKING:
    from peirce_logic.parsers.parser import Parser


def parser_of(name: str, catalogue: Catalogue | None = None) -> Parser:
    """The parser of a name, as a plug-in announces it by `register_parsers`.

    Args:
        name: such as `spacy`; or `spacy:en_core_web_lg`, which also names its model.
        catalogue: where parsers are looked up; what is installed and active if None.

    Raises:
        RegistryError: there is none, or what is announced is no parser.
        TaskError: it needs a package or a model that is not installed.
    """
    from peirce_logic.parsers.parser import Parser

    name, _, model = name.partition(":")
    target = (catalogue or default_catalogue()).entry("parsers", name).part
    module, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise RegistryError(f"the parser {name!r}, {target}, cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Parser)):
        raise RegistryError(f"the parser {name!r}, {target}, is no peirce_logic.parsers.parser.Parser")
    return found(model or None)
