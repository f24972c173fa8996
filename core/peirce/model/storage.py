"""Saving models: spec.toml, weights.safetensors, provenance.json and assets/ in one directory; no pickle anywhere.

A model is written whole into a folder within its directory. The new provenance.json, which names that folder, then
replaces the old one in one step: from then on these files are the model. Then they are moved into their places. If the
process dies meanwhile, the next save finishes the move, and readers find the files at either place.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, final

import torch
from attrs import frozen
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from peirce.errors import ModelFileError
from peirce.files import digest_of, explain_disk_errors, hold_lock, read_json, scratch_folder, sync
from peirce.model.manifest import (
    ASSETS,
    CONTENT,
    FILES,
    GENERATION,
    PROVENANCE,
    PROVENANCE_FORMAT,
    SPEC,
    WEIGHTS,
    files_below,
    is_asset,
    read_provenance,
    saved_files,
    with_digest,
)

_OBSOLETE = "obsolete.json"
"""In the folder of a new generation: the names of the old model's files that the new model does not have."""


@final
@frozen
class Base:
    """The saved model that another one began with.

    Args:
        folder: where it is; it has all of its weights.
        names: what its tensors are called in that other one, by their own names.
    """

    folder: Path
    names: Mapping[str, str]

    def changed(self, directory: Path, tensors: Mapping[str, Tensor]) -> tuple[set[str], str]:
        """The names of the tensors of heads and of those that differ from the base, and the digest of its weights.

        Args:
            directory: where these are to be saved.
            tensors: the state dict.

        Raises:
            ModelFileError: the base is not complete, or would be replaced.
        """
        if directory.exists() and self.folder.exists() and directory.samefile(self.folder):
            raise ModelFileError(
                f"{directory} has the model that this one began with, and what differs from it would replace it; give "
                "another directory"
            )
        with saved_files(self.folder) as files:
            weights, digest = load_file(files.path(WEIGHTS)), files.provenance.get(CONTENT)
        begun = {new: weights[old] for old, new in self.names.items() if old in weights}
        kept = {
            name
            for name, value in tensors.items()
            if name.startswith("heads.") or name not in begun or not _equal(value, begun[name])
        }
        return kept, digest or weights_digest(weights)


def _equal(value: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same dtype and values."""
    return value.dtype == other.dtype and torch.equal(value.detach().cpu(), other)


def save(
    directory: Path,
    *,
    spec: str,
    tensors: Mapping[str, Tensor],
    kept: Collection[str] | None = None,
    dtype: str | Mapping[str, str],
    provenance: Mapping[str, Any],
    assets: Mapping[str, bytes],
) -> None:
    """Write a model into a directory, in the place of the model that may stand there; other files in it stay.

    Of two that save at once, each writes a whole model, and the last one stays.

    Args:
        directory: where.
        spec: as TOML.
        tensors: the state dict.
        kept: the names of those that are written; all if None.
        dtype: the floating dtype of all parameters and buffers, or of each by its name where there are several.
        provenance: where each part comes from.
        assets: further files, by their path below assets/.

    Raises:
        ModelFileError: the directory cannot be written, or an asset's name leads out of it.
    """
    for name in assets:
        # A name may come from data; no file is written outside the model's directory.
        if Path(name).is_absolute() or not is_asset(f"{ASSETS}/{name}"):
            example = "such as vocabulary.txt or kg/names.json"
            raise ModelFileError(f"asset {name!r} must be a relative path below {ASSETS}/, {example}")
    if directory.exists() and not directory.is_dir():
        raise ModelFileError(f"{directory} is a file; a model is saved as a directory: give another name")
    real = Path(os.path.realpath(directory))  # what a link leads to, not the link
    try:
        with (
            explain_disk_errors(f"the model in {directory}"),
            hold_lock(real / "model", folder=False, wait=True),
            scratch_folder(real / PROVENANCE) as folder,
        ):
            fresh = folder / "model"
            fresh.mkdir(0o755)
            (fresh / SPEC).write_text(spec, encoding="utf-8", newline="\n")
            written = {name: tensors[name] for name in tensors if kept is None or name in kept}
            save_file(_separate(written), fresh / WEIGHTS, metadata={"format": "pt"})
            (fresh / WEIGHTS).chmod((fresh / SPEC).stat().st_mode)  # safetensors lets nobody else read it
            for name, content in assets.items():
                (fresh / ASSETS / name).parent.mkdir(parents=True, exist_ok=True)
                (fresh / ASSETS / name).write_bytes(content)
            _replace(real, fresh, {**provenance, "dtype": dtype, CONTENT: weights_digest(tensors)})
    except (OSError, SafetensorError) as error:
        what = f"the model cannot be saved in {directory}: {error}; what was there is unchanged"
        raise ModelFileError(f"{what}: make room, or save elsewhere") from error


def _separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in this machine's memory, each with a storage of its own, as the file has them."""
    found: dict[str, Tensor] = {}
    used: set[int] = set()
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().contiguous()
        shared = value.untyped_storage().data_ptr() in used
        found[name] = value.clone() if shared else value
        used.add(found[name].untyped_storage().data_ptr())
    return found


def _replace(directory: Path, fresh: Path, provenance: Mapping[str, Any]) -> None:
    """Let the files in a new folder become the model of a directory."""
    files = files_below(fresh)
    generation, digests = os.urandom(8).hex(), {name: digest_of(fresh / name) for name in files}
    signed = with_digest(
        {**provenance, "format": PROVENANCE_FORMAT, "generation": generation, FILES: digests}
    )
    (fresh / PROVENANCE).write_text(json.dumps(signed, indent=2) + "\n", encoding="utf-8")
    for path in (*fresh.rglob("*"), fresh):
        sync(path)
    _finish_move(directory)
    for name in (*files, PROVENANCE):
        target = directory / name
        if target.is_dir() or any(parent.is_file() for parent in target.parents):
            raise FileExistsError(
                f"{target} is a directory, or lies in a file, where a file of the model goes"
            )
        if target.is_file():
            (fresh / name).chmod(target.stat().st_mode & 0o777)
    obsolete = sorted(_model_files(directory) - digests.keys())
    (fresh / _OBSOLETE).write_text(json.dumps(obsolete), encoding="utf-8")
    waiting = directory / f"{GENERATION}{generation}"
    os.rename(fresh, waiting)
    sync(directory)
    os.replace(waiting / PROVENANCE, directory / PROVENANCE)
    sync(directory)
    _finish_move(directory)


def _finish_move(directory: Path) -> None:
    """Move the files of the model that a directory's provenance names into their places; remove what else waits."""
    waiting = [path for path in directory.glob(f"{GENERATION}*") if path.is_dir()]
    if not waiting:
        return
    try:
        provenance = read_provenance(directory)
    except ModelFileError:
        provenance = {}
    for folder in waiting:
        if folder.name == f"{GENERATION}{provenance.get('generation')}":
            for name in filter(lambda name: (folder / name).is_file(), provenance[FILES]):
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(folder / name, directory / name)
            if (folder / _OBSOLETE).is_file():
                _remove(filter(is_asset, map(str, read_json(folder / _OBSOLETE))), directory)
        shutil.rmtree(folder)


def _remove(names: Iterable[str], directory: Path) -> None:
    """Remove files from a directory, and the folders that they leave empty."""
    for name in names:
        (directory / name).unlink(missing_ok=True)
        for parent in list((directory / name).parents)[: len(Path(name).parts) - 1]:
            with suppress(OSError):
                parent.rmdir()


def _model_files(directory: Path) -> set[str]:
    """The names of the files of a directory that belong to the model in it."""
    try:
        listed = read_provenance(directory).get(FILES)
    except ModelFileError:
        listed = None
    # Of a model that Peirce 0.1 saved, or a damaged one, all assets are the model's.
    return {SPEC, WEIGHTS, *(files_below(directory, ASSETS) if listed is None else listed)}


def weights_digest(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of names, dtypes, shapes and values, by the order of the names; 64 hexadecimal digits."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        value = tensor.detach().cpu().contiguous()
        found.update(json.dumps([name, str(value.dtype), list(value.shape)]).encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
