"""Folders of `transformers` that hold the files of one save, and what shows it: `peirce.json`, with their digests.

`transformers` writes a folder file by file. Here they are written beside it, and moved in when all are there: the
digests first, the weights last. So whatever ends a process between two of them, what is not of this save is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peirce.errors import ModelFileError
from peirce.files import (
    NO_DIGESTS,
    check_file,
    checks_digests,
    digest_of,
    explain_disk_errors,
    hold_lock,
    read_json,
    scratch_folder,
    write_json,
)

DIGESTS, CONFIG = "peirce.json", "config.json"
"""The file of digests: of the weights, and of what the configuration says of the model. Its rest may be changed."""
_SCHEMA = "peirce.hf-digests/1"
_WEIGHTS = re.compile(r".+\.safetensors(\.index\.json)?")
_LOADED = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?")
"""What `transformers` loads a model from where no variant is asked for."""


@contextmanager
def save_atomically(directory: Path) -> Iterator[Path]:
    """A new folder to save a model into, whose files are moved to a directory when the block ends.

    Other files of the directory stay, but weights of an earlier save. Nothing is moved where nothing was written, as by
    the processes that leave the writing to another.

    Raises:
        WriteError: the disk takes no more; what was there is unchanged.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with explain_disk_errors(f"the model in {directory}"), scratch_folder(directory) as folder:
        fresh = folder / "new"
        fresh.mkdir()
        yield fresh
        files = [path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file()]
        if not files:
            return
        weights = {path.name: digest_of(fresh / path) for path in files if _WEIGHTS.fullmatch(str(path))}
        model = {"model": _model_digest(fresh)} if (fresh / CONFIG).exists() else {}
        write_json(fresh / DIGESTS, {"schema": _SCHEMA, **model, "sha256": weights})
        directory.mkdir(exist_ok=True)
        with hold_lock(directory, folder=False, wait=True):
            for path in (Path(DIGESTS), *sorted(files, key=lambda path: path.name in weights)):
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
                os.replace(fresh / path, directory / path)
            for path in _weight_files(directory):
                if weights and path.name not in weights:
                    path.unlink()


def check_saved(directory: Path) -> None:
    """Refuse weights that do not match the digests of a directory; without digests do nothing.

    Raises:
        ModelFileError: a file is damaged, of another save, or no regular file.
    """
    try:
        for name in (CONFIG, DIGESTS):
            if os.path.lexists(directory / name):
                check_file(directory / name)
        if not checks_digests() or not (directory / DIGESTS).exists():
            return
        record = read_json(directory / DIGESTS)
        weights, model = record["sha256"], record.get("model")
        there = {path.name for path in _weight_files(directory)}
        wrong = there - set(weights) if weights else set()
        for path in map(directory.joinpath, weights):
            if path.exists() and (check_file(path) < 0 or digest_of(path) != weights[path.name]):
                wrong.add(path.name)
        if model is not None and _model_digest(directory) != model:
            wrong.add(CONFIG)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelFileError(
            f"the model in {directory} cannot be read: {error}; save or copy it again"
        ) from error
    if wrong:
        raise ModelFileError(
            f"{directory}: {', '.join(sorted(wrong))}: not what was saved with {DIGESTS}. Save or copy the model "
            f"again; if it was changed on purpose, remove {DIGESTS}, or set {NO_DIGESTS}=1"
        )


def _weight_files(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if _LOADED.fullmatch(path.name)]


def _model_digest(directory: Path) -> str:
    """The digest of what a configuration says of the model."""
    content = read_json(directory / CONFIG)
    return digest_of({key: content.get(key) for key in ("spec", "provenance")})
