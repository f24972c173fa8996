"""Torch files of a state dict, read without their unpickler.

A file of `torch.save` has a pickle, which says of each tensor the storage, the offset, the sizes and the strides, and
the bytes of the storages. The pickle is followed (see `pickles`): tensors become descriptions, which are held against
their storages before any value is read, and what else checkpoints hold, such as scalars of numpy, a placeholder.
"""

from __future__ import annotations

import io
import math
import re
import struct
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from attrs import evolve, frozen

from peirce.errors import lacks_memory
from peirce.files.pickles import Name, follow_pickle
from peirce.files.read import UnreadableError, check_file, open_file, size_limit, too_large_error

if TYPE_CHECKING:
    from torch import Tensor

_WANTED = "it must be a safetensors file, or a torch file that contains a state dict and nothing else"
_MAGIC = 0x1950A86A20F9469CFC6C
"""The first value of a file that torch wrote before 1.6, or by `_use_new_zipfile_serialization=False`."""
_DTYPES = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
    "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip
"""The dtypes by the beginning of the names of torch's classes of storages."""
READ_DTYPES = {
    *("BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64", "F16", "BF16", "F32", "F64"),
    *("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
}
"""The dtypes of tensors that are read, as safetensors and as torch call them."""
_STORAGE = re.compile(r"torch\.(?:cuda\.)?(\w+)Storage|torch\.storage\.(?:Untyped|Typed)(Storage)")
_REBUILD = "torch._utils._rebuild_"
_OTHER = re.compile(
    r"torch\.(Size|device|Tensor|serialization\._get_layout|per_\w+|[a-z]+[0-9]+\w*|bool|strided|sparse_\w+)"
    r"|builtins\.complex|_codecs\.encode|collections\.Counter"
    r"|numpy\.(_?core\.(multiarray\.(scalar|_reconstruct)|numeric\._frombuffer)|dtype|ndarray|dtypes\.\w+)"
)
"""What files of checkpoints name beside tensors; what it would make is not made."""


class _Other:
    """A value that is not read."""

    def __init__(self, *arguments: Any) -> None:
        """It keeps nothing of what it would be made of."""

    def __str__(self) -> str:
        return "something else"


@frozen(eq=False)
class _Storage:
    """A storage, or the part of one that an old file views: its key in the file, its dtype, and what it begins with."""

    key: str
    dtype: str
    offset: int = 0


@frozen(eq=False)
class _Tensor:
    """What a pickle says of a tensor; `kind` names one that is not read, which has no more than that."""

    kind: str = ""
    storage: Any = None
    offset: Any = 0
    sizes: Any = ()
    strides: Any = ()
    dtype: str = ""


def read_torch_file(path: Path, inside: str) -> dict[str, Tensor]:
    """The tensors of a state dict in a torch file; see `read_tensors`."""
    size = check_file(path)
    with open_file(path) as file:
        try:
            read = _read_zip if file.read(4) == b"PK\3\4" else _read_old
            file.seek(0)
            return read(file, size, inside)
        except UnreadableError:
            raise
        except Exception as error:  # what zip files and pickles that lack bytes make their readers raise
            if lacks_memory(error):
                raise
            raise UnreadableError(f"{_WANTED} ({error or type(error).__name__})") from error


def _read_zip(file: IO[bytes], size: int, inside: str) -> dict[str, Tensor]:
    with zipfile.ZipFile(file) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        if sum(entry.file_size for entry in archive.infolist()) > size:
            raise UnreadableError("it unpacks to more than its own size, so it is not an ordinary torch file")
        (place,) = (name for name in entries if re.fullmatch(r"[^/]+/data\.pkl", name))
        folder = place.removesuffix("data.pkl")
        if f"{folder}byteorder" in entries and archive.read(f"{folder}byteorder").decode() != sys.byteorder:
            raise ValueError("its numbers are in the byte order of another machine")
        if entries[place].file_size > _longest():
            raise too_large_error(_longest(), what="a pickle in it")
        descriptions = _state_dict(_follow(io.BytesIO(archive.read(place))), inside)

        def entry_of(key: str) -> zipfile.ZipInfo:
            return entries[f"{folder}data/{key}"]

        def values(key: str) -> Tensor:
            with archive.open(entry_of(key)) as stream:
                return _read_values(stream, entry_of(key).file_size)

        return _tensors(descriptions, lambda key: entry_of(key).file_size, values)


def _read_old(file: IO[bytes], size: int, inside: str) -> dict[str, Tensor]:
    """Magic number, version and machine, the pickle, the keys of the storages, then their counts and values."""
    if _follow(file) != _MAGIC or _follow(file) != 1001 or not _follow(file)["little_endian"]:
        raise ValueError("it does not begin as torch's files do")
    dtypes: dict[str, str] = {}
    descriptions = _state_dict(_follow(file, dtypes), inside)
    places: dict[str, tuple[int, int]] = {}
    for key in _follow(file):
        (count,) = struct.unpack("<q", file.read(8))
        places[key] = file.tell(), count * _item_bytes(dtypes[key])
        if not 0 <= places[key][1] <= size - file.tell():
            raise UnreadableError("its tensors claim more bytes than it has")
        file.seek(places[key][1], 1)

    def values(key: str) -> Tensor:
        file.seek(places[key][0])
        return _read_values(file, places[key][1])

    return _tensors(descriptions, lambda key: places[key][1], values)


def _follow(stream: IO[bytes], dtypes: dict[str, str] | None = None) -> Any:
    """What the next pickle of a stream describes; `dtypes` receives the dtype of each storage by its key."""
    known: dict[str, str] = {} if dtypes is None else dtypes
    return follow_pickle(stream, _find, refer=lambda described: _storage(described, known), most=_longest())


def _longest() -> int:
    """The most bytes of a pickle: 15 MB are 100,000 tensors, and take about 1 GB while they are followed."""
    return size_limit(text=True) // 16


def _find(name: str) -> Callable[..., Any] | None:
    if name in _MAKE:
        return _MAKE[name]
    return _Other if _STORAGE.fullmatch(name) or _OTHER.fullmatch(name) else None


def _tensor(
    storage: _Storage,
    offset: int,
    sizes: Any,
    strides: Any,
    grad: Any = None,
    hooks: Any = None,
    marks: Any = None,
) -> _Tensor:
    if marks:  # values that are stored as the conjugate or the negative of what they are
        return _Tensor(f"stored with the marks {', '.join(map(str, marks))}")
    return _Tensor("", storage, offset, sizes, strides, storage.dtype)


def _tensor_of_dtype(
    storage: _Storage,
    offset: int,
    sizes: Any,
    strides: Any,
    grad: Any,
    hooks: Any,
    dtype: Name,
    marks: Any = None,
) -> _Tensor:
    typed = evolve(storage, dtype=dtype.name.removeprefix("torch."))
    return _tensor(typed, offset, sizes, strides, grad, hooks, marks)


def _kind(kind: str) -> Callable[..., _Tensor]:
    return lambda *arguments: _Tensor(kind)


_MAKE: Mapping[str, Callable[..., Any]] = {
    f"{_REBUILD}tensor": _tensor,
    f"{_REBUILD}tensor_v2": _tensor,
    f"{_REBUILD}tensor_v3": _tensor_of_dtype,
    f"{_REBUILD}parameter": lambda tensor, *more: tensor,
    f"{_REBUILD}parameter_with_state": lambda tensor, *more: tensor,
    f"{_REBUILD}device_tensor_from_cpu_tensor": lambda tensor, *more: tensor,
    "torch._tensor._rebuild_from_type_v2": lambda function, kind, arguments, state: function.make(*arguments),
    f"{_REBUILD}sparse_tensor": _kind("sparse"),
    f"{_REBUILD}qtensor": _kind("quantised"),
    f"{_REBUILD}nested_tensor": _kind("nested"),
    f"{_REBUILD}meta_tensor_no_storage": _kind("a meta tensor, which has no values"),
}
"""What is made of the calls of tensors and tables; of every other call that `_OTHER` allows, a placeholder."""


def _storage(described: tuple[Any, ...], dtypes: dict[str, str]) -> _Storage:
    """The storage of `("storage", class, key, device, count)`, and in old files the part of it that is viewed."""
    word, kind, key, _, _, *view = described
    match = _STORAGE.fullmatch(kind.name)
    if word != "storage" or match is None or not isinstance(key, str):
        raise ValueError("it refers to more than storages")
    name = match[1] or "Byte"
    dtype = dtypes.setdefault(key, _DTYPES.get(name, name.lower()))
    return _Storage(key, dtype, view[0][1] if view and view[0] else 0)


def _read_values(stream: IO[bytes], length: int) -> Tensor:
    """The bytes of a storage, read into memory that tensors then view."""
    import torch

    found = torch.empty(length, dtype=torch.uint8)
    view, done = found.numpy().data, 0
    while done < length and (chunk := stream.read(min(1 << 20, length - done))):
        view[done : done + len(chunk)] = chunk
        done += len(chunk)
    if done < length:
        raise ValueError("it is truncated")
    return found


def _state_dict(found: Any, inside: str) -> dict[str, _Tensor]:
    if isinstance(found, dict) and isinstance(found.get(inside), dict):
        found = found[inside]
    if not isinstance(found, dict) or not all(
        isinstance(key, str) and isinstance(each, _Tensor) for key, each in found.items()
    ):
        keys = sorted(map(str, found)) if isinstance(found, dict) else []
        content = (
            f"the keys {', '.join(keys[:12])}" if keys else f"a {type(found).__name__.strip('_').lower()}"
        )
        raise UnreadableError(
            f"it does not contain a state dict of named tensors, but {content}; save its state dict alone"
        )
    return found


def _tensors(
    descriptions: Mapping[str, _Tensor], length: Callable[[str], int], values: Callable[[str], Tensor]
) -> dict[str, Tensor]:
    """The tensors of descriptions, all of which are held against the lengths of their storages first."""
    import torch

    for name, each in descriptions.items():
        if each.kind:
            raise UnreadableError(f"tensor {name!r} is {each.kind}, and only dense ones are read")
        if each.dtype not in READ_DTYPES:
            raise unread_dtype_error(name, each.dtype)
        numbers = [each.offset, each.storage.offset, *each.sizes, *each.strides]
        if len(numbers) > 128 or not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
            raise ValueError(f"tensor {name!r} has impossible sizes")
        count, room = math.prod(each.sizes), length(each.storage.key) // _item_bytes(each.dtype)
        last = sum((size - 1) * stride for size, stride in zip(each.sizes, each.strides, strict=True))
        if count and max(count, each.storage.offset + each.offset + last + 1) > room:
            raise UnreadableError(f"tensor {name!r} claims {count:,} values, and its storage has fewer")
    storages = {each.storage.key: torch.empty(0) for each in descriptions.values()}
    for key in storages:
        storages[key] = values(key)
    return {
        name: torch.empty(0, dtype=getattr(torch, each.dtype)).set_(
            storages[each.storage.key].untyped_storage(),
            each.storage.offset + each.offset,
            each.sizes,
            each.strides,
        )
        for name, each in descriptions.items()
    }


def _item_bytes(dtype: str) -> int:
    import torch

    return int(getattr(torch, dtype).itemsize)


def unread_dtype_error(name: str, dtype: str) -> UnreadableError:
    """The error of a tensor of a dtype that models do not have, by its name in safetensors or in torch."""
    return UnreadableError(f"tensor {name!r} is of the type {dtype}, which is not read")
