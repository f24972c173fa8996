"""Files of many arrays: what a header claims is held against the file before any memory is asked for."""

from __future__ import annotations

import io
import math
import struct
import zipfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from os import PathLike
from typing import IO, TYPE_CHECKING, Any

from attrs import frozen

from peirce.errors import PeirceError, printable
from peirce.files.read import UnreadableError, bound_of, check_ratio, open_file, parse_json, too_much

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    LookAtArray = Callable[[str, np.dtype[Any], tuple[int, ...]], None]
    """Looks at the name, the dtype and the shape of an array that has not been read; raises to refuse it."""

_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "C64": 8, "F64": 8, "I64": 8, "U64": 8,
}  # fmt: skip
"""The dtypes of safetensors, and the bytes of each."""
_NPY_HEADER = 10_000
_DIRECTORY = 10**6
"""The most bytes of the directory of a zip file: thousands of arrays."""


@frozen
class TensorHeader:
    """What a safetensors file holds, by its header.

    Args:
        shapes: by name.
        dtypes: by name, as safetensors calls them.
        metadata: texts by name.
    """

    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]
    metadata: Mapping[str, str]


def tensor_header(source: str | PathLike[str] | IO[bytes]) -> TensorHeader:
    """Read the header of a safetensors file, and hold it against the file's size; no tensor is read.

    Args:
        source: the file, or the file opened to read bytes, which stays open.

    Raises:
        UnreadableError: it is no regular or no safetensors file, is cut short, or claims what it does not hold.
        OSError: it is not there, or may not be read.
    """
    with open_file(source) if isinstance(source, str | PathLike) else nullcontext(source) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        first = file.read(8)
        length = int.from_bytes(first, "little")
        if len(first) < 8 or length > size - 8:
            raise UnreadableError(
                "it is no safetensors file, or cut short: its header is longer than the file"
            )
        if error := too_much(length, "header"):
            raise error
        try:
            header = parse_json(file.read(length).decode())
        except ValueError as error:
            raise UnreadableError(f"its header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise UnreadableError("its header holds no table")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise UnreadableError("its metadata are no texts by name")
    spans = sorted(_span(name, entry) for name, entry in header.items())
    end = 0
    for start, stop, name in spans:
        if start != end:
            raise UnreadableError(f"tensor {name!r} begins at byte {start}, where {end} is next")
        end = stop
    if end != size - 8 - length:
        raise UnreadableError(
            f"its header tells of {end:,} bytes of tensors and the file has {size - 8 - length:,}: it is cut short or "
            "damaged"
        )
    return TensorHeader(
        {name: tuple(entry["shape"]) for name, entry in header.items()},
        {name: entry["dtype"] for name, entry in header.items()},
        metadata,
    )


def _span(name: str, entry: Any) -> tuple[int, int, str]:
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(start), int(stop)]} if (
            dtype in _BYTES and all(type(each) is int and each >= 0 for each in shape)
        ):
            # Product by product, since a shape may have thousands of digits.
            count = _BYTES[dtype]
            for each in shape:
                count *= each
                if count > 1 << 63:
                    break
            if start >= 0 and stop - start == count:
                return start, stop, name
    raise UnreadableError(
        f"tensor {name!r} is not one of safetensors: its dtype, shape and bytes do not agree"
    )


def read_npz(
    source: str | PathLike[str] | bytes, claim: LookAtArray | None = None
) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file by name, none of them with Python objects.

    Args:
        source: the file, or its bytes.
        claim: is asked of each array before it is read.

    Raises:
        UnreadableError: it is no regular or no .npz file, is damaged, or holds or claims too much. OSError: it is not
            there. Whatever `claim` raises.
    """
    import numpy as np

    with io.BytesIO(source) if isinstance(source, bytes) else open_file(source, "arrays") as file:
        try:
            size = _check_directory(file)
            with zipfile.ZipFile(file) as archive:
                if sum(entry.compress_size for entry in archive.infolist()) > size:
                    raise UnreadableError("its arrays lie above each other")
                found: dict[str, NDArray[Any]] = {}
                room = bound_of("arrays")
                for entry in archive.infolist():
                    name = entry.filename.removesuffix(".npy")
                    with archive.open(entry) as stream:
                        found[name], room = _array(np, stream, entry, name, room, claim)
                return found
        except (UnreadableError, PeirceError):
            raise
        except Exception as error:  # what zipfile, zlib, numpy and the parser of its headers raise on damage
            cause = printable(error, 200) or type(error).__name__
            raise UnreadableError(f"it is no .npz file of plain arrays: {cause}") from error


def _array(
    np: Any, stream: IO[bytes], entry: zipfile.ZipInfo, name: str, room: int, claim: LookAtArray | None
) -> tuple[NDArray[Any], int]:
    """An array, and how many bytes may follow."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"array {name!r} is of the version {version} of numpy's format")
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = header(stream, max_header_size=_NPY_HEADER)
    if dtype.hasobject:
        raise ValueError(f"array {name!r} holds Python objects")
    bytes_ = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or bytes_ > entry.file_size:
        raise ValueError(f"array {name!r} claims the shape {shape}, and is smaller")
    if bytes_ > room:
        error = too_much(bound_of("arrays") - room + bytes_, "arrays")
        assert error is not None, "there is no room for it"
        raise error
    check_ratio(bytes_, entry.compress_size)
    if claim is not None:
        claim(name, dtype, shape)
    content = bytearray(bytes_)
    view, done = memoryview(content), 0
    while done < bytes_ and (count := stream.readinto(view[done:])):  # type: ignore[attr-defined]
        done += count
    if done < bytes_:
        raise ValueError(f"array {name!r} is cut short")
    array = np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")
    return array, room - bytes_


def _check_directory(file: IO[bytes]) -> int:
    """The bytes of a zip file whose directory is not too large to be read."""
    if file.read(6) == b"\x93NUMPY":
        raise UnreadableError("it holds one array without a name")
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - (1 << 16) - 100))
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    wide = tail.rfind(b"PK\6\6", 0, max(at, 0))
    claims = [struct.unpack_from("<I", tail, at + 12)[0]] if at >= 0 else []
    claims += struct.unpack_from("<Q", tail, wide + 40) if wide >= 0 else ()
    if any(_DIRECTORY < claimed < 0xFFFFFFFF or claimed > 0xFFFFFFFF for claimed in claims):
        raise UnreadableError("it is no .npz file of plain arrays: its directory is too large")
    return size
