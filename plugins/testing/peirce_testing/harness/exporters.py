"""Exporters as checks see them: with a tiny model that they accept, and a saved model's folder to write to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from attrs import define, frozen

from peirce.errors import ExportError, PeirceError, RegistryError, UnavailableError
from peirce.model import Model, Report
from peirce.registry import Registry
from peirce_export import CEILINGS, LEFT_OUT, relative_error, runtime_class, verify_read
from peirce_testing.compare import BrokenError, NotApplicableError, NotRunError, torch_unchanged
from peirce_testing.harness.base import UsedHarness
from peirce_testing.stub_parts import is_stub, with_stub_parts
from peirce_testing.tiny_models import build_random, example_heads, plain_specs, spec_with_heads

OLDER = b"an older file, longer than nothing" * 999
"""What stands there before."""
NOTICED = 3.0
"""How many tolerances a changed weight moves an output by that a verification must notice."""


@frozen(eq=False)
class Trial:
    """One export into a saved model's folder, which has a user's notes, and most often an older file.

    Args:
        model: the model.
        path: what the exporter was given.
        report: what the exporter returned.
        before: the files of the folder before, by name.
        after: the files afterwards.
        facts: what the model was before.
    """

    model: Model
    path: Path
    report: Any
    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    facts: Mapping[str, Any]


REPORT = "the report"
"""What the report is called among files."""


@frozen(eq=False)
class Written:
    """What an export with other options wrote.

    Args:
        exporter, model: what wrote it, and of what.
        path, report: what it was given, and what it returned.
        facts: the files by name, and what the report says, but for its folder.
    """

    exporter: Any
    model: Model
    path: Path
    report: Any
    facts: Mapping[str, bytes]

    def differences(self, other: Written) -> set[str]:
        """The files that differ; and the report, whose precision counts only where a file differs."""
        found = {
            name for name in {*self.facts, *other.facts} if self.facts.get(name) != other.facts.get(name)
        }
        one, two = (getattr(each.report, "precision", None) for each in (self, other))
        return found - ({REPORT} if one != two else set())


def _facts(files: Mapping[str, bytes], path: Path, report: Any) -> dict[str, bytes]:
    return {**files, REPORT: repr(report).replace(str(path.parent), "").encode()}


def facts_of(model: Model) -> dict[str, Any]:
    """What an export leaves as it is."""
    return {
        "the mode": [module.training for module in model.modules()],
        "the parameters that are trained": [parameter.requires_grad for parameter in model.parameters()],
        "the dtypes": [value.dtype for value in model.state_dict().values()],
        **{name: value.detach().clone() for name, value in model.state_dict().items()},
    }


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder and below, by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@define(slots=False)
class ExporterHarness(UsedHarness):
    """An exporter with its example options."""

    @property
    def adds(self) -> bool:
        """Whether the exporter adds to a folder, in place of writing a file."""
        return bool(self.entry.part.writes == "folder")

    @property
    def name(self) -> str:
        """What checks call the file."""
        return f"exported{'' if self.adds else self.entry.part.suffix or '.bin'}"

    def new_folder(self) -> Path:
        """A new folder, empty at first."""
        return Path(mkdtemp(dir=self.folder))

    @cached_property
    def trial(self) -> Trial:
        """The export of the first tiny model that the exporter accepts.

        Raises:
            BrokenError: it refuses all. NotRunError: it needs a package that is not installed.
        """
        why: dict[str, None] = {}
        for model in self._models(self.registry, self.entry.plugin):
            for older in (OLDER, None):  # an exporter may refuse to replace a file
                folder = self.new_folder() / "model"
                model.save(folder)
                (folder / "notes.txt").write_text("mine", encoding="utf-8")
                if older is not None:
                    (folder / self.name).write_bytes(older)
                before, facts = contents(folder), facts_of(model)
                try:
                    with torch_unchanged("`export`"):
                        report = self.fresh().export(model, folder / self.name)
                except PeirceError as error:
                    if isinstance(error.__cause__, ModuleNotFoundError):
                        raise NotRunError(str(error)) from error
                    why[str(error).splitlines()[0]] = None
                    continue
                return Trial(model, folder / self.name, report, before, contents(folder), facts)
        reasons = "\n".join(f"  {each}" for each in why)
        raise BrokenError(f"it exports no tiny model of the registered architectures\n{reasons}")

    @cached_property
    def file(self) -> Path:
        """The file of the trial that is read back; raises as `file_of`."""
        return self.file_of(self.trial.path)

    def file_of(self, path: Path) -> Path:
        """The file at a path, or the first with the exporter's suffix in a folder.

        Raises:
            NotRunError: the exporter states no suffix. BrokenError: no file has it.
        """
        if not (suffix := self.entry.part.suffix):
            raise NotRunError(
                "not run: it states no `suffix`, so that its files are not read back; from the next release on that is "
                "a failure: add `suffix`, and `read` or a runtime of such files"
            )
        found = sorted(path.rglob(f"*{suffix}")) if self.adds else [path]
        if not found:
            raise BrokenError(f"it adds no file whose name ends in its `suffix`, {suffix!r}")
        return found[0]

    @cached_property
    def opened(self) -> Any:
        """What opened the file of the trial, which is the model's; raises as `read_back`."""
        return self.read_back(self.fresh(), self.trial.path, self.trial.report, self.trial.model)

    @property
    def is_read(self) -> bool:
        """Whether the file of the trial is read back and is the model's; raises where that cannot be tried."""
        try:
            return self.opened is not None
        except (NotRunError, NotApplicableError):
            raise
        except Exception:  # the check `export_values` says which
            return False

    @cached_property
    def models(self) -> list[Model]:
        """Tiny models that options are tried on: the trial's, and one that generates."""
        stubs = with_stub_parts(self.registry)
        plugin = next(each.plugin for each in stubs.entries("architectures") if is_stub(each))
        causal = next(spec for spec in plain_specs(stubs, plugin) if spec.scope.kind == "causal")
        heads = [head for part, head in example_heads(stubs) if "past" in part.needs][:1]
        others = [build_random(spec_with_heads(causal, head), stubs, dtype=torch.float32) for head in heads]
        return [self.trial.model, *others]

    def written(self, options: Any, model: Model) -> Written | None:
        """What an export with other options writes of a model; None where it refuses one of the two."""
        exporter, path = self.fresh(options), self.new_folder() / self.name
        try:
            report = exporter.export(model, path)
        except PeirceError:
            return None
        return Written(exporter, model, path, report, _facts(contents(path.parent), path, report))

    @property
    def plain(self) -> Written:
        """What the trial wrote."""
        trial = self.trial
        files = {name: each for name, each in trial.after.items() if trial.before.get(name) != each}
        return Written(
            self.fresh(), trial.model, trial.path, trial.report, _facts(files, trial.path, trial.report)
        )

    def read_back(self, exporter: Any, path: Path, report: Any, model: Model) -> Any:
        """Read a file of a model and verify it; return what `read` or the runtime returned.

        Raises:
            BrokenError: nothing reads it, it differs, or lacks what the report does not name. NotRunError: this machine
                cannot run it, or as `file_of`. NotApplicableError: the export returned no report.
        """
        if not isinstance(report, Report):
            raise NotApplicableError("it returns no report")
        file, kept = self.file_of(path), list[Any]()
        if (most := CEILINGS.get(report.precision)) is None:
            raise BrokenError(
                f"the report's precision is {report.precision!r}; it is one of {', '.join(CEILINGS)}"
            )
        if report.tolerance is not None and not 0 <= report.tolerance <= most:
            raise BrokenError(
                f"the report states the tolerance {report.tolerance:.0e}, and a file in {report.precision} may state "
                f"{most:.0e} at most"
            )

        def read(path: Path, shell: Model) -> Any:
            found = exporter.read(path, shell)
            kept.append(
                runtime_class(path, self.registry)().open(path, None, None) if found is None else found
            )
            return kept[0]

        try:
            verified = verify_read(read, file, model, precision=report.precision, tolerance=report.tolerance)
        except UnavailableError as error:
            raise NotRunError(f"not run: {error}") from error
        except RegistryError as error:
            raise BrokenError(
                f"nothing reads its files: give `read`, or register a runtime ({error})"
            ) from error
        except ExportError as error:
            raise BrokenError(f"{error}".partition("\n")[0].replace(str(file), file.name)) from error
        told = " ".join(report.notes)
        for note in verified.notes:
            names = note.removeprefix(LEFT_OUT).rstrip(".").split(", ") if note.startswith(LEFT_OUT) else []
            if silent := [name for name in names if name not in told]:
                raise BrokenError(
                    f"the file lacks {', '.join(silent)} of the model, and no note of the report says so"
                )
        return kept[0]

    def changed_models(self) -> Iterator[tuple[str, Model]]:
        """The trial's model with one weight changed that moves an output of the file: of the first tensor with such a
        weight, of one in the middle and of the last, each with what was changed.
        """
        signature = getattr(self.opened, "signature", self.trial.model.signature)
        read, given = ({spec.name for spec in side} for side in (signature.inputs, signature.outputs))
        model = deepcopy(self.trial.model).requires_grad_()
        inputs = {name: value for name, value in model.example_inputs().items() if name in read}

        def outputs(model: Model) -> dict[str, torch.Tensor]:
            return {
                name: value
                for name, value in model(**inputs).items()
                if name in given and value.is_floating_point()
            }

        before, generator = outputs(model), torch.Generator().manual_seed(0)
        total = torch.zeros(())
        for value in before.values():
            total = total + (value * torch.randn(value.shape, generator=generator)).sum()
        named = dict(model.named_parameters())
        gradients = torch.autograd.grad(total, [*named.values()], allow_unused=True)
        found = list[tuple[str, Model]]()
        for name, gradient in zip(named, gradients, strict=True):
            if gradient is None:
                continue
            changed, place = deepcopy(self.trial.model).requires_grad_(False), int(gradient.abs().argmax())
            weight = changed.get_parameter(name).view(-1)
            own = float(weight[place])
            weight[place] += 1 + weight[place].abs()
            after = outputs(changed)
            moved = max(relative_error(after[n].numpy(), before[n].detach().numpy()) for n in before)
            if moved > NOTICED * CEILINGS[self.trial.report.precision]:
                what = f"{name} has {weight[place]:.3g} at place {place}, and not the model's {own:.3g}"
                found.append((what, changed))
        yield from {found[i][0]: found[i] for i in (0, len(found) // 2, -1) if found}.values()

    def reading(self, other: Model) -> Any:
        """The exporter, newly made, whose `read` gives what another model computes in place of its own."""
        model = self.trial.model

        def read(exporter: Any, path: Path, shell: Model) -> Any:
            found = self.entry.part.read(exporter, path, shell)
            if isinstance(found, Model):
                with torch.no_grad():
                    for name, parameter in model.named_parameters():
                        found.get_parameter(name).add_(other.get_parameter(name) - parameter)
                return found

            def called(**inputs: torch.Tensor) -> dict[str, Any]:
                apart = other(**inputs), model(**inputs)
                return {
                    name: value + apart[0][name] - apart[1][name] for name, value in found(**inputs).items()
                }

            return called

        part = type(self.entry.part.__name__, (self.entry.part,), {"read": read})
        return part(self.options)

    def _models(self, registry: Registry, plugin: str) -> Iterator[Model]:
        """Tiny models, those of a plug-in first: with a head that reads no input of its own, and without any."""
        heads = [head for part, head in example_heads(registry) if not part.needs]

        def inputs(model: Model) -> int:
            return len(model.signature.inputs)

        for spec in islice(plain_specs(registry, plugin), 6):
            bare = build_random(spec, registry, dtype=torch.float32)
            for head in heads:
                with suppress(PeirceError):
                    headed = build_random(spec_with_heads(spec, head), registry, dtype=torch.float32)
                    if inputs(headed) == inputs(bare):
                        yield headed
                        break
            yield bare
