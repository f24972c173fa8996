"""The plug-in of `peirce_show`, which has commands and no parts."""

from __future__ import annotations

from peirce.registry import hookimpl


@hookimpl
def register_commands() -> dict[str, str]:
    """Pictures of models."""
    return {}
