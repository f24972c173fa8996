"""Exporters as checks see them: with a tiny model that they accept, and a saved model's folder to write to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import attrs
import torch
from attrs import define, field, frozen

from peirce.errors import PeirceError
from peirce.model import Exporter, Model
from peirce.registry import Registered, Registry
from peirce.spec import HeadSpec
from peirce.testing.companions import last
from peirce.testing.composed import build_random, fitting, tiny_spec
from peirce.testing.failures import BrokenError, NotRunError
from peirce.testing.options import as_table, example_options
from peirce.testing.process_state import changes, process_state
from peirce.testing.recording import recording

NAME = "exported.bin"
"""What checks call the file."""


OLDER = b"an older file, longer than nothing" * 999
"""What stands there before."""


@frozen(eq=False)
class Trial:
    """One export into a saved model's folder, which has a user's notes, and most often an older file.

    Args:
        model: the model.
        folder: the folder.
        report: what the exporter returned.
        before: the files before, by name.
        after: the files afterwards.
        facts: what the model was before.
        shared: what of the process is changed.
        adds: whether the exporter adds to a folder, in place of writing a file.
    """

    model: Model
    folder: Path
    report: Any
    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    facts: Mapping[str, Any]
    shared: Sequence[str]
    adds: bool

    @property
    def path(self) -> Path:
        """What the exporter was given."""
        return self.folder / NAME


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


def one(head: HeadSpec) -> Any:
    """What `evolve` takes as the heads of a spec; the type checker loses what its converter takes."""
    return (head,)


@define(slots=False)
class ExporterSubject:
    """An exporter with its example options.

    Attributes:
        read: the options that anything has read so far.
    """

    entry: Registered
    registry: Registry
    read: set[str] = field(factory=set, init=False)
    _kept: Path = field(factory=lambda: Path(mkdtemp(prefix="peirce-check-")), init=False)

    def __attrs_post_init__(self) -> None:
        finalize(self, rmtree, self._kept, ignore_errors=True)

    @cached_property
    def options(self) -> Any:
        """The example options, which record what is read of them."""
        return recording(example_options(self.entry.part), self.read)

    def fresh(self, options: Any = None) -> Exporter:
        """The exporter, newly made."""
        made: Exporter = self.entry.part(self.options if options is None else options)
        return made

    def folder(self, name: str) -> Path:
        """A folder of its own, empty at first."""
        return Path(mkdtemp(prefix=f"{name} ", dir=self._kept))

    @cached_property
    def trial(self) -> Trial:
        """The export of the first tiny model that the exporter accepts.

        Raises:
            BrokenError: it refuses all. NotRunError: it needs a package that is not installed.
        """
        why: dict[str, None] = {}
        for number, model in enumerate(self._models()):
            for older in (OLDER, None):  # an exporter may refuse to replace a file
                folder = self.folder(f"trial {number} {older is None}") / "model"
                model.save(folder)
                (folder / "notes.txt").write_text("mine", encoding="utf-8")
                if older is not None:
                    (folder / NAME).write_bytes(older)
                before, facts, state = contents(folder), facts_of(model), process_state()
                try:
                    report = self.fresh().export(model, folder / NAME)
                except PeirceError as error:
                    if isinstance(error.__cause__, ModuleNotFoundError):
                        raise NotRunError(str(error)) from error
                    why[str(error).splitlines()[0]] = None
                    continue
                shared = changes(state, process_state())
                adds = self.entry.part.writes == "folder"
                return Trial(model, folder, report, before, contents(folder), facts, shared, adds)
        raise BrokenError(
            "it exports no tiny model of the registered architectures\n"
            + "\n".join(f"  {each}" for each in why)
        )

    def _models(self) -> Iterator[Model]:
        """Tiny models of the plainest architectures, with a head where one fits."""
        entries = sorted(
            self.registry.entries("architectures"),
            key=lambda e: (last(e), e.part.recurrent, not e.part.layer, e.part.branches),
        )
        for entry in entries[:4]:
            part, options = entry.part, example_options(entry.part)
            scope = "bidirectional" if part.check_scope(options, "bidirectional") is None else "causal"
            spec = tiny_spec(part, options, layers=1, scope=scope)
            heads = [
                HeadSpec(use=each.name, options=as_table(example_options(each.part)))
                for each in self.registry.entries("heads")
                if not each.part.needs
            ]
            for head in [*heads[:1], None]:
                trial = spec if head is None else attrs.evolve(spec, heads=one(head))
                try:
                    yield build_random(fitting(trial, self.registry), self.registry, dtype=torch.float32)
                    break
                except PeirceError:
                    continue
