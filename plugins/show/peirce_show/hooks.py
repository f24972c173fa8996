"""The hook of views, which any plug-in may implement."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Mapping

from peirce.registry import Kind, hookspec, targets

VIEWS = "views"
"""The kind of views in a registry."""
KINDS = (Kind(name=VIEWS, read=targets("'query': 'my_lab.viewing:Queries'")),)
"""What the hooks register."""


@hookspec
def register_views() -> Mapping[str, str]:
    """Add views of models, which `peirce look` draws: by name, the class as `module:attribute`."""
