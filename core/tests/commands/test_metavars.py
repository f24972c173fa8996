"""The words that stand for values in the help of commands mean the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from peirce.commands.lines import published
from peirce.commands.main import commands, load_command
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
        if all(entry.distribution in published() for entry in command.entries):
            loaded = load_command(command)
            for name, one in (getattr(loaded, "commands", None) or {"": loaded}).items():
                yield from ((f"{command.name} {name}".strip(), parameter) for parameter in one.params)


def test_every_value_is_named_by_a_known_word_and_an_option_takes_the_same_in_every_command() -> None:
    named = list(parameters())
    assert len({command for command, _ in named}) > 12
    for command, parameter in named:
        where = f"peirce {command}: {parameter.name}"
        assert parameter.help, where
        if parameter.param_type_name == "argument":
            assert parameter.metavar in METAVARS, where
            continue
        assert parameter.metavar in (None, *METAVARS), where
        (option, *_) = [name for name in parameter.opts if name.startswith("--")]
        assert parameter.metavar == ONE_MEANING.get(option, parameter.metavar), where
        if option == "--output":
            assert parameter.metavar in ("FILE", "DIR"), where
            assert "-o" in parameter.opts, where
