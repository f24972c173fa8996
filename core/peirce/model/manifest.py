"""The files of a saved model: which there are, where they lie, and whether they are what was saved. Needs no torch.

`provenance.json` lists the others with their digests, and has a digest of its own, so that no file can be changed or
come from another save without notice. It is also what makes a generation of files the model: see `storage`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from attrs import field, frozen

from peirce.errors import ModelFileError
from peirce.files import (
    ALGORITHM,
    NO_DIGESTS,
    Kind,
    digest_of,
    digests_checked,
    open_file,
    own_digest,
    read_json,
    tensor_header,
)

SPEC, WEIGHTS, PROVENANCE, ASSETS = "spec.toml", "weights.safetensors", "provenance.json", "assets"
PROVENANCE_FORMAT = 2
"""The newest format of provenance.json that this version reads, and the one that it writes. Format 1 has no digests."""
CONTENT = "weights"
"""The key of the digest that provenance.json has of the weights' values, which an exported file carries as well."""
DIGEST = "digest"
"""The key of the digest that provenance.json has of itself."""
GENERATION = ".generation-"
"""Begins the name of the folder that holds files of a model which are not yet in their place."""
SKIP = f"`digests=False`, `peirce --no-digests` or {NO_DIGESTS}=1"
"""What opens a file whatever its digest says."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TRIES = 1000
_KINDS: Mapping[str, Kind | None] = {
    SPEC: "spec", WEIGHTS: None, ".json": "vocabulary", ".npz": "arrays", ".txt": "tokenizer",
}  # fmt: skip
"""What each file is, by its name or its ending, for the bound of its size; the header of weights has theirs."""


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
        return self.provenance[ALGORITHM] if self.provenance["format"] > 1 else None

    @property
    def assets(self) -> tuple[str, ...]:
        """The names of the assets that are open, below assets/."""
        return tuple(n.removeprefix(f"{ASSETS}/") for n in self._handles if n.startswith(f"{ASSETS}/"))

    def sizes(self) -> dict[str, int]:
        """The bytes of each open file."""
        return {name: handle.seek(0, 2) for name, handle in self._handles.items()}

    def read(self, name: str) -> bytes:
        """The content of a file."""
        self._handle(name).seek(0)
        return self._handle(name).read()

    def text(self, name: str) -> str:
        """The text of a file, its lines ended by line feeds, without the mark that some editors begin it with."""
        return self.read(name).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")

    def path(self, name: str) -> Path:
        """Where another library finds an open file.

        Raises:
            FileNotFoundError: the model has no such file.
        """
        held = Path(f"/dev/fd/{self._handle(name).fileno()}")
        return held if held.exists() else self.directory / name

    def _handle(self, name: str) -> IO[bytes]:
        if name not in self._handles:
            raise FileNotFoundError(errno.ENOENT, "it is no file of this model", str(self.directory / name))
        return self._handles[name]

    def damaged(self, *, weights: bool | None = None) -> list[str]:
        """The names of the open files that are not what was saved, as far as there are digests.

        Args:
            weights: whether only the weights are read, or all else; if None all files are.
        """
        if self.digests is None:
            return []
        read = [name for name in self._handles if weights is None or weights is (name == WEIGHTS)]
        found = [name for name in read if digest_of(self._handles[name]) != self.digests[name]]
        whole = self.provenance[DIGEST] == own_digest(self.provenance, DIGEST)
        return ([] if whole else [PROVENANCE]) + found

    def check_weights(self) -> None:
        """Refuse weights whose header is not one, or tells of other bytes than the file has, before all are read.

        Raises:
            ModelFileError: says what is wrong.
        """
        if WEIGHTS in self._handles:
            try:
                tensor_header(self._handles[WEIGHTS])
            except OSError as error:
                raise ModelFileError(
                    f"{self.directory / WEIGHTS} is no complete safetensors file ({error}); it is truncated or "
                    "foreign: save or copy it again"
                ) from error

    def check(self, *, weights: bool | None = None) -> None:
        """Refuse files that are not what was saved.

        Args:
            weights: as of `damaged`.

        Raises:
            ModelFileError: names them.
        """
        if damaged := self.damaged(weights=weights):
            named = f"{damaged[0]} is" if len(damaged) == 1 else f"{', '.join(damaged)} are"
            raise ModelFileError(
                f"{self.directory}: {named} not what was saved: another digest than {PROVENANCE} says. Restore it from "
                "where the model was saved, or save the model again; if it was changed on purpose, open it with "
                f"{SKIP}, and save what you get"
            )


@contextmanager
def saved_files(
    directory: Path, *, digests: bool | None = None, without: Collection[str] = ()
) -> Iterator[SavedFiles]:
    """Open the files of a saved model, all of one generation, and check them.

    Args:
        directory: where the model was saved.
        digests: whether their digests are checked; if None unless the environment says otherwise.
        without: names of files that are not needed.

    Raises:
        ModelFileError: a file is missing, damaged, foreign or newer.
    """
    with ExitStack() as stack:
        files = _one_generation(directory, without, stack)
        files.check_weights()
        if digests_checked(digests):
            files.check()
        yield files


def _one_generation(directory: Path, without: Collection[str], stack: ExitStack) -> SavedFiles:
    for _ in range(_TRIES):
        before = _stamp(directory)
        with ExitStack() as handles:
            try:
                files = _opened(directory, without, handles)
            except (OSError, ModelFileError):
                if _stamp(directory) == before:
                    raise
                continue
            if _stamp(directory) == before:
                stack.enter_context(handles.pop_all())
                return files
    raise ModelFileError(f"{directory} is replaced again and again while it is opened; try again later")


def _stamp(directory: Path) -> tuple[int, ...] | None:
    """What every save changes."""
    try:
        found = (directory / PROVENANCE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _opened(directory: Path, without: Collection[str], handles: ExitStack) -> SavedFiles:
    if not directory.is_dir():
        raise ModelFileError(f"there is no saved model at {directory}: it is not a directory")
    provenance = read_provenance(directory) if (directory / PROVENANCE).is_file() else None
    if provenance is None or provenance["format"] == 1:
        folder = directory / ASSETS
        assets = [path.relative_to(directory).as_posix() for path in folder.rglob("*") if path.is_file()]
        names = [SPEC, WEIGHTS, *sorted(assets)]
    else:
        names = list(provenance[ALGORITHM])
    found: dict[str, IO[bytes]] = {}
    absent = [] if provenance else [PROVENANCE]
    for name in names:
        if name not in without:
            try:
                found[name] = handles.enter_context(_open(_places(directory, provenance or {}, name)))
            except FileNotFoundError:
                absent.append(name)
            except OSError as error:
                raise ModelFileError(
                    f"{directory / name} cannot be read: {error.strerror or error}; restore it from where the model "
                    "was saved"
                ) from error
    if absent or provenance is None:
        raise ModelFileError(
            f"{directory} is not a complete saved model: {', '.join(absent)} {'is' if len(absent) == 1 else 'are'} "
            "missing; Model.save writes spec.toml, weights.safetensors and provenance.json"
        )
    return SavedFiles(directory, provenance, found)


def _places(directory: Path, provenance: Mapping[str, Any], name: str) -> tuple[Path, Path]:
    """Where a file lies, to be tried in this order: with its generation, until it is moved, and in its place."""
    return directory / f"{GENERATION}{provenance.get('generation', '')}" / name, directory / name


def _open(places: Iterable[Path]) -> IO[bytes]:
    for path in places:
        with suppress(FileNotFoundError):
            return open_file(path, _KINDS.get(path.name, _KINDS.get(path.suffix, "asset")))
    raise FileNotFoundError


def read_provenance(directory: Path) -> dict[str, Any]:
    """The content of a saved model's provenance.json.

    Raises:
        ModelFileError: it is missing, damaged, foreign or newer.
    """
    path = directory / PROVENANCE
    try:
        recorded = read_json(path, "provenance")
    except (OSError, ValueError) as error:
        raise ModelFileError(
            f"{path} cannot be read: {error}; restore it from where the model was saved"
        ) from error
    if not isinstance(recorded, dict):
        raise ModelFileError(f"{path} is not the provenance of a Peirce model: it holds no table")
    check_format(recorded, str(path))
    return recorded


def check_format(recorded: Mapping[str, Any], source: str) -> None:
    """Refuse a provenance that this version cannot read.

    Raises:
        ModelFileError: it is no provenance, or its format is newer than this version reads.
    """
    found = recorded.get("format")
    if type(found) is not int:
        raise ModelFileError(f"{source} is not the provenance of a Peirce model: it has no format and parts")
    if found > PROVENANCE_FORMAT:
        raise ModelFileError(
            f"{source} has format {found}, newer than {PROVENANCE_FORMAT}, the newest that this version of Peirce "
            f"reads; it was written by peirce {recorded.get('peirce', '?')}: upgrade peirce"
        )
    if found < 1 or (found > 1 and not _lists_files(recorded)):
        raise ModelFileError(
            f"{source} is damaged: one of format {found} must list the model's files with their digests; restore it "
            "from where the model was saved"
        )
    if not isinstance(recorded.get("parts"), dict):
        raise ModelFileError(f"{source} is not the provenance of a Peirce model: it has no format and parts")
    if not all(_is_origin(part, origin) for part, origin in recorded["parts"].items()):
        raise ModelFileError(
            f"{source} is damaged: each of its parts must be KIND.NAME with a plugin, a distribution and a version; "
            "restore it from where the model was saved"
        )


def _is_origin(part: str, origin: Any) -> bool:
    if "." not in part or not isinstance(origin, dict):
        return False
    texts = [origin.get(key, 0) for key in ("distribution", "version")]
    return isinstance(origin.get("plugin"), str) and all(isinstance(text, str | None) for text in texts)


def _lists_files(recorded: Mapping[str, Any]) -> bool:
    files, dtype = recorded.get(ALGORITHM), recorded.get("dtype")
    return (
        isinstance(files, dict)
        and {SPEC, WEIGHTS} <= files.keys()
        and all(name in (SPEC, WEIGHTS) or is_asset(name) for name in files)
        and all(isinstance(digest, str) and _DIGEST.fullmatch(digest) for digest in files.values())
        and isinstance(recorded.get(CONTENT, ""), str)
        and isinstance(dtype, str | dict)
        and (isinstance(dtype, str) or all(isinstance(each, str) for each in dtype.values()))
        and all(isinstance(recorded.get(key), str) for key in ("generation", DIGEST))
        and re.fullmatch("[0-9a-f]{16}", recorded["generation"]) is not None
    )


def is_asset(name: str) -> bool:
    """Whether a name is that of a file below assets/, and leads nowhere else."""
    path = PurePosixPath(name)
    return len(path.parts) > 1 and path.parts[0] == ASSETS and ".." not in path.parts and "\0" not in name
