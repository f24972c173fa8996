"""As a program: how the commands of a distribution begin, help, refuse and answer, each in this one process.

`python -P -m peirce.testing.command_runs FILE NAME=MODULE:ATTRIBUTE...` writes it to FILE as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from runpy import run_module
from typing import Any

import typer

UNKNOWN = "--no-such-option-of-any-command"
NOTHING = "nothing-of-this-name"
EXAMPLES = "COMMAND_EXAMPLES"
"""The name in a command's module: by the command's name, lists of arguments that work in an empty folder."""


def main(words: Sequence[str]) -> None:
    """`peirce WORDS`, as a shell runs it."""
    sys.argv = ["peirce", *words]
    run_module("peirce", run_name="__main__")


def command_of(target: str) -> Any:
    """The command line of a `module:attribute`."""
    module, _, attribute = target.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        if not callable(found):
            raise TypeError(f"{target} is {found!r}, which is no function and no typer application")
        app = typer.Typer(add_completion=False)
        app.command()(found)
        found = app
    return typer.main.get_command(found)


def ran(call: Callable[[], object]) -> dict[str, Any]:
    """The exit code of a call, what it prints to either stream, and the exception that ends it, if one does."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    code, raised = 0, ""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            call()
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException as error:
            code, raised = 1, f"{type(error).__name__}: {error}"
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return {"code": code, "out": texts[0], "err": texts[1], "raised": raised}


def below(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command and all that are below it, each with the words that lead to it."""
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from below(each, (*path, name))


def tried(words: list[str], command: Any) -> dict[str, Any] | None:
    """A call with `--json`, of what is not there; None of a command that has no JSON or leads to others."""
    if getattr(command, "commands", None) or not any("--json" in each.opts for each in command.params):
        return None
    given = []
    for each in command.params:
        if each.required:
            given += [*([each.opts[0]] if each.param_type_name == "option" else []), NOTHING]
    return {"words": [*words, *given, "--json"], **ran(lambda: main([*words, *given, "--json"]))}


def facts(name: str, target: str) -> dict[str, Any]:
    """Everything that checks ask of a command."""
    module = target.partition(":")[0]
    found: dict[str, Any] = {"import": ran(lambda: import_module(module)), "levels": []}
    if found["import"]["raised"]:
        return found
    loaded: list[Any] = []
    found["load"] = ran(lambda: loaded.append(command_of(target)))
    if not loaded:
        return found
    for path, each in below(loaded[0]):
        words = [*name.split("."), *path]
        found["levels"].append(
            {
                "words": words,
                "help": ran(partial(main, [*words, "--help"])),
                "unknown": ran(partial(main, [*words, UNKNOWN])),
                "silent": [p.name for p in each.params if not (getattr(p, "help", None) or p.name == "help")],
                "tried": tried(words, each),
            }
        )
    given = getattr(sys.modules[module], EXAMPLES, {}).get(name, ())
    found["examples"] = [
        {"words": list(words), **ran(partial(main, [*name.split("."), *words]))} for words in given
    ]
    return found


def write(file: str, *commands: str) -> None:
    """Write the facts of each command, which is given as `NAME=MODULE:ATTRIBUTE`."""
    found = {}
    for command in commands:
        name, _, target = command.partition("=")
        try:
            found[name] = facts(name, target)
        except Exception as error:  # one that cannot be looked at leaves the others
            nothing = {"code": 1, "out": "", "err": "", "raised": f"{type(error).__name__}: {error}"}
            found[name] = {"import": nothing, "levels": []}
    Path(file).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    write(*sys.argv[1:])
