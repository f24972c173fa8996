"""What an exporter promises: a file, a report of it, a model as it was, and nothing where it fails."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import torch

from peirce.errors import PeirceError
from peirce.model import Report
from peirce.testing.check import Case, check
from peirce.testing.compare import BrokenError, same
from peirce.testing.harness.exporters import NAME, contents, facts_of
from peirce.testing.options import choices, given_fields

COMMAND = ("model", "output", "to", "settings", "set", "json", "help")
"""The options of `peirce export` itself."""


@check(
    "exporters", contract="`export` writes the file, returns a Report of it, and leaves the model as it is"
)
def export_report(case: Case) -> None:
    """The report's type and what it says, the file, the model's tensors and modes."""
    trial, adds = case.exporter.trial, case.exporter.adds
    report, path = trial.report, trial.path
    if not isinstance(report, Report):
        raise BrokenError(f"it returns a {type(report).__name__}; return Report(file=path, passed=True)")
    if not trial.after.get(NAME) and not (adds and any(name.startswith(f"{NAME}/") for name in trial.after)):
        raise BrokenError(f"there is no {'folder' if adds else 'file'} at {NAME!r}, or an empty one")
    if Path(report.file).resolve() != path.resolve():
        raise BrokenError(f"the report is of the file {report.file}, and the path was {path}")
    if report.passed is not True:
        raise BrokenError(
            f"the report says passed = {report.passed!r} of a file that was just written; a file that differs from "
            "its model is an ExportError"
        )
    if isinstance(report.notes, str) or not all(isinstance(each, str) for each in report.notes):
        raise BrokenError(f"the report's notes are {report.notes!r}; they are sentences, a tuple of strings")
    try:
        json.dumps(report.to_dict(), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BrokenError(f"the report's `to_dict` is not for JSON: {error}") from error
    for name, value in facts_of(trial.model).items():
        if isinstance(value, torch.Tensor):
            same(value, trial.facts[name], f"the model's {name} after the export", tolerance=0.0)
        elif value != trial.facts[name]:
            raise BrokenError(
                f"after the export, {name} of the model is {value}, and was {trial.facts[name]}"
            )


@check("exporters", contract="an export replaces the file that it was given, and no other file or folder")
def export_overwrites(case: Case) -> None:
    """In a saved model's folder beside a user's notes, over an older file, and where a folder stands."""
    exporter, trial = case.exporter, case.exporter.trial
    kept, now = trial.before, trial.after
    gone = [name for name, content in kept.items() if name != NAME and now.get(name) != content]
    if gone:
        raise BrokenError(f"beside {NAME} it changes or removes {', '.join(gone)}")
    if NAME in kept and now.get(NAME, b"").startswith(kept[NAME][:64]):
        raise BrokenError(
            f"{NAME} is the older file that it should have replaced, or goes on where that one ended"
        )
    others = [name for name in now if name not in kept and not name.startswith(Path(NAME).stem)]
    if others:
        raise BrokenError(f"beside {NAME} it leaves {', '.join(others)}, which does not begin with its name")
    taken = exporter.folder() / NAME
    taken.mkdir()
    (taken / "notes.txt").write_text("mine", encoding="utf-8")
    try:
        exporter.fresh().export(trial.model, taken)
    except Exception as error:
        if not isinstance(error, PeirceError | OSError):
            raise BrokenError(f"where a folder stands it raises {type(error).__name__}: {error}") from error
    left = contents(taken) if taken.is_dir() else {}
    if left.pop("notes.txt", b"") != b"mine" or (left and not exporter.adds):
        raise BrokenError("where a folder stands, it replaces or changes the folder; raise an ExportError")


@check("exporters", contract="an export that fails raises, leaves nothing, and keeps the file that was there")
def export_failure(case: Case) -> None:
    """A model without values, whose tensors are on the meta device; and a folder that is not there."""
    exporter, model = case.exporter, case.exporter.trial.model
    hollow = deepcopy(model).to("meta")
    for name, older in (("nothing there", None), ("an older file", b"an older file")):
        folder = exporter.folder()
        if older is not None:
            (folder / NAME).write_bytes(older)
        try:
            exporter.fresh().export(hollow, folder / NAME)
        except Exception:  # whatever it is: a user's model has values
            expected = {} if older is None else {NAME: older}
            if contents(folder) != expected or any(path.is_dir() for path in folder.iterdir()):
                left = ", ".join(sorted(path.name for path in folder.iterdir()))
                raise BrokenError(
                    f"an export that fails, with {name}, leaves {left or 'nothing of it'}; write beside the path and "
                    "rename, as `peirce.files.replacing` does"
                ) from None
        else:
            raise BrokenError(
                f"it exports a model without values: {', '.join(contents(folder)) or 'and no file'}"
            )
    missing = exporter.folder() / "no such folder" / NAME
    try:
        exporter.fresh().export(model, missing)
    except Exception as error:
        if not isinstance(error, PeirceError | OSError):
            raise BrokenError(
                f"where the folder is not there, it raises {type(error).__name__}: {error}; raise an ExportError"
            ) from error
    else:
        if not missing.exists():
            raise BrokenError("where the folder is not there, it writes nothing and says nothing")


@check(
    "exporters",
    contract="every option is read, has a name that `peirce export` can offer, and every choice works",
)
def export_options(case: Case) -> None:
    """Which fields an export reads; and each other choice of an option of few values."""
    exporter, fields = case.exporter, given_fields(case.entry.part.Options)
    if taken := [field.alias or field.name for field in fields if (field.alias or field.name) in COMMAND]:
        raise BrokenError(f"`peirce export` has an option {', '.join(taken)} of its own; choose another name")
    model = exporter.trial.model
    read = set(exporter.read)
    for label, chosen in choices(exporter.options):
        exporter.read.clear()
        try:
            exporter.fresh(chosen).export(model, exporter.folder() / NAME)
        except PeirceError:
            continue  # this model is not for this choice, and it says so
        except Exception as error:
            raise BrokenError(f"with {label}: {type(error).__name__}: {error}") from error
        finally:
            read |= exporter.read
    if dead := [field.name for field in fields if field.name not in read]:
        raise BrokenError(f"an export does not read {', '.join(dead)} of its options")
