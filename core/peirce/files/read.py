"""Reading files that anybody may have made: regular files alone, and no more of them at once than memory should hold.

A file that another library will open is checked here first.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import os
import re
import stat
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, AnyStr, cast

from peirce.errors import InputError, nearest

LIMIT = "PEIRCE_LIMIT"
"""The variable with the most bytes that are read whole, such as 8GB.

A text may have an eighth of it, and a line a sixteenth of that.
"""
_DEEPEST = 64
"""How deep tables and lists may be nested: far more than any file needs, and little enough for recursion."""
NO_DIGESTS = "PEIRCE_NO_DIGESTS"
"""The variable that, set to 1, lets files be opened without a check of their digests; `peirce --no-digests` sets it."""
_RATIO, _FREE = 200, 64 * 10**6
"""How many times larger than its file compressed content may be, once it is larger than `_FREE` bytes."""
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_CHUNK = 1 << 20


class UnreadableError(OSError):
    """A file whose kind or size is refused; the message is a clause without the path."""

    def __init__(self, message: str, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__(message)
        self.filename = None if path is None else os.fspath(path)

    def __str__(self) -> str:
        return str(self.args[0])


class FolderError(UnreadableError, IsADirectoryError):
    """A folder where a file must be."""


def near_names(path: Path, pattern: str = "*") -> str:
    """What a folder has in place of something that is not there, the nearest name first, as the end of a sentence.

    Args:
        path: what is not there.
        pattern: what could be meant: files of such a name, or if it ends in a file's name the folders with that file.
    """
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent} either"
    if path.is_symlink():
        return f"; the link leads to {path.readlink()}"
    folder, _, inside = pattern.rpartition("/")
    found = [each.parent if inside and folder else each for each in path.parent.glob(pattern)]
    names = [each.name for each in found if (folder or each.is_file()) and not each.name.startswith(".")]
    listed = nearest(path.name, names)
    return (
        f"; that folder has {', '.join(listed[:12])}{', ...' if len(listed) > 12 else ''}" if listed else ""
    )


def size_limit(*, text: bool = False) -> int:
    """The most bytes that are read whole of a file, or of one that is parsed as text.

    Raises:
        InputError: `PEIRCE_LIMIT` is not a size.
    """
    given = os.environ.get(LIMIT) or "2GB"
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?)B?", given.strip().upper())
    if match is None:
        raise InputError(f"{LIMIT}: {given!r} is not a size such as 64MB or 2GB")
    most = int(float(match[1]) * _UNITS[match[2]])
    return most // 8 if text else most


def parse_integer(text: str) -> int | None:
    """The whole number in a text of at most 18 ASCII digits; None for any other text.

    `str.isdigit` also accepts `²`, which `int` refuses, and more digits than `int` takes.
    """
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def check_file(path: str | os.PathLike[str], most: int | None = None) -> int:
    """Refuse a file that should not be opened, before another library opens it; return its size in bytes.

    Raises:
        UnreadableError: it is not a regular file, or has more bytes than `most`.
        OSError: it is not there.
    """
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise FolderError("it is a folder, where a file must be", path)
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableError("it is a pipe or a device, and only regular files are read", path)
    if most is not None and status.st_size > most:
        raise too_large_error(most, path)
    return status.st_size


def too_large_error(
    most: int, path: str | os.PathLike[str] | None = None, *, what: str = "it"
) -> UnreadableError:
    """The error of a file that has more bytes, or a part that has, than are read at once."""
    return UnreadableError(
        f"{what} has more than {most / 1e6:,.6g} MB, the most that is read at once; if the file is genuine, set "
        f"{LIMIT} to more than {size_limit() / 1e9:,.6g}GB",
        path,
    )


def open_file(path: str | os.PathLike[str], *, piped: bool = False) -> IO[bytes]:
    """Open a file of any size to read its bytes as a stream; one whose name ends in `.gz` is decompressed.

    Args:
        path: the file.
        piped: whether it may be a pipe of the shell: `/dev/stdin`, or `/dev/fd/N` as in `<(command)`.

    Raises:
        UnreadableError: it is not a regular file; while reading, it unpacks to far more than its size.
        OSError: it is not there, or may not be read.
    """
    name = os.fspath(path)
    if piped and (match := re.fullmatch(r"/dev/(stdin|fd/(\d{1,9}))", name)):
        return os.fdopen(os.dup(int(match[2] or 0)), "rb")
    check_file(path)
    if name.endswith(".gz"):
        return io.BufferedReader(_GzipReader(Path(path)), 1 << 16)
    return Path(path).open("rb")


class _GzipReader(io.RawIOBase):
    """The content of a gzipped file, which may not be a decompression bomb."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._content, self._unpacked = gzip.GzipFile(fileobj=self._file), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = self._content.readinto(buffer)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._file.seek(0)
            if self._file.read(2) != b"\x1f\x8b":
                raise UnreadableError("not gzipped, as its name says; take .gz off its name") from error
            raise UnreadableError(f"it is damaged, or its end is missing: {error}; fetch it again") from error
        self._unpacked += count
        check_ratio(self._unpacked, self._file.tell())
        return count

    def close(self) -> None:
        self._content.close()
        self._file.close()
        super().close()


def check_ratio(unpacked: int, packed: int) -> None:
    """Refuse compressed content that is far larger than its file, with an `UnreadableError`."""
    if unpacked > max(_FREE, _RATIO * packed):
        raise UnreadableError(
            f"it unpacks to more than {_RATIO} times its size, as a decompression bomb does; if the file is genuine, "
            "store it without compression"
        )


def read_bytes(path: str | os.PathLike[str], *, text: bool = False) -> bytes:
    """The bytes of a file, decompressed if its name ends in `.gz`.

    Args:
        path: the file.
        text: whether it will be parsed as text, for which the limit is lower.

    Raises:
        UnreadableError: it is not a regular file, or is too large.
        OSError: it is not there, or may not be read.
    """
    most = size_limit(text=text)
    check_file(path, most)
    content = io.BytesIO()
    with open_file(path) as file:
        while chunk := file.read(_CHUNK):  # in chunks, since Python allocates all that is asked for at once
            content.write(chunk)
            if content.tell() > most:
                raise too_large_error(most, path)
    return content.getvalue()


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file in UTF-8 with `\\n` as line ends and without a byte-order mark.

    Raises:
        UnreadableError, OSError: as `read_bytes`.
        UnicodeDecodeError: it is not UTF-8.
    """
    return read_bytes(path, text=True).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def read_lines(file: IO[AnyStr]) -> Iterator[AnyStr]:
    """The lines of an open file, each with its end.

    Raises:
        UnreadableError: a line is longer than a sixteenth of a text.
    """
    longest = size_limit(text=True) // 16
    while line := file.readline(longest + 1):
        if len(line) > longest:
            raise UnreadableError(
                f"a line is longer than {longest / 1e6:,.6g} MB, so the file is of another kind"
            )
        yield line


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of a JSON file, without the digest of itself that Peirce 0.2 wrote into its records.

    Raises:
        UnreadableError, OSError: as `read_bytes`.
        ValueError: it is not JSON in UTF-8, or is nested too deeply.
    """
    content = parse_json(read_bytes(path, text=True).decode("utf-8-sig"))
    if isinstance(content, dict):
        content.pop("own_digest", None)
    return content


def parse_json(text: str | bytes, **hooks: Callable[[Any], Any]) -> Any:
    """The content of a JSON text, with hooks as `json.loads` takes them.

    Raises:
        ValueError: it is not JSON, or is nested too deeply.
    """
    return _parse_checked(lambda: json.loads(text, **cast(Any, hooks)))


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML text.

    Raises:
        ValueError: it is not TOML, or is nested too deeply.
    """
    try:
        return cast(dict[str, Any], _parse_checked(lambda: tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        message, at, place = str(error).rpartition(" (at ")
        if "Unescaped" in message or "hex value" in message:  # as in a path of Windows, "C:\\Users"
            message += (
                """; a backslash in "..." begins an escape: write a path as '...', which takes it as it is"""
            )
        raise ValueError(message + at + place) from None


def _parse_checked(parse: Callable[[], Any]) -> Any:
    with suppress(RecursionError):
        content = parse()
        if not _is_too_deep(content):
            return content
    raise ValueError(f"tables and lists are nested more than {_DEEPEST} deep")


def _is_too_deep(value: Any) -> bool:
    """Whether tables and lists are nested too deeply; found without recursion, which could itself go too deep."""
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [
            item
            for each in level
            if isinstance(each, Mapping | list | tuple)
            for item in (each.values() if isinstance(each, Mapping) else each)
        ]
        if not level:
            return False
    return True


def checks_digests(requested: bool | None = None) -> bool:
    """Whether to check digests: as requested; by default, unless `PEIRCE_NO_DIGESTS` is set."""
    return os.environ.get(NO_DIGESTS, "") in ("", "0") if requested is None else requested


def digest_of(content: Path | IO[bytes] | bytes | Mapping[str, Any], length: int | None = None) -> str:
    """The SHA-256 of a file, or of its first bytes; 64 hexadecimal digits.

    Args:
        content: the file's path; or the file, open, to be read from its beginning; or its content; or a JSON table,
            however it is laid out.
        length: how many bytes count; all of them if None.
    """
    if isinstance(content, Mapping):
        content = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    if isinstance(content, bytes):
        return hashlib.sha256(content[:length]).hexdigest()
    if isinstance(content, Path):
        with content.open("rb") as opened:
            return digest_of(opened, length)
    content.seek(0)
    found, left = hashlib.sha256(), math.inf if length is None else length
    while left > 0 and (chunk := content.read(int(min(_CHUNK, left)))):
        found.update(chunk)
        left -= len(chunk)
    return found.hexdigest()
