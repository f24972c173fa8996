"""What an exporter promises: a file, a report of it, a model as it was, and nothing where it fails."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from itertools import combinations
from pathlib import Path
from typing import Any, get_type_hints

import torch

import peirce
from peirce.errors import PeirceError, RegistryError
from peirce.model import Report
from peirce_export import LoadedModel, runtime_class
from peirce_testing.check import check
from peirce_testing.compare import BrokenError, NotApplicableError, NotRunError, assert_equal
from peirce_testing.harness.exporters import ExporterHarness, Written, contents, facts_of
from peirce_testing.options import choices, few_values, given_fields, kinds_of, with_value

COMMAND = ("model", "output", "to", "settings", "set", "json", "help")
"""The options of `peirce export` itself."""
MACHINE = tuple(Path(file).parent for file in (torch.__file__, peirce.__file__) if file)
"""Folders of this machine, by which what a file says of the machine that wrote it is known."""


@check("exporters")
def export_report(exporter: ExporterHarness) -> None:
    """`export` writes the file, returns a Report of it, and leaves the model as it is. The report's type and what it
    says, the file, which names no folder of this machine, the model's tensors and modes.
    """
    trial, adds, written = exporter.trial, exporter.adds, exporter.name
    report, path = trial.report, trial.path
    if not isinstance(report, Report):
        raise BrokenError(f"it returns a {type(report).__name__}; return Report(file=path, passed=True)")
    if not trial.after.get(written) and not (
        adds and any(name.startswith(f"{written}/") for name in trial.after)
    ):
        raise BrokenError(f"it writes no {'folder' if adds else 'file'} at {written!r}, or an empty one")
    if Path(report.file).resolve() != path.resolve():
        raise BrokenError(f"the report names the file {report.file}, and not {path}")
    if report.passed is not True:
        message = "where a file differs from its model, raise an ExportError"
        raise BrokenError(f"the report says passed = {report.passed!r} of the file; {message}")
    if isinstance(report.notes, str) or not all(isinstance(each, str) for each in report.notes):
        raise BrokenError(f"the report's notes are {report.notes!r}; they must be a tuple of sentences")
    try:
        json.dumps(report.to_dict(), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BrokenError(f"the report's `to_dict` cannot be written as JSON: {error}") from error
    for name, content in exporter.plain.facts.items():
        if place := next(
            (each for each in (*MACHINE, path.parent.parent) if f"{each}/".encode() in content), None
        ):
            raise BrokenError(
                f"{name} names {place}, a folder of this machine, as the tracer's notes of lines do"
            )
    for name, value in facts_of(trial.model).items():
        if isinstance(value, torch.Tensor):
            assert_equal(value, trial.facts[name], f"the model's {name} after the export", tolerance=0.0)
        elif value != trial.facts[name]:
            raise BrokenError(f"the export changes {name} of the model from {trial.facts[name]} to {value}")


@check("exporters")
def export_overwrites(exporter: ExporterHarness) -> None:
    """An export replaces the file that it was given, and no other file or folder. In a saved model's folder beside a
    user's notes, over an older file, and where a folder stands.
    """
    trial, written = exporter.trial, exporter.name
    taken = exporter.new_folder() / written
    kept, now = trial.before, trial.after
    if gone := [name for name, content in kept.items() if name != written and now.get(name) != content]:
        raise BrokenError(f"beside {written} it changes or removes {', '.join(gone)}")
    if written in kept and now.get(written, b"").startswith(kept[written][:64]):
        raise BrokenError(f"{written} is the older file that it should have replaced, or begins with it")
    if others := [name for name in now if name not in kept and not name.startswith(Path(written).stem)]:
        raise BrokenError(
            f"beside {written} it leaves {', '.join(others)}, which does not begin with its name"
        )
    taken.mkdir()
    (taken / "notes.txt").write_text("mine", encoding="utf-8")
    try:
        exporter.fresh().export(trial.model, taken)
    except (PeirceError, OSError):
        pass
    except Exception as error:
        raise BrokenError(f"where the path is a folder, it raises {type(error).__name__}: {error}") from error
    left = contents(taken) if taken.is_dir() else {}
    if left.pop("notes.txt", b"") != b"mine" or (left and not exporter.adds):
        raise BrokenError(
            "where the path is a folder, it replaces or changes the folder; raise an ExportError"
        )


@check("exporters")
def export_values(exporter: ExporterHarness) -> None:
    """A file computes what its model does, under its names and at every size, to the tolerance that the report states.
    Read back by `read` or by the runtime of `suffix`, at sizes that differ from the traced ones.
    """
    _ = exporter.opened


@check("exporters", slow=True)
def export_verification(exporter: ExporterHarness) -> None:
    """A file in which one weight is not the model's fails its verification. The runtime's, of the file against changed
    models; or that of `export`, where `read` returns a function and gives another weight.
    """
    if not exporter.is_read:
        raise NotApplicableError("its file is not the model's, as `export_values` says")
    opened, model, noticed = exporter.opened, exporter.trial.model, False
    if opened_by_runtime := isinstance(opened, LoadedModel):
        try:
            runtime = runtime_class(exporter.file, exporter.registry)()
        except RegistryError as error:
            raise NotRunError(f"not run: {error}") from error
        if not runtime.verify(exporter.file, model, providers=opened.providers).passed:
            raise BrokenError(f"the runtime's `verify` says that {exporter.name} differs from its own model")
    for what, other in exporter.changed_models():
        try:
            if opened_by_runtime:
                report = runtime.verify(exporter.file, other, providers=opened.providers)
            else:
                report = exporter.reading(other).export(model, exporter.new_folder() / exporter.name)
            noticed = not report.passed
        except PeirceError:
            noticed = True
        if not noticed:
            if opened_by_runtime:
                raise BrokenError(
                    f"the runtime's `verify` takes the file for that of another model, whose {what}"
                )
            raise BrokenError(
                f"`export` takes for its model what `read` gives, whose {what}; verify what was written by "
                "`peirce_export.verify_read(self.read, ...)`"
            )
    if not noticed:
        raise NotApplicableError("no weight of its tiny model moves an output")


@check("exporters")
def export_failure(exporter: ExporterHarness) -> None:
    """An export that fails raises, leaves nothing, and keeps the file that was there. A model without values, whose
    tensors are on the meta device; and a folder that is not there.
    """
    model = exporter.trial.model
    hollow = deepcopy(model).to("meta")
    for name, older in (("nothing there", {}), ("an older file", {exporter.name: b"an older file"})):
        folder = exporter.new_folder()
        for each, content in older.items():
            (folder / each).write_bytes(content)
        try:
            exporter.fresh().export(hollow, folder / exporter.name)
        except Exception:  # whatever it is: a user's model has values
            if contents(folder) != older or any(path.is_dir() for path in folder.iterdir()):
                left = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing of it"
                advice = "write beside the path and rename, as `peirce_export.write_verified` does"
                raise BrokenError(f"an export that fails, with {name}, leaves {left}; {advice}") from None
        else:
            left = ", ".join(contents(folder)) or "and no file"
            raise BrokenError(f"it exports a model without values: {left}")
    missing, where = exporter.new_folder() / "no such folder" / exporter.name, "where the folder is not there"
    try:
        exporter.fresh().export(model, missing)
    except (PeirceError, OSError):
        return
    except Exception as error:
        message = f"{where}, it raises {type(error).__name__}: {error}; raise an ExportError"
        raise BrokenError(message) from error
    if not missing.exists():
        raise BrokenError(f"{where}, it writes no file and raises no error")


FREE: Mapping[type, tuple[Any, ...]] = {int: (1, 2, 0), float: (0.5, 2.0, 0.0), str: ("other",)}
"""Values that are tried of an option which may be any number or any text."""


def _values(options: Any) -> dict[str, list[Any]]:
    """Other values of each option: of few all, but of several numbers the first and the last; of many some."""
    few, hints, found = few_values(options), get_type_hints(type(options)), dict[str, list[Any]]()
    for name in (field.name for field in given_fields(options)):
        free = [each for kind in kinds_of(hints.get(name)) for each in FREE.get(kind, ())]
        numbers = [value for value in few.get(name, []) if _is_number(value)]
        values = [value for value in few.get(name, free) if value not in numbers[1:-1]]
        found[name] = [value for value in values if value != getattr(options, name)]
    return found


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


class _Exports:
    """Exports of tiny models with other options, each of the first model that is for them.

    Attributes:
        read: the options that they read.
    """

    def __init__(self, exporter: ExporterHarness) -> None:
        self.exporter, self.read = exporter, set(exporter.read)
        self.few, self.values = few_values(exporter.options), _values(exporter.options)
        self._kept: dict[tuple[str, int], Written | None] = {(repr(exporter.options), 0): exporter.plain}
        self._noise: set[str] | None = None

    def compared(self, base: Any, name: str) -> list[tuple[Any, Written, Written]] | None:
        """What is written with other values of an option and without, as far as an export takes them.

        Of numbers those up to the first that does something. None if the other options leave none of the values.
        """
        found, possible = list[tuple[Any, Written, Written]](), False
        for value in self.values[name]:
            with suppress(TypeError, ValueError):
                options, possible = with_value(base, name, value), True
                for place in range(len(self.exporter.models)):
                    one = self._written(options, place, f"{name} = {value!r}", name in self.few)
                    if one is not None and (without := self._written(base, place)) is not None:
                        found.append((value, one, without))
                        break
            if found and _is_number(value) and not self.same(*found[-1][1:]):
                break
        return found if possible else None

    def same(self, one: Written, other: Written) -> bool:
        """Whether two exports give the same, but for what two with the same options differ in."""
        if self._noise is None:
            again = self.exporter.written(other.exporter.options, other.model)
            self._noise = set() if again is None else other.differences(again)
        return not one.differences(other) - self._noise

    def _written(self, options: Any, place: int, label: str = "", strict: bool = True) -> Written | None:
        """What is written of a model, and read back; None where it is not for the options, and the exporter says so."""
        if (key := (repr(options), place)) in self._kept:
            return self._kept[key]
        exporter, one = self.exporter, None
        exporter.read.clear()
        try:
            one = exporter.written(options, exporter.models[place])
        except Exception as error:
            if strict:  # any number or text may be wrong
                raise BrokenError(f"with {label}: {type(error).__name__}: {error}") from error
        finally:
            self.read |= exporter.read
        with suppress(NotRunError, NotApplicableError):
            try:
                if one is not None and exporter.is_read:
                    exporter.read_back(one.exporter, one.path, one.report, one.model)
            except Exception as error:
                error.add_note(f"with {label}")
                raise
        return self._kept.setdefault(key, one)


@check("exporters", slow=True)
def export_options(exporter: ExporterHarness) -> None:
    """Every option has an effect on what is written or reported, has a name that `peirce export` can offer, and every
    choice works. Files and reports with other values of one option, no two of which may be alike but for the example's
    own; each choice of an option of few values is read back. What an option lacks here a note of the report says by its
    name.
    """
    fields = given_fields(exporter.entry.part.Options)
    if taken := [field.alias or field.name for field in fields if (field.alias or field.name) in COMMAND]:
        raise BrokenError(f"`peirce export` has an option {', '.join(taken)} of its own; choose another name")
    exports, silent = _Exports(exporter), list[str]()
    for name in exports.values:
        for base in (exporter.options, *(options for _, options in choices(exporter.options))):
            if (found := exports.compared(base, name)) is not None:  # of two options that belong together
                silent += _silence(exports, name, found)
                break
    if dead := [field.name for field in fields if field.name not in exports.read]:
        raise BrokenError(f"nothing reads the option{'s' * (len(dead) > 1)} {', '.join(dead)}")
    if silent:
        raise BrokenError("\n".join(silent))


def _silence(exports: _Exports, name: str, found: list[tuple[Any, Written, Written]]) -> Iterator[str]:
    """What two values of an option do not change, if anything."""
    if not found or any(name in note for note in getattr(found[0][1].report, "notes", ())):
        return
    alike = [value for value, one, without in found if exports.same(one, without)]
    if len(alike) == len(found):
        values = ", ".join(map(repr, alike))
        yield f"option {name!r} has no effect: {values} write the same as without, and no note of the report says why"
    elif not any(_is_number(value) for value, _, _ in found):
        for (value, one, _), (other, two, _) in combinations(found, 2):
            if one.model is two.model and exports.same(one, two):
                yield f"option {name!r} has no effect: {value!r} and {other!r} write the same"
                return
