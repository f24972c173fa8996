"""The hook of calculi of relations, which any plug-in may implement."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Mapping

from peirce.registry import Kind, hookspec, targets

KINDS = (Kind(name="calculi", read=targets("'rcc8': 'my_lab.calculi:rcc8'")),)
"""What the hooks register."""


@hookspec
def register_calculi() -> Mapping[str, str]:
    """Add calculi: by name, the function without arguments that returns the relation algebra, as `module:attribute`."""
