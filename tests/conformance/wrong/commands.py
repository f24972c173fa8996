"""Commands that print what they should not, end as they should not, or say nothing of themselves.

Each is the source of a module with the command `greet`, which a distribution announces.
"""

from __future__ import annotations

from attrs import frozen

RIGHT = '''
import json
from typing import Annotated

import typer
from peirce.errors import InputError

COMMAND_EXAMPLES = {"greet": [["Ada"], ["Ada", "--json"]]}


def greet(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who is greeted.")],
    times: Annotated[int, typer.Option(min=1, help="How often.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Greet somebody."""
    if name.startswith("nothing"):
        raise InputError(f"there is nobody called {name}; give a name")
    if as_json:
        typer.echo(json.dumps({"schema": "greet/1", "greetings": [f"hello {name}"] * times}))
        return
    for _ in range(times):
        typer.echo(f"hello {name}")
'''


def named(source: str, name: str) -> str:
    """A module whose command has another name."""
    return source.replace('{"greet":', f'{{"{name}":')


@frozen
class WrongCommand:
    """A flaw, as what the right source has in its place, and the check that must reject it."""

    name: str
    right: str
    wrong: str
    check: str

    @property
    def source(self) -> str:
        """The module with the flaw."""
        assert self.right in RIGHT
        return named(RIGHT.replace(self.right, self.wrong, 1), self.name)


NOBODY = 'raise InputError(f"there is nobody called {name}; give a name")'
EXAMPLES = "COMMAND_EXAMPLES ="
BRANCH = "    if as_json:"
GREETINGS = '{"schema": "greet/1", "greetings": [f"hello {name}"] * times}'
TIMES = 'typer.Option(min=1, help="How often.")'
LEAVES = "raise typer.Exit(77)"
ANY = """
app = typer.Typer()


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def greet("""

WRONG = [
    WrongCommand("prints_at_import", EXAMPLES, f'print("greet 1.0")\n{EXAMPLES}', "command_import"),
    WrongCommand(
        "logs_at_import", EXAMPLES, f"import logging\nlogging.warning('slow')\n{EXAMPLES}", "command_import"
    ),
    WrongCommand("needs_what_is_not_there", "import json", "import json, no_such_module", "command_import"),
    WrongCommand("is_a_number", "def greet(", "greet = 3\n\n\ndef other(", "command_import"),
    WrongCommand("exits_at_import", EXAMPLES, f"raise SystemExit(0)\n{EXAMPLES}", "command_import"),
    WrongCommand("says_nothing_of_times", TIMES, "typer.Option(min=1)", "command_help"),
    WrongCommand("says_nothing_of_name", ', help="Who is greeted."', "", "command_help"),
    WrongCommand("takes_any_option", "def greet(", ANY, "command_errors"),
    WrongCommand(
        "talks_before_its_json", BRANCH, f'    typer.echo("greeting ...")\n{BRANCH}', "command_json"
    ),
    WrongCommand(
        "two_documents", "        return\n", '        typer.echo("{}")\n        return\n', "command_json"
    ),
    WrongCommand("a_list", GREETINGS, '[f"hello {name}"] * times', "command_json"),
    WrongCommand("not_a_number", '"schema": "greet/1", ', '"share": float("nan"), ', "command_json"),
    WrongCommand("a_dict_as_python", "json.dumps(", "str(", "command_json"),
    WrongCommand(
        "fails_in_the_end",
        BRANCH,
        f"    if not as_json:\n        raise typer.Exit(3)\n{BRANCH}",
        "command_json",
    ),
    WrongCommand("throws", NOBODY, "raise KeyError(name)", "command_json"),
    WrongCommand("ends_in_silence", NOBODY, "raise typer.Exit(1)", "command_json"),
    WrongCommand(
        "has_a_code_of_its_own",
        NOBODY,
        'typer.echo("nobody", err=True)\n        raise typer.Exit(77)',
        "command_json",
    ),
]
