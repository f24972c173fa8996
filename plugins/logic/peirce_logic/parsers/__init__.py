"""Parsers: a constituency tree for each sentence of a text."""

from __future__ import annotations

from peirce.registry import Registry, class_named
from peirce_logic.parsers.parser import Parser


def parser_of(name: str, catalogue: Registry | None = None) -> Parser:
    """The parser of a name, as a plug-in announces it by `register_parsers`.

    Args:
        name: such as `spacy`; or `spacy:en_core_web_lg`, which also names its model.
        catalogue: where parsers are looked up; what is installed and active if None.

    Raises:
        RegistryError: there is none, or what is registered is not a parser.
        TaskError: it needs a package or a model that is not installed.
    """
    name, _, model = name.partition(":")
    found: type[Parser] = class_named("parsers", name, Parser, catalogue)
    return found(model or None)
