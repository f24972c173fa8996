"""The lines of help that `peirce --help` reads from a file are those that plug-ins register."""

from __future__ import annotations

from importlib.metadata import entry_points

from peirce.commands.lines import CORE, announced_lines, packaged_lines


def test_the_file_has_what_plugins_say() -> None:
    assert packaged_lines() == announced_lines(), "run `python -m peirce.commands.lines` to write it anew"


def test_every_command_that_ships_has_a_line() -> None:
    announced = {
        entry.name
        for entry in entry_points(group="peirce.commands")
        if entry.dist is not None and entry.dist.name == "peirce"
    }
    assert set(packaged_lines()) == announced | set(CORE)
