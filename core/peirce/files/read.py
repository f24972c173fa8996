"""Files that come from outside: regular files alone, no larger than such a file can be, and read as a stream.

Every file that Peirce reads is opened here, or checked here before another library opens it. So a name that leads to a
pipe or a device does not hang, and a file that claims to be huge costs no memory.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import stat
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, AnyStr, Literal, cast

from peirce.errors import InputError, unknown
from peirce.files.digests import OWN, AlteredError, digests_checked, own_digest

Kind = Literal[
    "spec", "provenance", "record", "tokenizer", "vocabulary", "table", "text", "line", "arrays", "header", "graph",
    "asset", "unpacked",
]  # fmt: skip
_MB = 10**6
BOUNDS: Mapping[Kind, tuple[int, str]] = {
    "spec": (_MB, "a TOML file: a spec, a registry.toml, a recipe, types of queries"),
    "provenance": (_MB, "`provenance.json`"),
    "record": (
        16 * _MB,
        "any other JSON file of settings or records, such as `training.json` or `config.json`",
    ),
    "tokenizer": (64 * _MB, "a tokenizer or a vocabulary of word pieces"),
    "vocabulary": (128 * _MB, "the names of a graph, `vocabulary.json`"),
    "table": (256 * _MB, "results as CSV, and published data that are read whole, such as SQuAD's JSON"),
    "text": (64 * _MB, "a file of prompts"),
    "line": (16 * _MB, "a line of a file that is read line by line: triples, queries, rows, texts"),
    "arrays": (2000 * _MB, "the arrays of an `.npz` file together, unpacked"),
    "header": (32 * _MB, "the header of a safetensors file"),
    "graph": (2000 * _MB, "an ONNX file without its external data; protobuf has this bound as well"),
    "asset": (2000 * _MB, "any other file that a saved model keeps in `assets/`"),
    "unpacked": (10**12, "a compressed file that is read line by line, unpacked"),
}
"""The most bytes of each kind of file, and what it is. `PEIRCE_LIMITS` raises them."""
LIMITS_VARIABLE = "PEIRCE_LIMITS"
DEEPEST = 64
"""Tables and lists that may hold each other: far more than any file needs, and few enough for recursion over them."""
RATIO, FREE = 200, 64 * _MB
"""How many times larger than its file compressed content may be, once it is larger than `FREE` bytes."""

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_KEY = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_LONG_KEY = rf"(?:^|[\[{{,])[ \t]*+(?:{_KEY}){{{DEEPEST}}}"
_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class UnreadableError(OSError):
    """A file that is not read for what it is or for how large it is; the message is a clause without the path."""

    def __init__(self, message: str, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__(message)
        self.filename = None if path is None else os.fspath(path)

    def __str__(self) -> str:
        return str(self.args[0])


class FolderError(UnreadableError, IsADirectoryError):
    """A folder where a file must be."""


class TooDeepError(ValueError):
    """Tables and lists that hold each other deeper than any file needs."""

    def __init__(self) -> None:
        super().__init__(f"tables and lists are nested more than {DEEPEST} deep")


def bound_of(kind: Kind) -> int:
    """The most bytes of a kind of file: its bound, or what `PEIRCE_LIMITS` says.

    Raises:
        InputError: `PEIRCE_LIMITS` cannot be read.
    """
    return _raised(os.environ.get(LIMITS_VARIABLE, "")).get(kind, BOUNDS[kind][0])


def parse_size(text: str) -> int:
    """Bytes written as such as 64MB or 2.5 GB.

    Raises:
        ValueError: it is no size.
    """
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?B?)", text.strip().upper())
    if match is None:
        raise ValueError(f"{text!r} is no size such as 64MB or 2GB")
    unit = match[2] if match[2].endswith("B") or not match[2] else f"{match[2]}B"
    return int(float(match[1]) * _UNITS[unit])


def whole_number(text: str) -> int | None:
    """The whole number that a text writes with at most 18 digits of ASCII; None where it writes none.

    `str.isdigit` also holds of `²`, which is no number to `int`, and of more digits than `int` takes.
    """
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def unicode_text(text: str, what: str) -> str:
    """A text of the command line, where bytes that are no UTF-8 become halves of characters.

    Raises:
        InputError: it has such halves; `what` names the text.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what}: character {error.start} is no character of Unicode; give the text as UTF-8"
        ) from None
    return text


def check_file(path: str | os.PathLike[str], kind: Kind | None = None) -> int:
    """Refuse what no reader should open, before another library does.

    Args:
        path: the file, which symbolic links may lead to.
        kind: what it is, for its bound; None for a file of any size.

    Returns:
        Its bytes.

    Raises:
        UnreadableError: it is no regular file, or too large. OSError: it is not there.
    """
    return _regular(os.stat(path), path, kind)


def open_file(path: str | os.PathLike[str], kind: Kind | None = None, *, piped: bool = False) -> IO[bytes]:
    """Open a file to read its bytes.

    Args:
        path: the file.
        kind: what it is, for its bound; None for one that is read as a stream, whatever its size.
        piped: whether it may be what the shell hands over: `/dev/stdin`, or `/dev/fd/N` as of `<(command)`.

    Raises:
        UnreadableError: it is no regular file, or too large. OSError: it is not there, or may not be read.
    """
    if piped and (number := _handed_over(os.fspath(path))) is not None:
        return os.fdopen(os.dup(number), "rb")
    check_file(path, kind)
    # Non-blocking, since what was regular a moment ago might not be now.
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    )
    handle = os.open(path, flags)
    try:
        _regular(os.fstat(handle), path, kind)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: str | os.PathLike[str], kind: Kind) -> bytes:
    """The bytes of a file.

    Raises:
        UnreadableError: it is no regular file, or too large. OSError: it is not there, or may not be read.
    """
    with open_file(path, kind) as file:
        content = file.read(os.fstat(file.fileno()).st_size + 1)
        # What the system makes as it is read, below /proc, says that it is empty.
        while len(content) <= bound_of(kind) and (more := file.read(_MB)):
            content += more
    if len(content) > bound_of(kind):
        raise _too_large(kind, "more")
    return content


def read_text(path: str | os.PathLike[str], kind: Kind) -> str:
    """The text of a file in UTF-8, its lines ended by line feeds, without the mark that some editors begin it with.

    Raises:
        UnreadableError, OSError: as `read`. UnicodeDecodeError: it is no UTF-8.
    """
    return _text(read_bytes(path, kind))


def unpacked_text(path: str | os.PathLike[str], kind: Kind) -> str:
    """As `read_text`, of a file that may be gzipped.

    Raises:
        UnreadableError, OSError: as `unpacked`, or it holds too much. UnicodeDecodeError: it is no UTF-8.
    """
    with open_unpacked(path) as file:
        content = file.read(bound_of(kind) + 1)
    if error := too_much(len(content), kind):
        raise error
    return _text(content)


def _text(content: bytes) -> str:
    return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: str | os.PathLike[str], kind: Kind = "record") -> Any:
    """The content of a JSON file.

    Raises:
        UnreadableError, OSError: as `read`. ValueError: it is no JSON in UTF-8, or nested too deeply.
    """
    return parse_json(read_bytes(path, kind).decode("utf-8-sig"))


def read_record(path: str | os.PathLike[str], kind: Kind = "record") -> Any:
    """The content of a JSON file that `files.write_json` wrote, without its own digest, which is checked.

    A file without one, as earlier versions wrote it, is read as it is.

    Raises:
        AlteredError, a ValueError: it is not what was written. UnreadableError, OSError, ValueError: as `read_json`.
    """
    content = read_json(path, kind)
    if isinstance(content, dict) and OWN in content:
        if digests_checked(None) and content[OWN] != own_digest(content):
            raise AlteredError
        del content[OWN]
    return content


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        UnreadableError, OSError: as `read`. ValueError: it is no TOML, or nested too deeply.
    """
    return parse_toml(read_text(path, "spec"))


def parse_json(text: str | bytes, **hooks: Callable[[Any], Any]) -> Any:
    """The content of a JSON text.

    Args:
        text: the text.
        hooks: as `json.loads` takes them.

    Raises:
        ValueError: it is no JSON. TooDeepError, which is one: it is nested too deeply.
    """
    try:
        content = json.loads(text, **cast(Any, hooks))
    except RecursionError:
        raise TooDeepError from None
    if too_deep(content):
        raise TooDeepError
    return content


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML text.

    Raises:
        ValueError: it is no TOML. TooDeepError, which is one: it is nested too deeply.
    """
    # Of a key of many parts the time that tomllib takes grows with the square.
    if re.search(_LONG_KEY, text, re.MULTILINE):
        raise TooDeepError
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise TooDeepError from None
    if too_deep(content):
        raise TooDeepError
    return content


def too_deep(value: Any, deepest: int = DEEPEST) -> bool:
    """Whether tables and lists hold each other to more than so many levels; without recursion of its own."""
    level = [value]
    for _ in range(deepest + 1):
        level = [
            item
            for each in level
            if isinstance(each, Mapping | list | tuple)
            for item in (each.values() if isinstance(each, Mapping) else each)
        ]
        if not level:
            return False
    return True


def read_lines(file: IO[AnyStr]) -> Iterator[AnyStr]:
    """The lines of an open file, each with its end.

    Raises:
        UnreadableError: a line is longer than a line can be.
    """
    longest = bound_of("line")
    while line := file.readline(longest + 1):
        if len(line) > longest:
            raise UnreadableError(
                f"a line is longer than {_shown(longest)}, so this is no such file; {_raise_it('line')}"
            )
        yield line


def open_unpacked(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file to read its bytes as a stream; one whose name ends in `.gz` is decompressed as it is read.

    Raises:
        UnreadableError: it is no regular file; while reading, it grows beyond all measure.
    """
    file = open_file(path)
    if not os.fspath(path).endswith(".gz"):
        return file
    return io.BufferedReader(_Unpacked(file), 1 << 16)


class _Unpacked(io.RawIOBase):
    """What a gzipped file holds, as long as it is no bomb."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._content = file, gzip.GzipFile(fileobj=file)
        self._given, self._most = 0, bound_of("unpacked")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = self._content.readinto(buffer)
        except (EOFError, zlib.error) as error:
            raise UnreadableError(f"it is damaged, or its end is missing: {error}") from error
        self._given += count
        check_ratio(self._given, self._file.tell())
        if self._given > self._most:
            raise UnreadableError(f"it unpacks to more than {_shown(self._most)}; {_raise_it('unpacked')}")
        return count

    def close(self) -> None:
        self._content.close()
        self._file.close()
        super().close()


def check_ratio(unpacked: int, packed: int) -> None:
    """Refuse compressed content that is far larger than its file.

    Raises:
        UnreadableError: it is.
    """
    if unpacked > FREE and unpacked > RATIO * packed:
        raise UnreadableError(
            f"it unpacks to more than {RATIO} times its size ({_shown(unpacked)} so far), as no such file does; "
            "if it is right, store it without compression"
        )


def too_much(count: int, kind: Kind) -> UnreadableError | None:
    """The error of so many bytes of a kind; None where they are not too many."""
    return None if count <= bound_of(kind) else _too_large(kind, _shown(count))


def _regular(status: os.stat_result, path: str | os.PathLike[str], kind: Kind | None) -> int:
    if stat.S_ISDIR(status.st_mode):
        raise FolderError("it is a folder, where a file must be", path)
    if not stat.S_ISREG(status.st_mode):
        what = next((word for test, word in _KINDS if test(status.st_mode)), "no file")
        raise UnreadableError(f"it is {what}, and only regular files are read", path)
    if kind is not None and status.st_size > bound_of(kind):
        raise _too_large(kind, _shown(status.st_size), path)
    return status.st_size


def _too_large(kind: Kind, found: str, path: str | os.PathLike[str] | None = None) -> UnreadableError:
    return UnreadableError(
        f"it has {found}, and a file of this kind ({kind}) at most {_shown(bound_of(kind))}; {_raise_it(kind)}",
        path,
    )


def _raise_it(kind: Kind) -> str:
    return f"if it is right, set {LIMITS_VARIABLE}={kind}=SIZE"


def _shown(count: int) -> str:
    for unit, each in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= each:
            return f"{count / each:,.4g} {unit}"
    return f"{count} bytes"


def _handed_over(path: str) -> int | None:
    if path == "/dev/stdin":
        return 0
    match = re.fullmatch(r"/dev/fd/(\d{1,9})", path)
    return int(match[1]) if match else None


def _raised(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        kind, _, value = map(str.strip, item.partition("="))
        if kind not in BOUNDS:
            raise InputError(
                f"{LIMITS_VARIABLE}: {unknown('kind of files', kind, BOUNDS)}; write such as record=64MB"
            )
        try:
            found[kind] = parse_size(value)
        except ValueError as error:
            raise InputError(f"{LIMITS_VARIABLE}: {kind}: {error}") from None
    return found
