"""Exporters as checks see them: with a tiny model that they accept, and a saved model's folder to write to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from attrs import define, frozen

from peirce.errors import PeirceError
from peirce.model import Model
from peirce_testing.compare import BrokenError, NotRunError, torch_unchanged
from peirce_testing.harness.base import UsedHarness
from peirce_testing.tiny_models import build_random, example_heads, plain_specs, spec_with_heads

NAME = "exported.bin"
"""What checks call the file."""
OLDER = b"an older file, longer than nothing" * 999
"""What stands there before."""


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
        for model in self._models():
            for older in (OLDER, None):  # an exporter may refuse to replace a file
                folder = self.new_folder() / "model"
                model.save(folder)
                (folder / "notes.txt").write_text("mine", encoding="utf-8")
                if older is not None:
                    (folder / NAME).write_bytes(older)
                before, facts = contents(folder), facts_of(model)
                try:
                    with torch_unchanged("`export`"):
                        report = self.fresh().export(model, folder / NAME)
                except PeirceError as error:
                    if isinstance(error.__cause__, ModuleNotFoundError):
                        raise NotRunError(str(error)) from error
                    why[str(error).splitlines()[0]] = None
                    continue
                return Trial(model, folder / NAME, report, before, contents(folder), facts)
        reasons = "\n".join(f"  {each}" for each in why)
        raise BrokenError(f"it exports no tiny model of the registered architectures\n{reasons}")

    def _models(self) -> Iterator[Model]:
        """Tiny models, those of its own plug-in first: with a head that reads no input of its own, and without any."""
        heads = [head for part, head in example_heads(self.registry) if not part.needs]

        def inputs(model: Model) -> int:
            return len(model.signature.inputs)

        for spec in islice(plain_specs(self.registry, self.entry.plugin), 6):
            bare = build_random(spec, self.registry, dtype=torch.float32)
            for head in heads:
                with suppress(PeirceError):
                    headed = build_random(spec_with_heads(spec, head), self.registry, dtype=torch.float32)
                    if inputs(headed) == inputs(bare):
                        yield headed
                        break
            yield bare
