"""Checkpoints: a folder each, whole or absent, safetensors and JSON only, every file with its digest.

`checkpoints/step-00000120/` holds `manifest.json` (the digests), `state.json` (numbers and names), and groups of
tensors as `GROUP.safetensors`. It is written under another name and renamed when all of it is on the disk.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import frozen
from safetensors.torch import load_file, save_file
from torch import Tensor

from peirce.errors import TaskError
from peirce.files import check_file, digest_of, read_json, sync

FORMAT = 1
"""The newest format of checkpoints that this version reads, and the one that it writes."""
FOLDER = "checkpoints"
_NAME = re.compile(r"step-\d{8,}")
_MANIFEST, _STATE = "manifest.json", "state.json"
_TENSORS = ".safetensors"
_WRITING, _REMOVED = ".writing", ".removed"


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged, and an older one is used in its place."""


class DamagedError(Exception):
    """A checkpoint that is not what was written; the message says which file, and how it differs."""


@frozen
class Checkpoint:
    """A checkpoint that has been read.

    Args:
        path: its folder.
        state: numbers and names.
        tensors: the groups of tensors.
    """

    path: Path
    state: Mapping[str, Any]
    tensors: Mapping[str, Mapping[str, Tensor]]


class Checkpoints:
    """The checkpoints of one training.

    Args:
        directory: the training's directory; they lie in a folder of it.
        keep: how many stay, the newest ones.
    """

    def __init__(self, directory: Path, keep: int) -> None:
        self.folder = directory / FOLDER
        self.keep = keep

    def begin(self, step: int) -> Path:
        """An empty folder to write the checkpoint of a step into; one process calls this."""
        self.sweep()
        self.folder.mkdir(parents=True, exist_ok=True)
        writing = self.writing(step)
        writing.mkdir()
        return writing

    def writing(self, step: int) -> Path:
        """Where the checkpoint of a step is written, by every process."""
        return self.folder / f".{_name(step)}{_WRITING}"

    @staticmethod
    def add(folder: Path, group: str, tensors: Mapping[str, Tensor]) -> None:
        """Write a group of tensors into a checkpoint that is being written."""
        own = {name: t.detach().contiguous().cpu() for name, t in tensors.items()}
        save_file(own, folder / f"{group}{_TENSORS}")

    def commit(self, step: int, state: Mapping[str, Any]) -> Path:
        """Finish the checkpoint of a step: its state, its digests, its name; then drop what is too old."""
        writing, path = self.writing(step), self.folder / _name(step)
        (writing / _STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
        digests = {file.name: digest_of(file) for file in sorted(writing.iterdir())}
        manifest = {"format": FORMAT, "step": step, "files": digests}
        (writing / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        for file in (*writing.iterdir(), writing):
            sync(file)
        if path.exists():  # a damaged one, whose step has been trained again
            self._remove(path)
        os.rename(writing, path)
        sync(self.folder)
        self.prune()
        return path

    def prune(self) -> None:
        """Remove what is too old, and what is left of it where that was cut off; who owns the directory calls this."""
        for old in self.paths()[: -self.keep]:
            self._remove(old)

    def sweep(self) -> None:
        """Remove what a training left in the middle of a checkpoint; who owns the directory alone calls this."""
        for left in (*self.folder.glob(f".step-*{_WRITING}"), *self.folder.glob(f".step-*{_REMOVED}")):
            shutil.rmtree(left, ignore_errors=True)
        with suppress(OSError):
            self.folder.rmdir()

    def remove(self) -> None:
        """Remove every checkpoint, and the folder if nothing else is in it."""
        for path in self.paths():
            self._remove(path)
        self.sweep()

    def _remove(self, path: Path) -> None:
        """Remove a checkpoint; where that is cut off, what is left has another name, and `sweep` finds it."""
        removed = self.folder / f".{path.name}{_REMOVED}"
        path.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)

    def paths(self) -> list[Path]:
        """The folders of the checkpoints, oldest first."""
        found = [path for path in self.folder.glob("step-*") if _NAME.fullmatch(path.name)]
        return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is as it was written, and what is wrong with those that are newer.

        Returns:
            The checkpoint, None if there are none at all; and a sentence for each damaged one.

        Raises:
            TaskError: there are checkpoints, and every one is damaged; or one is of a newer format.
        """
        damaged: list[str] = []
        paths = self.paths()
        for path in reversed(paths):
            try:
                return _read(path), damaged
            except DamagedError as error:
                damaged.append(f"checkpoint {path} is damaged: {error}")
        if paths:
            raise TaskError(
                f"{'; '.join(damaged)}. There is no older one to resume from: restore one, or start again with "
                "--overwrite"
            )
        return None, damaged


def _read(path: Path) -> Checkpoint:
    manifest = _json(path / _MANIFEST)
    files = manifest.get("files")
    if not isinstance(manifest.get("format"), int) or not isinstance(files, dict) or _STATE not in files:
        raise DamagedError(f"{_MANIFEST} is not the manifest of a checkpoint")
    if manifest["format"] > FORMAT:
        raise TaskError(
            f"checkpoint {path} has format {manifest['format']}, newer than {FORMAT}, the newest that this version of "
            "Peirce reads; upgrade peirce"
        )
    for name, digest in files.items():
        try:
            check_file(path / name)
            if digest_of(path / name) != digest:
                raise DamagedError(f"{name} is not what was written (its digest differs)")
        except OSError as error:
            raise DamagedError(f"{name} cannot be read ({error})") from error
    tensors = {Path(name).stem: load_file(path / name) for name in files if name.endswith(_TENSORS)}
    return Checkpoint(path, _json(path / _STATE), tensors)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path.name} cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise DamagedError(f"{path.name} holds no table")
    return content


def _name(step: int) -> str:
    return f"step-{step:08d}"
