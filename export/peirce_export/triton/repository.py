"""A Triton repository on disk: models with numbered versions, each of which appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from peirce.errors import ExportError
from peirce.files import parse_integer, read_text
from peirce_export.triton.calls import FRONT, Front
from peirce_export.triton.config import CONFIG, conflict, parse


def next_version(repository: Path, names: Sequence[str]) -> int:
    """One more than the highest version of some models."""
    found = (parse_integer(each.name) for name in names for each in (repository / name).glob("*"))
    return 1 + max(filter(None, found), default=0)


def check(repository: Path, configs: Mapping[str, Any]) -> None:
    """Refuse a repository that has other models under these names.

    Raises:
        ExportError: names the model, and what is different.
    """
    for name, config in configs.items():
        folder = repository / name
        if not folder.exists():
            continue
        if not (folder / CONFIG).is_file():
            raise ExportError(
                f"{folder} has no {CONFIG}, so it is not a model of Triton; give another --name"
            )
        why = conflict(parse(read_text(folder / CONFIG), str(folder / CONFIG)), config)
        if why is not None:
            raise ExportError(
                f"{repository} serves another model under the name {name!r}: {why}; give another --name"
            )


def check_fronts(repository: Path, name: str, names: Collection[str]) -> None:
    """Refuse a new version of a model if a pipeline in front of it gets none: the version that it calls would go.

    Raises:
        ExportError: names the pipeline, and the version that it calls.
        ModelFileError: the description of a pipeline cannot be read.
    """
    for folder in sorted(repository.glob(f"{name}_*")):
        newest = folder / str(next_version(repository, [folder.name]) - 1) / FRONT
        if newest.is_file() and folder.name not in names and Front.read(newest).model == name:
            raise ExportError(
                f"{folder.name} calls version {newest.parent.name} of {name}, which this export would replace; remove "
                f"{folder}, or export with what it needs"
            )


def add(new: Path, repository: Path, version: int, names: Sequence[str]) -> None:
    """Move new models, or new versions of models, into a repository.

    Each version appears by one rename. Configurations follow; they describe the tensors of all versions alike.
    """
    if not repository.exists():
        os.rename(new, repository)
        return
    moved: list[Path] = []
    try:
        for model in (new / name for name in names):
            target = repository / model.name
            place = target / str(version) if target.exists() else target
            os.rename(model / str(version) if target.exists() else model, place)
            moved.append(place)
    except BaseException:
        for place in reversed(moved):
            with suppress(OSError):
                shutil.rmtree(place)
        raise
    for model in (each for each in new.iterdir() if (repository / each.name / CONFIG).is_file()):
        for file in sorted(model.iterdir(), key=lambda file: file.name == CONFIG):
            _settle(file, repository / model.name / file.name)


def _settle(new: Path, place: Path) -> None:
    """Put a file, or the files of a folder, where the older ones are."""
    if new.is_dir():
        place.mkdir(exist_ok=True)
        for each in new.iterdir():
            _settle(each, place / each.name)
    else:
        os.replace(new, place)
