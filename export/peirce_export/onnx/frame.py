"""The frame of an ONNX file, read without onnx: its properties, and the files beside it that hold weights.

It is read before a runtime opens the file: whatever a file from outside claims, a claim costs nothing here, and a
reason to refuse it is one sentence. Fields are numbered as in onnx.proto.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path

from attrs import define, frozen
from peirce.errors import ModelFileError
from peirce.files import check_file, open_file

_GRAPH, _METADATA = 7, 14
_INITIALIZER, _INPUT, _OUTPUT = 5, 11, 12
_EXTERNAL = 13
_NAME, _TYPE = 1, 2
_TYPES = {1: "tensor", 4: "seq", 5: "map", 7: "opaque", 8: "sparse_tensor", 9: "optional"}
_ELEMENTS = {
    1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "double", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz",
}  # fmt: skip
_KEY, _VALUE = 1, 2
_VARINT, _WIDE, _BYTES, _NARROW = 0, 1, 2, 5
_PROPERTIES = 4 * 10**6
"""The most bytes of all properties."""
_FIELDS = 2 * 10**6
"""The most fields that are read of a file: far more than any model has, and read in seconds."""
_ELSEWHERE = re.compile(rb"\n\x08location\x12")
"""A tensor with its values in another file, as it is written anywhere but among the weights."""


@frozen
class Frame:
    """What an ONNX file says before it is loaded.

    Args:
        properties: texts by name.
        external: the files of weights beside it, as it names them.
        types: of its inputs and outputs by name, as `tensor(float)`.
    """

    properties: dict[str, str]
    external: tuple[str, ...]
    types: dict[str, str]


def read_frame(path: Path) -> Frame:
    """Read the frame of a file, and hold the files of weights that it names against what may be read.

    Raises:
        ModelFileError: the file is missing, is no ONNX file, or cut short; or a file of weights is missing, lies
            elsewhere, or is no regular file.
    """
    try:
        with open_file(path, "graph") as file:
            if check_file(path) == 0:
                raise ValueError("it is empty")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                frame = _frame(_Content(data))
    except OSError as error:
        reason = "it is not there" if isinstance(error, FileNotFoundError) else error.strerror or error
        raise ModelFileError(
            f"{path} cannot be read: {reason}; `peirce export` writes such a file"
        ) from error
    except ValueError as error:
        raise ModelFileError(
            f"{path} is not an ONNX file, or is cut short, damaged or incomplete: {error}; "
            "`peirce export` writes it again"
        ) from None
    for name in frame.external:
        _check_external(path, name)
    return frame


def _frame(data: _Content) -> Frame:
    properties: dict[str, str] = {}
    types: dict[str, str] = {}
    external: dict[str, None] = {}
    room, graphs = _PROPERTIES, 0
    for number, start, end in data.fields(0, len(data.bytes)):
        if number == _METADATA:
            room -= end - start
            if room < 0:
                raise ValueError(f"its properties have more than {_PROPERTIES:,} bytes")
            key, value = _entry(data, start, end)
            properties[key] = value
        elif number == _GRAPH:
            graphs += 1
            for inner, begin, stop in data.fields(start, end):
                if inner == _INITIALIZER:
                    external.update(dict.fromkeys(_locations(data, begin, stop)))
                elif inner in (_INPUT, _OUTPUT):
                    name, kind = _value(data, begin, stop)
                    types[name] = kind
                elif _ELSEWHERE.search(data.bytes, begin, stop):
                    raise ValueError("a node holds values in another file")
        elif _ELSEWHERE.search(data.bytes, start, end):
            raise ValueError("a function holds values in another file")
    if not graphs:
        raise ValueError("it has no graph")
    return Frame(properties, tuple(external), types)


def _locations(data: _Content, start: int, end: int) -> Iterator[str]:
    """The files that hold the values of a tensor."""
    for number, begin, stop in data.fields(start, end):
        if number == _EXTERNAL:
            key, value = _entry(data, begin, stop)
            if key == "location":
                yield value


def _value(data: _Content, start: int, end: int) -> tuple[str, str]:
    """The name of an input or output, and its type as ONNX Runtime writes it; of what is no tensor, its kind alone."""
    name, kind = "", "of no type"
    for number, begin, stop in data.fields(start, end):
        if number == _NAME:
            name = data.bytes[begin:stop].decode(errors="replace")
        elif number == _TYPE:
            for which, first, last in data.fields(begin, stop):
                if which in _TYPES:
                    kind = _TYPES[which]
                if which == 1:
                    kind = f"tensor({_element(data, first, last)})"
    return name, kind


def _element(data: _Content, start: int, end: int) -> str:
    found = 0
    for number, begin, _ in data.fields(start, end):
        if number == 1:
            found, _ = data.varint(begin, end)
    return _ELEMENTS.get(found, f"type {found}")


def _entry(data: _Content, start: int, end: int) -> tuple[str, str]:
    found = {_KEY: b"", _VALUE: b""}
    for number, begin, stop in data.fields(start, end):
        if number in found:
            found[number] = data.bytes[begin:stop]
    try:
        return found[_KEY].decode(), found[_VALUE].decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"property {found[_KEY][:80]!r} is no UTF-8: {error.reason}") from None


@define
class _Content:
    """The bytes of a file, and how many fields may still be read of them."""

    bytes: mmap.mmap
    room: int = _FIELDS

    def fields(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The fields of a message: number, and where its bytes begin and end; of a number, its own bytes."""
        at = start
        while at < end:
            self.room -= 1
            if self.room < 0:
                raise ValueError(f"it has more than {_FIELDS:,} fields")
            tag, at = self.varint(at, end)
            number, wire, begin = tag >> 3, tag & 7, at
            if wire == _VARINT:
                _, at = self.varint(at, end)
            elif wire == _WIDE:
                at += 8
            elif wire == _NARROW:
                at += 4
            elif wire == _BYTES:
                length, begin = self.varint(at, end)
                at = begin + length
            else:
                raise ValueError(f"byte {begin:,} begins no field")
            if at > end or number == 0:
                raise ValueError(f"the field at byte {begin:,} does not end where its message ends")
            yield number, begin, at

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """A number, and where it ends."""
        value = shift = 0
        while at < end and shift < 70:
            byte = self.bytes[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
        raise ValueError(f"byte {at:,} begins no number")


def _check_external(path: Path, name: str) -> None:
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts or "\0" in name:
        raise ModelFileError(
            f"{path} keeps weights in {name!r}, which does not lie beside it; export it again"
        )
    try:
        check_file(path.parent / name)
    except OSError as error:
        reason = "it is not there" if isinstance(error, FileNotFoundError) else error.strerror or error
        raise ModelFileError(
            f"{path} keeps weights in {path.parent / name}, which cannot be read: {reason}; copy or export it again"
        ) from error
