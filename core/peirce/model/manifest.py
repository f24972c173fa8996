"""The files of a saved model: which there are, where they lie, and whether they are what was saved. Needs no torch.

`provenance.json` lists the others with their digests, and has a digest of its own, so that no file can be changed or
come from another save without notice. It is also what makes a generation of files the model: see `storage`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, final

from attrs import field, frozen

from peirce.errors import ModelFileError
from peirce.files import (
    NO_DIGESTS,
    TensorHeader,
    check_file,
    checks_digests,
    digest_of,
    near_names,
    read_json,
    size_limit,
    tensor_header,
)

SPEC, WEIGHTS, PROVENANCE, ASSETS = "spec.toml", "weights.safetensors", "provenance.json", "assets"
PROVENANCE_FORMAT = 2
"""The newest format of provenance.json that this version reads, and the one that it writes. Format 1 has no digests."""
CONTENT, FILES, DIGEST = "weights", "sha256", "digest"
"""Keys of provenance.json: the digest of the weights' values, which an exported file carries as well; the files with
their digests; and the digest of provenance.json itself."""
GAINED, BASE = "gained", "base"
"""Keys of provenance.json: the names of the tensors that an upgrade has added; and the digest of the weights' values of
the model that the spec's `from` names, where the file of the weights has only what differs from it."""
GENERATION = ".generation-"
"""The beginning of the name of a folder with files of a model that are not in their place yet."""
SKIP = f"`digests=False`, `peirce --no-digests` or {NO_DIGESTS}=1"
"""The ways to open a file whatever its digest says."""
_TEXTS = (".toml", ".json", ".txt")
_TRIES = 1000
_RESTORE = "restore it from where the model was saved"


@final
@frozen
class SavedFiles:
    """The files of one generation of a saved model, open, so that a save that replaces them changes nothing here.

    Args:
        directory: where the model lies.
        provenance: the content of provenance.json.
        handles: the open files by name, such as `assets/words.txt`.
    """

    directory: Path
    provenance: Mapping[str, Any]
    _handles: Mapping[str, IO[bytes]] = field(alias="handles", repr=False)

    @property
    def digests(self) -> Mapping[str, str] | None:
        """The digest of each file by its name; None for a model that Peirce 0.1 saved."""
        return self.provenance.get(FILES)

    @property
    def assets(self) -> tuple[str, ...]:
        """The names of the assets that are open, below assets/."""
        return tuple(n.removeprefix(f"{ASSETS}/") for n in self._handles if n.startswith(f"{ASSETS}/"))

    def sizes(self) -> dict[str, int]:
        """The bytes of each open file."""
        return {name: handle.seek(0, 2) for name, handle in self._handles.items()}

    def read(self, name: str) -> bytes:
        """The content of a file."""
        handle = self._handle(name)
        handle.seek(0)
        return handle.read()

    def text(self, name: str) -> str:
        """The text of a file with `\\n` as line ends and without a byte-order mark."""
        return self.read(name).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")

    def path(self, name: str) -> Path:
        """Where another library finds an open file.

        Raises:
            FileNotFoundError: the model has no such file.
        """
        descriptor = Path(f"/dev/fd/{self._handle(name).fileno()}")
        return descriptor if descriptor.exists() else self.directory / name

    def _handle(self, name: str) -> IO[bytes]:
        if name not in self._handles:
            raise FileNotFoundError(
                errno.ENOENT, "it is not a file of this model", str(self.directory / name)
            )
        return self._handles[name]

    def weights(self) -> TensorHeader:
        """The header of the file of the weights.

        Raises:
            ModelFileError: its header is invalid, or does not match the file's size.
        """
        try:
            return tensor_header(self.path(WEIGHTS))
        except OSError as error:
            what = f"{self.directory / WEIGHTS} is not a complete safetensors file ({error})"
            raise ModelFileError(
                f"{what}; it is truncated or from another program: save or copy it again"
            ) from error

    def damaged(self) -> list[str]:
        """The names of the open files that are not what was saved, as far as there are digests."""
        if self.digests is None:
            return []
        found = [name for name, file in self._handles.items() if digest_of(file) != self.digests[name]]
        return ([PROVENANCE] if with_digest(self.provenance) != self.provenance else []) + found

    def check(self) -> None:
        """Refuse files that are not what was saved, with a `ModelFileError` that names them."""
        if damaged := self.damaged():
            named = f"{', '.join(damaged)} {'is' if len(damaged) == 1 else 'are'}"
            raise ModelFileError(
                f"{self.directory}: {named} not what was saved: the digest in {PROVENANCE} does not match. Restore it "
                "from where the model was saved, or save the model again; if it was changed on purpose, open it with "
                f"{SKIP}, and save it again"
            )


@contextmanager
def saved_files(
    directory: Path, *, digests: bool | None = None, without: Collection[str] = ()
) -> Iterator[SavedFiles]:
    """Open the files of a saved model, all of one generation, and check them.

    Args:
        directory: where the model was saved.
        digests: whether their digests are checked; if None, unless `PEIRCE_NO_DIGESTS` is set.
        without: names of files that are not needed.

    Raises:
        ModelFileError: a file is missing, damaged, foreign or newer.
    """
    for _ in range(_TRIES):
        before = _stamp(directory)
        with ExitStack() as handles:
            try:
                files = _open_generation(directory, without, handles)
            except ModelFileError:
                if _stamp(directory) == before:
                    raise
                continue
            if _stamp(directory) == before:
                if WEIGHTS not in without:
                    files.weights()  # before all bytes are read, since only its header tells how many there should be
                if checks_digests(digests):
                    files.check()
                yield files
                return
    raise ModelFileError(f"{directory} is replaced again and again while it is opened; try again later")


def _stamp(directory: Path) -> tuple[int, ...] | None:
    """Device, inode, size and time of provenance.json, which every save changes; None where it is missing."""
    try:
        found = (directory / PROVENANCE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _open_generation(directory: Path, without: Collection[str], handles: ExitStack) -> SavedFiles:
    if not directory.is_dir():
        what = "it is a file" if directory.exists() else "there is no such folder"
        raise ModelFileError(
            f"there is no saved model at {directory}: {what}{near_names(directory, f'*/{PROVENANCE}')}; give one that "
            "`peirce train`, `peirce import` or Model.save wrote"
        )
    provenance = read_provenance(directory) if (directory / PROVENANCE).is_file() else {}
    names = [SPEC, WEIGHTS, *files_below(directory, ASSETS)] if FILES not in provenance else provenance[FILES]
    # A file lies with its generation until it is moved to its place.
    waiting = directory / f"{GENERATION}{provenance.get('generation', '')}"
    found: dict[str, IO[bytes]] = {}
    absent = [] if provenance else [PROVENANCE]
    for name in names:
        if name not in without:
            try:
                found[name] = handles.enter_context(_open(waiting / name, directory / name))
            except FileNotFoundError:
                absent.append(name)
            except OSError as error:
                what = f"{directory / name} cannot be read: {error.strerror or error}"
                raise ModelFileError(f"{what}; {_RESTORE}") from error
    if absent:
        listed = f", which {PROVENANCE} lists" if FILES in provenance else ""
        ended = (
            ""
            if provenance
            else "; a training that was interrupted goes on with --resume, and then saves them"
        )
        raise ModelFileError(
            f"{directory} is not a complete saved model: {', '.join(absent)} {'is' if len(absent) == 1 else 'are'} "
            f"missing{listed}; name another folder, or copy all files of this one again{ended}"
        )
    return SavedFiles(directory, provenance, found)


def _open(waiting: Path, place: Path) -> IO[bytes]:
    for path in (waiting, place, waiting, place):  # it may be moved between two attempts
        try:
            check_file(path, None if path.name == WEIGHTS else size_limit(text=path.suffix in _TEXTS))
            return path.open("rb")
        except FileNotFoundError as error:
            missing = error
    raise missing


def files_below(directory: Path, folder: str = ".") -> list[str]:
    """The names of the files in a folder of a directory and in its folders, from the directory."""
    found = (path for path in (directory / folder).rglob("*") if path.is_file())
    return sorted(path.relative_to(directory).as_posix() for path in found)


def with_digest(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """A provenance with its own digest."""
    unsigned = {key: value for key, value in provenance.items() if key != DIGEST}
    return {**unsigned, DIGEST: digest_of(unsigned)}


def read_provenance(directory: Path) -> dict[str, Any]:
    """The content of a saved model's provenance.json.

    Raises:
        ModelFileError: it is missing, damaged, foreign or newer.
    """
    path = directory / PROVENANCE
    try:
        recorded = read_json(path)
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}; {_RESTORE}") from error
    found = recorded.get("format") if isinstance(recorded, dict) else None
    if type(found) is not int or not isinstance(recorded.get("parts"), dict):
        raise ModelFileError(f"{path} is not the provenance of a Peirce model: it has no format and parts")
    if found > PROVENANCE_FORMAT:
        raise ModelFileError(
            f"{path} has format {found}, newer than {PROVENANCE_FORMAT}, the newest that this version of Peirce "
            f"reads; it was written by peirce {recorded.get('peirce', '?')}: upgrade peirce"
        )
    why = None
    if found < 1 or (found > 1 and not _lists_files(recorded)):
        why = f"one of format {found} must list the model's files with their digests"
    elif not all(_is_origin(part, origin) for part, origin in recorded["parts"].items()):
        why = "each of its parts must be KIND.NAME with a plugin, a distribution and a version"
    if why:
        raise ModelFileError(f"{path} is damaged: {why}; {_RESTORE}")
    return recorded


def _is_origin(part: str, origin: Any) -> bool:
    match origin:
        case {"plugin": str(), "distribution": str() | None, "version": str() | None}:
            return "." in part
    return False


def _lists_files(recorded: Mapping[str, Any]) -> bool:
    match recorded:
        case {"sha256": dict(files), "dtype": str() | dict(), "digest": str(), "generation": str(generation)}:
            return (
                files.keys() >= {SPEC, WEIGHTS}
                and all(name in (SPEC, WEIGHTS) or is_asset(name) for name in files)
                and re.fullmatch("[0-9a-f]{16}", generation) is not None
            )
    return False


def is_asset(name: str) -> bool:
    """Whether a name is that of a file below assets/, and leads nowhere else."""
    path = PurePosixPath(name)
    return len(path.parts) > 1 and path.parts[0] == ASSETS and ".." not in path.parts and "\0" not in name
