"""Saving models: spec.toml, weights.safetensors, provenance.json and assets/ in one directory; no pickle anywhere.

A model is written whole beside its directory, and then takes its place in one step, by the first of these that the
place allows:

1. The directory and the new one are exchanged, by one call of the operating system. Other files of the directory are
   linked into the new one before, so that they are never away.
2. Where directories cannot be exchanged or files not be linked, the new files wait in a folder within the directory.
   The new provenance.json, which names that folder, replaces the old one: from then on these files are the model. Then
   they are moved into their places. Whoever saves next ends that if a dead process could not.

Of two that save at once, each writes a whole model, and the last one to take the place stays.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from attrs import frozen
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from peirce.errors import ModelFileError
from peirce.files import ALGORITHM, AS_IT_WAS, clear, digest_of, own_digest, scratch, sync, writing
from peirce.model.exchange import CannotExchangeError, can_exchange, exchange
from peirce.model.manifest import (
    ASSETS,
    CONTENT,
    DIGEST,
    GENERATION,
    PROVENANCE,
    PROVENANCE_FORMAT,
    SPEC,
    WEIGHTS,
    is_asset,
    read_provenance,
)
from peirce.model.weights import weights_digest

if sys.platform != "win32":
    import fcntl

_OBSOLETE = "obsolete.json"
"""In a folder of files that wait: the names of those whose place they take."""


@frozen(kw_only=True)
class Saved:
    """What is written of a model.

    Args:
        spec: as TOML.
        tensors: the state dict.
        dtype: the floating dtype of all parameters and buffers, or of each by its name where there are several.
        provenance: where each part comes from.
        assets: further files, by their path below assets/.
    """

    spec: str
    tensors: Mapping[str, Tensor]
    dtype: str | Mapping[str, str]
    provenance: Mapping[str, Any]
    assets: Mapping[str, bytes]


def save(saved: Saved, directory: Path) -> None:
    """Write a model into a directory, in the place of the model that may stand there; other files in it stay.

    Raises:
        ModelFileError: the directory cannot be written, or an asset's name leads out of it.
    """
    for name in saved.assets:
        # A name may come from data; no file is written outside the model's directory.
        if Path(name).is_absolute() or not is_asset(f"{ASSETS}/{name}"):
            raise ModelFileError(
                f"asset {name!r} has no name below {ASSETS}/, such as vocabulary.txt or kg/names.json"
            )
    if directory.exists() and not directory.is_dir():
        raise ModelFileError(f"{directory} is a file; a model is saved as a directory: give another name")
    try:
        with writing(f"the model in {directory}", AS_IT_WAS):
            _save(saved, Path(os.path.realpath(directory)))  # what a link leads to, not the link
    except (OSError, SafetensorError) as error:
        raise ModelFileError(
            f"the model cannot be saved in {directory}: {error}; {AS_IT_WAS}: make room, or save elsewhere"
        ) from error


def _save(saved: Saved, directory: Path) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    if not directory.exists() or _may_be_exchanged(directory):
        with suppress(CannotExchangeError), scratch(directory) as folder:
            if directory.exists() and not can_exchange(folder):
                raise CannotExchangeError
            fresh = folder / "model"
            _write(saved, fresh)
            _exchange(fresh, directory)
            return
    # Locked from the start: the folder to write in lies in the one that another process might exchange.
    with _locked(directory), scratch(directory / PROVENANCE) as folder:
        fresh = folder / "model"
        _switch(fresh, directory, _write(saved, fresh))


def _may_be_exchanged(directory: Path) -> bool:
    """Whether a directory may become another one: nothing is mounted there, and this process does not stand in it."""
    try:
        stands = Path.cwd()
    except OSError:
        return False
    beside = os.access(directory.parent, os.W_OK | os.X_OK)
    return beside and not stands.is_relative_to(directory) and not os.path.ismount(directory)


def _write(saved: Saved, fresh: Path) -> str:
    """Write a whole model into a folder, which is made; the name of its generation."""
    fresh.mkdir(0o755)
    (fresh / SPEC).write_text(saved.spec, encoding="utf-8", newline="\n")
    tensors = {name: value.detach().contiguous().cpu() for name, value in saved.tensors.items()}
    save_file(tensors, fresh / WEIGHTS, metadata={"format": "pt"})
    (fresh / WEIGHTS).chmod((fresh / SPEC).stat().st_mode)  # safetensors lets nobody else read it
    for name, content in saved.assets.items():
        path = fresh / ASSETS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    generation = os.urandom(8).hex()
    provenance = {
        **saved.provenance,
        "format": PROVENANCE_FORMAT,
        "dtype": saved.dtype,
        "generation": generation,
        CONTENT: weights_digest(saved.tensors),
        ALGORITHM: {name: digest_of(fresh / name) for name in _files(fresh)},
    }
    provenance[DIGEST] = own_digest(provenance, DIGEST)
    (fresh / PROVENANCE).write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")
    for path in (*fresh.rglob("*"), fresh):
        _sync(path)
    return generation


def _exchange(fresh: Path, directory: Path) -> None:
    """Let a whole model take the place of a directory in one step, with what else is in there.

    Raises:
        CannotExchangeError: the file system, or a right that is missing, does not allow it; nothing has changed.
    """
    if not directory.exists():
        try:
            os.rename(fresh, directory)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            # Somebody else has just made it.
        else:
            _sync(directory.parent)
            return
    with _locked(directory):
        _check_places(fresh, directory)
        try:
            _end_switch(directory)
            own = {*_own(directory), *_files(fresh)}
            _link(directory, fresh, own)
            _keep_rights(directory, fresh)
            exchange(fresh, directory)
        except OSError as error:
            raise CannotExchangeError from error
        _sync(directory.parent)
        _link(fresh, directory, own, newer=True)  # what others put there meanwhile


def _switch(fresh: Path, directory: Path, generation: str) -> None:
    """Let a whole model wait in a directory, become the one that its provenance names, and move into its places."""
    _check_places(fresh, directory)
    _end_switch(directory)
    (fresh / _OBSOLETE).write_text(json.dumps(sorted(_own(directory))), encoding="utf-8")
    _keep_rights(directory, fresh, itself=False)
    waiting = directory / f"{GENERATION}{generation}"
    os.rename(fresh, waiting)
    _sync(directory)
    os.replace(waiting / PROVENANCE, directory / PROVENANCE)
    _sync(directory)
    _end_switch(directory)


def _end_switch(directory: Path) -> None:
    """Move the files of the model that a directory's provenance names into their places; remove what else waits."""
    clear(directory)
    waiting = [path for path in directory.glob(f"{GENERATION}*") if path.is_dir()]
    if not waiting:
        return
    try:
        provenance = read_provenance(directory)
    except ModelFileError:
        provenance = {}
    for folder in waiting:
        if folder.name == f"{GENERATION}{provenance.get('generation')}":
            for name in filter(lambda name: (folder / name).is_file(), provenance[ALGORITHM]):
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(folder / name, directory / name)
            if (folder / _OBSOLETE).is_file():
                old = json.loads((folder / _OBSOLETE).read_text(encoding="utf-8"))
                _remove({*old} - {PROVENANCE, *provenance[ALGORITHM]}, directory)
        shutil.rmtree(folder)


def _remove(names: Collection[str], directory: Path) -> None:
    """Remove assets from a directory, and the folders that they leave empty."""
    for name in names:
        (directory / name).unlink(missing_ok=True)
        for parent in list((directory / name).parents)[: len(Path(name).parts) - 1]:
            with suppress(OSError):
                parent.rmdir()


def _files(folder: Path) -> list[str]:
    """The files below a folder, by their names from there."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _own(directory: Path) -> set[str]:
    """The names of the files of a directory that belong to the model in it."""
    try:
        listed = read_provenance(directory).get(ALGORITHM)
    except ModelFileError:
        listed = None
    if listed is None:  # saved by Peirce 0.1, or damaged: all assets are the model's
        listed = [f"{ASSETS}/{name}" for name in _files(directory / ASSETS)]
    return {SPEC, WEIGHTS, PROVENANCE, *listed}


def _check_places(fresh: Path, directory: Path) -> None:
    """Refuse to write a model where something else has the name of one of its files or folders."""
    for path in fresh.rglob("*"):
        target = directory / path.relative_to(fresh)
        if target.exists() and target.is_dir() is not path.is_dir():
            kinds = ("directory", "file") if target.is_dir() else ("file", "directory")
            raise FileExistsError(f"{target} is a {kinds[0]}, where a {kinds[1]} of the model goes")


def _keep_rights(directory: Path, fresh: Path, *, itself: bool = True) -> None:
    """Give a model's files, and the folder itself, the permissions of those whose place they take."""
    for name in _files(fresh):
        if (directory / name).is_file():
            (fresh / name).chmod(stat.S_IMODE((directory / name).stat().st_mode))
    if itself:
        _copy_rights(directory, fresh)


def _copy_rights(source: Path, target: Path) -> None:
    there, here = source.stat(), target.stat()
    if (there.st_uid, there.st_gid) != (here.st_uid, here.st_gid):
        os.chown(target, there.st_uid, there.st_gid)
    shutil.copystat(source, target)


def _link(source: Path, target: Path, own: Collection[str], *, newer: bool = False, at: str = "") -> None:
    """Link what is in a folder, the model's own files aside, into another.

    Args:
        source: the folder.
        target: the other one.
        own: names of the model's files.
        newer: whether a file that is newer replaces the one of its name.
        at: where this is, below both.
    """
    for entry in os.scandir(source / at):
        name = f"{at}{entry.name}"
        other = target / name
        if entry.is_dir(follow_symlinks=False):
            if not other.exists() and not any(each.startswith(f"{name}/") for each in own):
                other.mkdir()
                _copy_rights(Path(entry.path), other)
            _link(source, target, own, newer=newer, at=f"{name}/")
            continue
        if name in own:
            continue
        other.parent.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):  # it went in the meantime
            try:
                os.link(entry.path, other, follow_symlinks=False)
            except FileExistsError:
                there, here = entry.stat(follow_symlinks=False), other.lstat()
                if newer and not os.path.samestat(there, here) and there.st_mtime_ns > here.st_mtime_ns:
                    os.replace(entry.path, other)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Let one process after the other change what is in a directory; the lock ends with its holder.

    Where folders cannot be locked, as on some network file systems, all go on at once.
    """
    if sys.platform == "win32":
        yield
        return
    while True:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            try:
                if not os.path.samestat(os.fstat(handle), os.stat(directory)):
                    continue  # it has been exchanged meanwhile
                yield
                return
            finally:
                # Not left to the closing: a process that was forked meanwhile holds the same lock.
                with suppress(OSError):
                    fcntl.flock(handle, fcntl.LOCK_UN)
        finally:
            os.close(handle)


def _sync(path: Path) -> None:
    """Have a file or folder on the disk; some file systems cannot be asked that of folders."""
    with suppress(OSError) if path.is_dir() else nullcontext():
        sync(path)
