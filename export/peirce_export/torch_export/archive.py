"""The metadata of a `.pt2` file, an entry of its archive, and the digest at its end. No torch is needed.

The archive is a zip file, whose comment ends the file. The comment ends with the SHA-256 of all bytes before it,
so that no bit can change without notice. What is read here is JSON; nothing of the file is run.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

from attrs import define

from peirce.errors import ModelFileError
from peirce.files import check_file, digest_of, parse_json, size_limit
from peirce_export.metadata import PREFIX, Metadata, changed_error, step_of

TORCH = "torch"
"""What computes a `.pt2` file."""
_METADATA = "/extra/peirce.json"
"""The end of the entry's name; torch gives it with `extra_files`."""
_MARK = b"peirce sha256 "
_DIGITS = 64
STEP_DIGEST = f"{PREFIX}step.digest"


@define
class Archive:
    """A `.pt2` file.

    Args:
        path: the file.
        metadata: what it says about itself.
        compiled: whether it is a package of AOTInductor; else it is a program.
        step: the digest of the file of the step; None where it has none.
    """

    path: Path
    metadata: Metadata
    compiled: bool
    step: str | None

    @classmethod
    def read(cls, path: Path) -> Archive:
        """Read the metadata of a file.

        Raises:
            ModelFileError: it is missing, damaged, or was not exported by Peirce.
        """
        try:
            check_file(path)
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
                entry_name = next((name for name in names if name.endswith(_METADATA)), None)
                if entry_name is None:
                    raise ModelFileError(
                        f"{path} was not exported by Peirce: it has no entry {_METADATA.strip('/')}; write it with "
                        "`peirce export --to torch_export`"
                    )
                entry = archive.getinfo(entry_name)
                if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > size_limit(text=True):
                    raise ValueError(f"its entry {entry_name} is compressed, or too large")
                properties = parse_json(archive.read(entry))
                if not isinstance(properties, dict) or {*map(type, properties.values())} - {str}:
                    raise ValueError(f"its entry {entry_name} is not a table of texts")
        except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise ModelFileError(
                f"{path} cannot be read: {error}; copy it again, or write it with `peirce export --to torch_export`"
            ) from error
        compiled = any("/data/aotinductor/" in name for name in names)
        metadata = Metadata.from_properties(properties, str(path))
        return cls(path, metadata, compiled, properties.get(STEP_DIGEST))

    def check(self) -> str:
        """Check the file, and that of its step, against the digests that it carries; return its digest.

        Raises:
            ModelFileError: it is not what was exported, or has lost its digest.
        """
        before = self.path.stat().st_size - _DIGITS
        with self.path.open("rb") as file:
            file.seek(max(before - len(_MARK), 0))
            mark, stated = file.read(len(_MARK)), file.read()
        if mark != _MARK or digest_of(self.path, before).encode() != stated:
            raise changed_error(self.path)
        step = step_of(self.path)
        if self.step is not None and step.is_file() and digest_of(step) != self.step:
            raise changed_error(step, self.path)
        return stated.decode()


def seal(path: Path, metadata: Metadata) -> Archive:
    """Add the metadata and the digest to a file that torch wrote, and the digest of a step beside it."""
    properties = metadata.to_properties()
    if (step := step_of(path)).is_file():
        properties[STEP_DIGEST] = digest_of(step)
    with zipfile.ZipFile(path, "a") as archive:
        top = archive.namelist()[0].partition("/")[0]
        # An entry of a fixed date: equal exports are equal files.
        archive.writestr(zipfile.ZipInfo(f"{top}{_METADATA}"), json.dumps(properties))
        archive.comment = _MARK + b"0" * _DIGITS
    with path.open("r+b") as file:
        file.seek(-_DIGITS, os.SEEK_END)
        file.write(digest_of(path, path.stat().st_size - _DIGITS).encode())
    return Archive.read(path)
