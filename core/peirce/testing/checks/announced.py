"""What ready specs, runtimes, pipelines and experiments promise."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args, get_type_hints

from attrs import evolve

from peirce.compose import resolve
from peirce.errors import ModelFileError, PeirceError
from peirce.model import Experiment, Field, Pipeline, Runtime
from peirce.parts import Signature
from peirce.registry import load_spec
from peirce.testing.check import Case, check
from peirce.testing.failures import BrokenError
from peirce.testing.processes import GUARD, environment

DAMAGED = {"empty": b"", "of noise": bytes(range(256)) * 4, "of text": b"no model at all\n" * 9}


@check(
    "specs",
    contract="a ready spec can be read, goes by its file's name, and resolves with the registered parts",
)
def ready_spec(case: Case) -> None:
    """With a vocabulary of 100 where its data are to bring one."""
    path: Path = case.entry.part.value
    try:
        spec = load_spec(path)
        if spec.input.vocabulary is None:
            spec = evolve(spec, input=evolve(spec.input, vocabulary=100))
        resolve(spec, case.registry)
    except PeirceError as error:
        raise BrokenError(f"{path.name}: {error}") from error
    if not spec.name or spec.name != case.entry.name:
        raise BrokenError(f"{path.name} has the name {spec.name!r}, and users take it as {case.entry.name!r}")


@check(
    "runtimes",
    contract="a runtime is imported without torch, is made without arguments, and refuses damaged files",
)
def runtime(case: Case) -> None:
    """Of files that are none of its own: a ModelFileError in one line."""
    target = case.entry.part.value
    made = _without_torch(target, Runtime)()
    with TemporaryDirectory() as folder:
        for what, content in DAMAGED.items():
            path = Path(folder, f"damaged.{case.entry.name}")
            path.write_bytes(content)
            try:
                made.open(path, None, None)
            except ModelFileError as error:
                if not str(error).strip() or "\n" in str(error).strip():
                    raise BrokenError(
                        f"of a file {what}, the message is {str(error)!r}; it is one line"
                    ) from error
            except Exception as error:
                raise BrokenError(
                    f"a file {what} raises {type(error).__name__}: {error}; raise a ModelFileError"
                ) from error
            else:
                raise BrokenError(f"it opens a file {what}")


@check(
    "pipelines",
    contract="a pipeline is imported without torch, names what is asked and answered, and knows the models it is for",
)
def pipeline(case: Case) -> None:
    """Its fields, and what it says of a model without inputs, outputs and files. Exporters ask it its own example."""
    found = _without_torch(case.entry.part.value, Pipeline)
    kinds, wrong = get_args(get_type_hints(Field)["kind"]), []
    if left := sorted(getattr(found, "__abstractmethods__", ())):
        wrong.append(f"it does not define {', '.join(left)}")
    for what in ("question", "answer"):
        fields = getattr(found, what, None)
        if not isinstance(fields, tuple) or not fields or not all(isinstance(f, Field) for f in fields):
            wrong.append(f"{what} = {fields!r} is no tuple of fields")
            continue
        names = [each.name for each in fields]
        if len(set(names)) < len(names):
            wrong.append(f"{what} has a name twice: {', '.join(names)}")
        for each in fields:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", each.name) or each.kind not in kinds:
                wrong.append(f"{what} has a field {each.name!r} of kind {each.kind!r}")
            if not each.meaning.strip() or "\n" in each.meaning:
                wrong.append(f"{what}: {each.name} says {each.meaning!r}, which is no line of its meaning")
    if not isinstance(found.streams, bool):
        wrong.append(f"streams = {found.streams!r} is neither true nor false")
    if (said := found.answers(Signature((), ()), (), False)) is not False:
        wrong.append(
            f"of a model without inputs, outputs and files, `answers` says {said!r}; it is for no such"
        )
    if wrong:
        raise BrokenError("\n".join(wrong))


def _without_torch(target: str, base: type[Any]) -> Any:
    """The class that is announced, whose module is imported in silence where there is no torch."""
    module, _, attribute = target.partition(":")
    found = getattr(import_module(module), attribute, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise BrokenError(f"{target} is {found!r}, and no peirce.model.{base.__name__}")
    program = f"import sys; sys.modules['torch'] = None; import {module}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment(), capture_output=True, text=True, check=False,
        timeout=GUARD,
    )  # fmt: skip
    if done.returncode:
        raise BrokenError(f"without torch, importing {module} fails: {done.stderr.strip().splitlines()[-1]}")
    if said := (done.stdout + done.stderr).strip():
        raise BrokenError(f"importing {module} prints {said.splitlines()[0][:200]!r}")
    return found


@check(
    "experiments",
    contract="an experiment says what it trains, shows and costs, in names that are each there once",
)
def experiment(case: Case) -> None:
    """Its rows, columns, scales, title and folder."""
    one: Experiment = case.entry.part.value
    wrong = []
    if not one.title.strip() or "\n" in one.title:
        wrong.append(f"title = {one.title!r} is no line")
    rows = (*one.rows, *one.more)
    for what, names in (("rows", rows), ("columns", one.columns), ("published", one.published)):
        if len(set(names)) < len(names) or not all(isinstance(name, str) and name.strip() for name in names):
            wrong.append(f"{what} = {names!r} has a name twice, or an empty one")
    if not one.rows:
        wrong.append("it has no rows, so there is nothing to train")
    if not one.scales:
        wrong.append("it has no scales; name one, and say in a line what it means")
    for name, line in one.scales.items():
        if not line.strip() or "\n" in line:
            wrong.append(f"the scale {name!r} says {line!r}, which is no line")
    if Path(one.folder).is_absolute() or ".." in Path(one.folder).parts:
        wrong.append(f"folder = {one.folder!r} lies outside of where the user stands")
    if wrong:
        raise BrokenError("\n".join(wrong))
