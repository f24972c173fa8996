"""What a command promises: a quiet import, help, exit codes, and JSON that is nothing else."""

from __future__ import annotations

import json
import sys
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from peirce.registry import canonical
from peirce.testing import command_runs
from peirce.testing.check import Case, check
from peirce.testing.failures import BrokenError, NotApplicableError
from peirce.testing.processes import TRACEBACK, found_by


@check("commands", contract="importing a command prints nothing, and what is announced is a command")
def command_import(case: Case) -> None:
    """In a process of its own."""
    found = _facts(case)
    for what in ("import", "load"):
        run = found.get(what, {"raised": "", "out": "", "err": "", "code": 0})
        if run["raised"] or run["code"]:
            raise BrokenError(f"{case.entry.part.value} cannot be imported: {run['raised'] or run['code']}")
        if said := (run["out"] + run["err"]).strip():
            raise BrokenError(f"importing {case.entry.part.value} prints {said.splitlines()[0][:200]!r}")
    if not found["levels"]:
        raise BrokenError(f"importing {case.entry.part.value} ends the process")


@check("commands", contract="`--help` works at every level, exits with 0, and says what everything is for")
def command_help(case: Case) -> None:
    """Of the command, and of all below it."""
    for level in _levels(case):
        words, run = " ".join(level["words"]), level["help"]
        if run["raised"] or run["code"]:
            raise BrokenError(f"`{words} --help` ends with {run['raised'] or run['code']}")
        if "usage:" not in run["out"].lower() or run["err"].strip():
            raise BrokenError(
                f"`{words} --help` prints no usage, or prints to stderr: {run['err'].strip()[:200]!r}"
            )
        if level["silent"]:
            raise BrokenError(f"`{words} --help` does not say what {', '.join(level['silent'])} is for")


@check("commands", contract="a user's mistake is a message on stderr and exit code 2, never a traceback")
def command_errors(case: Case) -> None:
    """An option that no command has, at every level."""
    for level in _levels(case):
        words, run = " ".join(level["words"]), level["unknown"]
        what = f"`{words} {command_runs.UNKNOWN}`"
        if run["raised"] or _breaks(run["err"]):
            raise BrokenError(
                f"{what} ends in a traceback: {run['raised'] or run['err'].strip().splitlines()[-1]}"
            )
        if run["code"] != 2:
            raise BrokenError(f"{what} ends with {run['code']}, and a mistake in the arguments ends with 2")
        if run["out"].strip() or not run["err"].strip():
            raise BrokenError(
                f"{what} prints {run['out'].strip()[:100]!r} to stdout; a message goes to stderr alone"
            )


@check(
    "commands", contract="a command ends with 0, 1 or 2, and with `--json` its stdout is one JSON document"
)
def command_json(case: Case) -> None:
    """Its own examples, which succeed, and a call of what is not there for each command that has `--json`.

    Examples stand in the command's module: `COMMAND_EXAMPLES = {"COMMAND": [["ARGUMENT", "--json"]]}` names, by the
    command, calls that work in an empty folder.
    """
    examples = [
        {**run, "words": [*case.entry.name.split("."), *run["words"]], "works": True}
        for run in _examples(case)
    ]
    tried = [{**level["tried"], "works": False} for level in _levels(case) if level["tried"] is not None]
    if not examples and not tried:
        raise NotApplicableError(
            f"it has no --json, and its module names no {command_runs.EXAMPLES} = {{{case.entry.name!r}: [[...]]}}"
        )
    for run in (*examples, *tried):
        what = f"`{' '.join(run['words'])}`"
        if run["raised"] or _breaks(run["err"]):
            raise BrokenError(
                f"{what} ends in a traceback: {run['raised'] or run['err'].strip().splitlines()[-1]}"
            )
        if run["code"] not in ((0,) if run["works"] else (0, 1, 2)):
            raise BrokenError(f"{what} ends with {run['code']}: {run['err'].strip()[-300:]}")
        if run["code"] and not run["err"].strip() and not run["out"].strip():
            raise BrokenError(f"{what} ends with {run['code']} without a word")
        if "--json" in run["words"] and (run["out"].strip() or not run["code"]):
            _document(what, run["out"])


def _breaks(said: str) -> bool:
    """Whether the code broke: the command line shows a traceback of that, or offers to."""
    return "Traceback" in said or TRACEBACK in said


def _document(what: str, text: str) -> None:
    try:
        document = json.loads(text, parse_constant=_no_number)
    except ValueError as error:
        raise BrokenError(f"{what} prints no JSON document: {error}: {text[:200]!r}") from error
    if not isinstance(document, dict):
        raise BrokenError(
            f"{what} prints a {type(document).__name__}; a document is an object, which can grow"
        )


def _examples(case: Case) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _facts(case).get("examples", [])
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _levels(case: Case) -> list[dict[str, Any]]:
    found = _facts(case)
    if not found["levels"]:
        raise NotApplicableError("it cannot be imported, which `command_import` is about")
    levels: list[dict[str, Any]] = found["levels"]
    return levels


def _facts(case: Case) -> dict[str, Any]:
    """What the program finds, of all commands of the distribution at once."""
    found: dict[str, Any] = _of_distribution(str(case.entry.distribution), tuple(sys.path))[case.entry.name]
    return found


@cache
def _of_distribution(distribution: str, path: tuple[str, ...]) -> dict[str, Any]:
    found = {
        f"{entry.name}={entry.value}"
        for entry in entry_points(group="peirce.commands")
        if entry.dist is not None and canonical(entry.dist.name) == distribution
    }
    return found_by(command_runs.__name__, *sorted(found), path=path)
