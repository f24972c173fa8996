"""The commands `peirce kg NAME` and others, as their tests call them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from typer.testing import CliRunner

from peirce.commands import application
from peirce.errors import PeirceError
from peirce.registry import announcements


def run(name: str, *arguments: str) -> str:
    """What a command prints; its errors are raised."""
    (entry,) = (each for each in announcements("peirce.commands") if each.name == f"kg.{name}")
    module, _, function = entry.target.partition(":")
    return call(getattr(import_module(module), function), *arguments)


def call(command: Callable[..., None], *words: object) -> str:
    """What a command prints that is given as a function; its errors are raised."""
    app = application()
    app.command()(command)
    result = CliRunner().invoke(app, [*map(str, words)])
    if isinstance(result.exception, PeirceError):
        raise result.exception
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout
