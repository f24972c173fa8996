"""The hook of parsers, which any plug-in may implement."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Mapping

from peirce.registry import Kind, hookspec, targets

KINDS = (Kind(name="parsers", read=targets("'spacy': 'my_lab.parsers:Spacy'")),)
"""What the hooks register."""


@hookspec
def register_parsers() -> Mapping[str, str]:
    """Add parsers of text: by name, the class that gives each sentence its constituents, as `module:attribute`."""
