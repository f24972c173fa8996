"""What a plug-in announces beside parts: ready specs, runtimes, pipelines, parsers, experiments and commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args, get_type_hints

import typer
from typer.testing import CliRunner

from peirce.compose import resolve
from peirce.errors import ModelFileError, PeirceError, TaskError
from peirce.model import Experiment, Field, Pipeline, Runtime
from peirce.parts import Signature
from peirce.registry import class_named, load_spec
from peirce_testing.check import Case, check
from peirce_testing.compare import BrokenError, NotApplicableError


def refused(call: Callable[[], object], where: str, by: type[Exception] = PeirceError) -> bool:
    """Hold that a call works, or is refused by an error of one line; whether it is refused.

    Raises:
        BrokenError: it raises something else, or says nothing or many lines.
    """
    try:
        call()
    except by as error:
        if len(str(error).strip().splitlines()) != 1:
            raise BrokenError(f"{where}, it says {str(error)!r}; a message is one line") from error
        return True
    except Exception as error:
        said = f"{where}, it raises {type(error).__name__}: {error}; raise a {by.__name__}"
        raise BrokenError(said) from error
    return False


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
        raise BrokenError(f"{path.name} has the name {spec.name!r}, and users take it as {case.entry.name!r}")


@check("runtimes")
def runtime(case: Case) -> None:
    """A runtime is imported without torch, is made without arguments, and refuses damaged files. A runtime that is
    given a file of another kind raises a ModelFileError in one line.
    """
    made = _without_torch(case, Runtime)()
    with TemporaryDirectory() as folder:
        path = Path(folder, f"damaged.{case.entry.name}")
        for what, content in (("that is empty", b""), ("of noise", bytes(range(256)) * 4)):
            path.write_bytes(content)
            if not refused(lambda: made.open(path, None, None), f"of a file {what}", ModelFileError):
                raise BrokenError(f"it opens a file {what}")


@check("pipelines")
def pipeline(case: Case) -> None:
    """A pipeline is imported without torch, names what is asked and answered, and knows the models it is for. Its
    fields, and what it says of a model without inputs, outputs and files. Exporters ask it its own example.
    """
    found, kinds = _without_torch(case, Pipeline), get_args(get_type_hints(Field)["kind"])
    wrong: list[str] = []
    for what, fields in (("question", found.question), ("answer", found.answer)):
        wrong += _twice(what, [each.name for each in fields]) if fields else [f"{what} has no fields"]
        for each in fields:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", each.name) or each.kind not in kinds:
                wrong.append(f"{what} has a field {each.name!r} of kind {each.kind!r}")
            wrong += _no_line(f"{what}: the meaning of {each.name}", each.meaning)
    if (said := found.answers(Signature((), ()), (), False)) is not False:
        wrong.append(f"of a model without inputs, outputs and files, `answers` says {said!r}")
    if wrong:
        raise BrokenError("\n".join(wrong))


def _twice(what: str, names: Sequence[str]) -> Iterator[str]:
    if len(set(names)) < len(names) or not all(isinstance(name, str) and name.strip() for name in names):
        yield f"{what} = {', '.join(map(repr, names))} has a name twice, or an empty one"


def _no_line(what: str, said: str) -> Iterator[str]:
    if not said.strip() or "\n" in said:
        yield f"{what} is {said!r}, which is no line"


def _without_torch(case: Case, base: type[Any]) -> Any:
    """The class that is announced, whose module is imported in silence where there is no torch."""
    found, module = _class(case, base), case.entry.part.partition(":")[0]
    program = f"import sys; sys.path[:] = {sys.path!r}; sys.modules['torch'] = None; import {module}"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode:
        raise BrokenError(f"without torch, importing {module} fails: {said[-1]}")
    if said:
        raise BrokenError(f"importing {module} prints {said[0][:200]!r}")
    return found


def _class(case: Case, base: type[Any]) -> Any:
    try:
        return class_named(case.entry.kind, case.entry.name, base, case.registry)
    except PeirceError as error:
        raise BrokenError(str(error)) from error


@check("parsers")
def parser(case: Case) -> None:
    """A parser goes by its name, says in a line what is missing, and gives each sentence a tree over its own
    characters, in their order, the same each time. Its example, no text, and text with all sorts of characters; one
    that reads trees reads its example alone.
    """
    found = _class(case, object)
    if getattr(found, "name", None) != case.entry.name:
        raise BrokenError(f"{found!r} does not have the name {case.entry.name!r}, which users take it by")
    if not refused(lambda: found("no_such_model").parse(found.example), "with a model that is not there"):
        raise BrokenError("it parses with the model 'no_such_model', which is not there")
    try:
        made = found()
        made.parse(found.example)  # a model that is missing may be missed here first
    except TaskError as error:
        raise NotApplicableError(str(error)) from error
    texts = ("", "No.", "“Why?” — he asked\n\nagain, and\tagain 👍. e\u0301t 2.5 % (or so)!")
    for text in (found.example, *(() if found.reads_trees else texts)):
        parsed = made.parse(text)
        if parsed != found().parse(text):
            raise BrokenError(f"of {text!r} it gives other trees each time")
        if not found.reads_trees and parsed.text != text:
            raise BrokenError(f"given {text!r}, it parses {parsed.text!r}; it reads text, and changes none")
        if bool(parsed.trees) is not bool(text) or (text == found.example and parsed.failed):
            raise BrokenError(f"of {text!r}, {parsed.failed} of {len(parsed.trees)} sentences are not parsed")
        end = 0
        for tree in parsed.trees:
            end = _in_order(parsed.text, tree, end)


def _in_order(text: str, tree: Any, end: int) -> int:
    """Where a tree ends, whose tokens are those of the text, in their order, and whose constituents hold each other."""
    last, places = end, [token[1:] for token in tree.tokens]
    for token in tree.tokens:
        # Tokens of one contraction share its characters.
        own = places.count(token[1:]) > 1 or text[token.start : token.end] == token.text
        if not (last <= token.start < token.end <= len(text) and own):
            raise BrokenError(f"of {text!r}: token {token} stands at {text[token.start : token.end]!r}")
        last, end = token.start, max(end, token.end)
    above: list[Any] = []
    for each in tree.constituents:
        while above and each.start >= above[-1].stop:
            above.pop()
        if above and not above[-1].start <= each.start < each.stop <= above[-1].stop:
            raise BrokenError(f"of {text!r}: {each} crosses {above[-1]}")
        above.append(each)
    return end


@check("experiments")
def experiment(case: Case) -> None:
    """An experiment says what it trains, shows and costs, in names that are each there once. Its rows, columns, scales,
    title and folder.
    """
    one: Experiment = case.entry.part
    wrong = [*_no_line("title", one.title)]
    rows = (*one.rows, *one.more)
    for what, names in (("rows", rows), ("columns", one.columns), ("published", one.published)):
        wrong += _twice(what, tuple(names))
    if not one.rows or not one.scales:
        wrong.append("it has no rows or no scales, so there is nothing to train")
    for name, line in one.scales.items():
        wrong += _no_line(f"the scale {name!r}", line)
    if Path(one.folder).is_absolute() or ".." in Path(one.folder).parts:
        wrong.append(f"folder = {one.folder!r} lies outside of where the user stands")
    if wrong:
        raise BrokenError("\n".join(wrong))


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
            found = attrgetter(target.partition(":")[2])(import_module(module))
        except (Exception, SystemExit) as error:
            raise BrokenError(f"{target} cannot be imported: {type(error).__name__}: {error}") from error
    if said := out.getvalue().strip():
        raise BrokenError(f"importing {module} prints {said.splitlines()[0][:200]!r}")
    if not callable(found):
        raise BrokenError(f"{target} is {found!r}, which is no function and no typer application")
    app = found
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False)
        app.command()(found)
    for words, each in _levels(typer.main.get_command(app), ()):
        shown = " ".join((*name.split("."), *words))
        if "usage:" not in _ran(app, (*words, "--help"), f"{shown} --help", 0).lower():
            raise BrokenError(f"`{shown} --help` prints no usage")
        if silent := [p.name for p in each.params if p.name != "help" and not getattr(p, "help", None)]:
            raise BrokenError(f"`{shown} --help` does not say what {', '.join(silent)} is for")
        if _ran(app, (*words, "--no-such-option"), f"{shown} --no-such-option", 2).strip():
            raise BrokenError(f"`{shown} --no-such-option` prints to stdout; a message goes to stderr alone")
    examples = getattr(sys.modules[module], "COMMAND_EXAMPLES", {}).get(name, ())
    with TemporaryDirectory() as folder, chdir(folder):
        for words in examples:
            shown = " ".join((*name.split("."), *words))
            said = _ran(app, words, shown, 0)
            if "--json" in words:
                _hold_document(shown, said)


def _levels(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command and all that are below it, each with the words that lead to it."""
    yield words, command
    for name, each in getattr(command, "commands", {}).items():
        yield from _levels(each, (*words, name))


def _ran(app: typer.Typer, words: Sequence[str], shown: str, code: int) -> str:
    """What a call prints to stdout, which ends with a code."""
    done = CliRunner().invoke(app, list(words))
    ended = 2 if isinstance(done.exception, PeirceError) else done.exit_code
    if ended != code:
        said = done.stderr.strip()[-300:] if isinstance(done.exception, SystemExit) else repr(done.exception)
        raise BrokenError(f"`{shown}` ends with {ended}, and not with {code}: {said}")
    return str(done.stdout)


def _hold_document(shown: str, text: str) -> None:
    def no_number(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    try:
        document = json.loads(text, parse_constant=no_number)
    except ValueError as error:
        raise BrokenError(f"`{shown}` prints no JSON document: {error}: {text[:200]!r}") from error
    if not isinstance(document, dict):
        raise BrokenError(f"`{shown}` prints a {type(document).__name__}; a document is an object")
