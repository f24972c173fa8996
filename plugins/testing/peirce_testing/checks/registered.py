"""What a plug-in registers beside parts: ready specs, runtimes, pipelines and commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args, get_type_hints

import typer
from typer.testing import CliRunner

from peirce.compose import resolve
from peirce.errors import ModelFileError, PeirceError, one_line
from peirce.parts import Signature
from peirce.registry import class_named, import_target, load_spec
from peirce_export import Field, Pipeline, Runtime
from peirce_testing.check import Case, check
from peirce_testing.compare import BrokenError, is_refused


@check("specs")
def ready_spec(case: Case) -> None:
    """A ready spec can be read, goes by its file's name, and resolves with the registered parts. With a vocabulary of
    100 where its data are to bring one.
    """
    path: Any = case.entry.part
    try:
        spec = load_spec(path)
        counted = spec if spec.input.vocabulary else spec.replace({"model.input.vocabulary": 100})
        resolve(counted, case.registry)
    except PeirceError as error:
        raise BrokenError(f"{path.name}: {error}") from error
    if spec.name != case.entry.name:
        raise BrokenError(
            f"{path.name} has the name {spec.name!r}; it must be {case.entry.name!r}, as its file"
        )


@check("runtimes")
def runtime(case: Case) -> None:
    """A runtime is imported without torch, is made without arguments, and refuses damaged files. A runtime that is
    given a file of another kind raises a ModelFileError in one line.
    """
    instance = _without_torch(case, Runtime)()
    with TemporaryDirectory() as folder:
        path = Path(folder, f"damaged.{case.entry.name}")
        for what, content in (("that is empty", b""), ("of noise", bytes(range(256)) * 4)):
            path.write_bytes(content)
            if not is_refused(lambda: instance.open(path, None, None), f"of a file {what}", ModelFileError):
                raise BrokenError(f"it opens a file {what} without an error")


@check("pipelines")
def pipeline(case: Case) -> None:
    """A pipeline is imported without torch, names what is asked and answered, and knows the models it is for. Its
    fields, and what it says of a model without inputs, outputs and files. Exporters ask it its own example.
    """
    found, kinds = _without_torch(case, Pipeline), get_args(get_type_hints(Field)["kind"])
    wrong: list[str] = []
    for what, fields in (("question", found.question), ("answer", found.answer)):
        wrong += _name_problems(what, [each.name for each in fields]) if fields else [f"{what} has no fields"]
        for each in fields:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", each.name) or each.kind not in kinds:
                wrong.append(f"{what} has a field {each.name!r} of kind {each.kind!r}")
            wrong += _line_problems(f"{what}: the meaning of {each.name}", each.meaning)
    if (answer := found.answers(Signature((), ()), (), False)) is not False:
        wrong.append(f"of a model without inputs, outputs and files, `answers` gives {answer!r}")
    if wrong:
        raise BrokenError("\n".join(wrong))


def _name_problems(what: str, names: Sequence[str]) -> Iterator[str]:
    if len(set(names)) < len(names) or not all(isinstance(name, str) and name.strip() for name in names):
        yield f"{what} = {', '.join(map(repr, names))} has a name twice, or an empty one"


def _line_problems(what: str, text: str) -> Iterator[str]:
    if not text.strip() or "\n" in text:
        yield f"{what} must be one line, not {text!r}"


def _without_torch(case: Case, base: type[Any]) -> Any:
    """The class that is announced, whose module is imported in silence where there is no torch."""
    found, module = _class(case, base), case.entry.part.partition(":")[0]
    program = f"import sys; sys.path[:] = {sys.path!r}; sys.modules['torch'] = None; import {module}"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    printed = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode:
        raise BrokenError(f"without torch, importing {module} fails: {printed[-1]}")
    if printed:
        raise BrokenError(f"importing {module} prints {printed[0][:200]!r}")
    return found


def _class(case: Case, base: type[Any]) -> Any:
    try:
        return class_named(case.entry.kind, case.entry.name, base, case.registry)
    except PeirceError as error:
        raise BrokenError(str(error)) from error


@check("commands")
def command(case: Case) -> None:
    """A command is imported in silence, its help says what everything is for, a mistake of the user's ends with 2 and a
    message, and with `--json` its stdout is one JSON object. Help and an unknown option at every level; the calls of
    `COMMAND_EXAMPLES` in its module, in an empty folder.
    """
    name, target = case.entry.name, str(case.entry.part)
    module = target.partition(":")[0]
    with redirect_stdout(StringIO()) as out, redirect_stderr(out):
        try:
            found = import_target(target)
        except Exception as error:
            raise BrokenError(f"{target} cannot be imported: {one_line(error)}") from error
    if printed := out.getvalue().strip():
        raise BrokenError(f"importing {module} prints {printed.splitlines()[0][:200]!r}")
    if not callable(found):
        raise BrokenError(f"{target} must be a function or a typer application, not {found!r}")
    app = found
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False)
        app.command()(found)
    for words, each in _levels(typer.main.get_command(app), ()):
        shown = " ".join((*name.split("."), *words))
        if "usage:" not in _run_command(app, (*words, "--help"), f"{shown} --help", 0).lower():
            raise BrokenError(f"`{shown} --help` prints no usage")
        if silent := [p.name for p in each.params if p.name != "help" and not getattr(p, "help", None)]:
            raise BrokenError(f"`{shown} --help` does not say what {', '.join(silent)} is for")
        if _run_command(app, (*words, "--no-such-option"), f"{shown} --no-such-option", 2).strip():
            raise BrokenError(f"`{shown} --no-such-option` prints to stdout; a message goes to stderr alone")
    examples = getattr(sys.modules[module], "COMMAND_EXAMPLES", {}).get(name, ())
    with TemporaryDirectory() as folder, chdir(folder):
        for words in examples:
            shown = " ".join((*name.split("."), *words))
            printed = _run_command(app, words, shown, 0)
            if "--json" in words:
                _check_document(shown, printed)


def _levels(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command and all that are below it, each with the words that lead to it."""
    yield words, command
    for name, each in getattr(command, "commands", {}).items():
        yield from _levels(each, (*words, name))


def _run_command(app: typer.Typer, words: Sequence[str], shown: str, code: int) -> str:
    """What a call prints to stdout, which ends with a code."""
    done = CliRunner().invoke(app, list(words))
    ended = 2 if isinstance(done.exception, PeirceError) else done.exit_code
    if ended != code:
        message = (
            done.stderr.strip()[-300:] if isinstance(done.exception, SystemExit) else repr(done.exception)
        )
        raise BrokenError(f"`{shown}` exits with {ended} instead of {code}: {message}")
    return str(done.stdout)


def _check_document(shown: str, text: str) -> None:
    def no_number(name: str) -> None:
        raise ValueError(f"{name} is not valid JSON")

    try:
        document = json.loads(text, parse_constant=no_number)
    except ValueError as error:
        raise BrokenError(f"`{shown}` prints no JSON document: {error}: {text[:200]!r}") from error
    if not isinstance(document, dict):
        raise BrokenError(f"`{shown}` prints a {type(document).__name__}; a document is an object")
