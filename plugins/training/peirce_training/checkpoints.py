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
from typing import Any, final

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


@final
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


@final
class Checkpoints:
    """The checkpoints of one training.

    Args:
        directory: the training's directory; they lie in a folder of it.
        keep: how many stay, the newest ones.
    """

    def __init__(self, directory: Path, keep: int = 1) -> None:
        self.folder, self.keep = directory / FOLDER, keep

    def begin(self, step: int) -> None:
        """Make an empty folder to write the checkpoint of a step into; one process calls this."""
        self.sweep()
        self._writing(step).mkdir(parents=True)

    def _writing(self, step: int) -> Path:
        return self.folder / f".{_name(step)}{_WRITING}"

    def add(self, step: int, group: str, tensors: Mapping[str, Tensor]) -> None:
        """Write a group of tensors into the checkpoint that is being written; any process calls this."""
        on_cpu = {name: t.detach().contiguous().cpu() for name, t in tensors.items()}
        save_file(on_cpu, self._writing(step) / f"{group}{_TENSORS}")

    def commit(self, step: int, state: Mapping[str, Any]) -> None:
        """Finish the checkpoint of a step: its state, its digests, its name; then drop what is too old."""
        writing, path = self._writing(step), self.folder / _name(step)
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

    def prune(self) -> None:
        """Remove checkpoints that are too old; only the process that owns the directory calls this."""
        for old in self.paths()[: -self.keep]:
            self._remove(old)

    def sweep(self) -> None:
        """Remove unfinished checkpoints; only the process that owns the directory calls this."""
        for ending in (_WRITING, _REMOVED):
            for left in self.folder.glob(f".step-*{ending}"):
                shutil.rmtree(left, ignore_errors=True)
        with suppress(OSError):
            self.folder.rmdir()

    def remove(self) -> None:
        """Remove every checkpoint, and the folder if nothing else is in it."""
        for path in self.paths():
            self._remove(path)
        self.sweep()

    def _remove(self, path: Path) -> None:
        """Remove a checkpoint; if that is interrupted, the rest has another name, which `sweep` finds."""
        removed = self.folder / f".{path.name}{_REMOVED}"
        path.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)

    def paths(self) -> list[Path]:
        """The folders of the checkpoints, oldest first."""
        found = [path for path in self.folder.glob("step-*") if _NAME.fullmatch(path.name)]
        return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is intact, and what is wrong with newer ones.

        Returns:
            The checkpoint, None if there are none at all; and a sentence for each damaged one.

        Raises:
            TaskError: there are checkpoints, and every one is damaged; or one is of a newer format.
        """
        damaged: list[str] = []
        for path in reversed(self.paths()):
            found = _read(path)
            if isinstance(found, Checkpoint):
                return found, damaged
            damaged.append(f"checkpoint {path} is damaged: {found}")
        if damaged:
            raise TaskError(
                f"{'; '.join(damaged)}. There is no older one to resume from: restore one, or start again with "
                "--overwrite"
            )
        return None, []


def _read(path: Path) -> Checkpoint | str:
    """A checkpoint, or which of its files is damaged and how."""
    name = _MANIFEST
    try:
        manifest = read_json(path / name)
        number, files = manifest["format"], {_STATE: "", **manifest["files"]}
        if number > FORMAT:
            raise TaskError(
                f"checkpoint {path} has format {number}, newer than {FORMAT}, the newest that this version of Peirce "
                "reads; upgrade peirce"
            )
        for name, digest in files.items():
            check_file(path / name)
            if digest_of(path / name) != digest:
                return f"{name} does not match its digest"
        tensors = {Path(name).stem: load_file(path / name) for name in files if name.endswith(_TENSORS)}
        return Checkpoint(path, read_json(path / _STATE), tensors)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"{name} cannot be read ({error})"


def _name(step: int) -> str:
    return f"step-{step:08d}"
