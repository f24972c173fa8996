"""The words that stand for values in the help of commands mean the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from peirce.commands.main import commands, loaded_command
from peirce.commands.show import METAVARS

ONE_MEANING = {
    "--task": "NAME",
    "--to": "NAME",
    "--provider": "NAME",
    "--set": "KEY=VALUE",
    "--from": "MODEL",
}
"""Options that several commands may have, and what each takes."""


def parameters() -> Iterator[tuple[str, Any]]:
    """Every argument and option of every command that ships, with the command's name."""
    for command in commands():
        if all(entry.distribution == "peirce" for entry in command.entries):
            loaded = loaded_command(command)
            for name, one in (getattr(loaded, "commands", None) or {"": loaded}).items():
                yield from ((f"{command.name} {name}".strip(), parameter) for parameter in one.params)


def test_every_value_is_named_by_a_known_word() -> None:
    named = list(parameters())
    assert len({command for command, _ in named}) > 12
    for command, parameter in named:
        where = f"peirce {command}: {parameter.name}"
        if parameter.param_type_name == "argument":
            assert parameter.metavar in METAVARS, where
        else:
            assert parameter.metavar in (None, *METAVARS), where
        assert parameter.help, where


def test_an_option_takes_the_same_in_every_command() -> None:
    for command, parameter in parameters():
        if parameter.param_type_name == "argument":
            continue
        (option, *_) = [name for name in parameter.opts if name.startswith("--")]
        if option in ONE_MEANING:
            assert parameter.metavar == ONE_MEANING[option], f"peirce {command} {option}"
        if option == "--output":
            assert parameter.metavar in ("FILE", "DIR"), f"peirce {command} {option}"
            assert "-o" in parameter.opts
