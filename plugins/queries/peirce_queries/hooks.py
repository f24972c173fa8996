"""What other distributions can register here: syntaxes of queries, formats of files, and models that answer queries."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Mapping

from peirce.registry import Kind, hookspec, targets

SYNTAXES, FORMATS, ANSWERERS = "syntaxes", "formats", "answerers"

KINDS = (
    Kind(name=SYNTAXES, read=targets("'datalog': 'my_lab.datalog:Datalog'")),
    Kind(name=FORMATS, read=targets("'datalog': 'my_lab.files:DatalogFiles'")),
    Kind(name=ANSWERERS, read=targets("'rules': 'my_lab.rules:RuleAnswerer'")),
)


@hookspec
def register_syntaxes() -> Mapping[str, str]:
    """Add syntaxes of queries: by name, the `peirce_queries.Syntax` as `module:attribute`."""


@hookspec
def register_formats() -> Mapping[str, str]:
    """Add formats of files with graphs or queries: by name, the `peirce_queries.Format` as `module:attribute`."""


@hookspec
def register_answerers() -> Mapping[str, str]:
    """Add models that `peirce ask` asks: by name, the `peirce_queries.Answerer` as `module:attribute`."""
