"""The command `peirce kg`, as its tests call it."""

from __future__ import annotations

from peirce.errors import PeirceError
from peirce_kg.kg import app
from typer.testing import CliRunner


def run(*arguments: str) -> str:
    """What the command prints; its errors are raised."""
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, PeirceError):
        raise result.exception
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout
