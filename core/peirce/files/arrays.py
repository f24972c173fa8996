"""Files of many arrays, whose headers are checked before any value is read."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from peirce.errors import PeirceError, printable
from peirce.files.read import UnreadableError, check_file, open_file, size_limit, too_large_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

_READ = {
    *("BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64", "F16", "BF16", "F32", "F64"),
    *("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
}
"""The dtypes of tensors that are read, as safetensors and as torch call them."""


@frozen
class TensorHeader:
    """The header of a safetensors file.

    Args:
        shapes: by name.
        dtypes: by name, as safetensors calls them.
        metadata: texts by name.
    """

    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]
    metadata: Mapping[str, str]


def tensor_header(path: str | PathLike[str]) -> TensorHeader:
    """Read the header of a safetensors file, which its library checks against the file's size; no tensor is read.

    Raises:
        UnreadableError: it is not a regular safetensors file, is truncated, or its header does not match its content.
        OSError: it is not there, or may not be read.
    """
    from safetensors import SafetensorError, safe_open

    check_file(path)
    try:
        with safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # it is not a dict
            return TensorHeader(
                {name: tuple(each.get_shape()) for name, each in slices.items()},
                {name: each.get_dtype() for name, each in slices.items()},
                file.metadata() or {},
            )
    except (SafetensorError, MemoryError) as error:  # mapping the file may exhaust the address space
        raise UnreadableError(f"it is not a safetensors file, or is truncated or damaged: {error}") from error


def read_tensors(path: Path, inside: str = "") -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of a torch file of a state dict; nothing in it is executed.

    Before any value is read, each tensor is checked to be dense, of an ordinary dtype and no larger than its storage,
    and the storages together to be no larger than the file.

    Args:
        path: the file.
        inside: the key of the state dict in a torch file that contains more than that.

    Raises:
        UnreadableError: it is another kind of file, or a tensor fails these checks; the message names the tensor.
        OSError: it is not there, or may not be read.
    """
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        for name, dtype in tensor_header(path).dtypes.items():
            _check_dtype(name, dtype)
        return load_file(path)
    size = check_file(path)
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > size:
            raise UnreadableError("it unpacks to more than its own size, so it is not an ordinary torch file")
    storages: dict[int, int] = {}
    for name, tensor in _torch_file(path, "meta", inside).items():
        _check_tensor(name, tensor)
        storage = tensor.untyped_storage()
        storages[storage._cdata] = storage.nbytes()
    if sum(storages.values()) > size:
        raise UnreadableError("its tensors claim more bytes than it has")
    found = _torch_file(path, "cpu", inside)
    for name, tensor in found.items():
        if tensor.device.type != "cpu":
            raise UnreadableError(f"tensor {name!r} is a meta tensor, which has no values")
    return found


def _torch_file(path: Path, device: str, inside: str) -> dict[str, Tensor]:
    import torch

    try:
        with warnings.catch_warnings(action="ignore"):  # of kinds of tensors that are refused
            loaded = torch.load(path, map_location=device, weights_only=True)
    except NotImplementedError as error:  # no such tensor can be on torch's meta device
        raise UnreadableError(
            "it contains quantised or nested tensors, and only dense ones are read"
        ) from error
    except (OSError, MemoryError):
        raise
    except Exception as error:  # what zip files and pickles that lack bytes make their readers raise
        raise UnreadableError(
            "it must be a safetensors file, or a torch file that contains a state dict and nothing else"
        ) from error
    if isinstance(loaded, dict) and isinstance(loaded.get(inside), dict):
        loaded = loaded[inside]
    if not isinstance(loaded, dict) or not all(isinstance(each, torch.Tensor) for each in loaded.values()):
        keys = sorted(map(str, loaded)) if isinstance(loaded, dict) else []
        content = f"the keys {', '.join(keys[:12])}" if keys else type(loaded).__name__
        raise UnreadableError(
            f"it does not contain a state dict of named tensors, but {content}; save its state dict alone"
        )
    return loaded


def _check_tensor(name: str, tensor: Tensor) -> None:
    kinds = {"nested": tensor.is_nested, "quantised": tensor.is_quantized}
    kinds["sparse"] = not tensor.is_nested and str(tensor.layout) != "torch.strided"
    for kind, found in kinds.items():
        if found:
            raise UnreadableError(f"tensor {name!r} is {kind}, and only dense ones are read")
    _check_dtype(name, str(tensor.dtype).removeprefix("torch."))
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise UnreadableError(f"tensor {name!r} claims {tensor.numel():,} values, and its storage has fewer")


def _check_dtype(name: str, dtype: str) -> None:
    if dtype not in _READ:
        raise UnreadableError(f"tensor {name!r} is of the type {dtype}, which is not read")


def read_npz(
    source: str | PathLike[str] | bytes,
    look: Callable[[str, np.dtype[Any], tuple[int, ...]], None] | None = None,
) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file by name, none of them with Python objects.

    Args:
        source: the file, or its bytes.
        look: called with the name, the dtype and the shape of each array before any is read; it raises to refuse one.

    Raises:
        UnreadableError: it is not a regular .npz file, is damaged, or is larger than the limit or than its header says.
        OSError: it is not there.
        PeirceError: raised by `look`.
    """
    import numpy as np

    with io.BytesIO(source) if isinstance(source, bytes) else open_file(source) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > size_limit():
                    raise too_large_error(size_limit())
                for entry in archive.infolist():
                    with archive.open(entry) as stream:
                        version = np.lib.format.read_magic(stream)
                        names = {(1, 0): "read_array_header_1_0", (2, 0): "read_array_header_2_0"}
                        shape, _, dtype = getattr(np.lib.format, names[version])(stream)
                        if math.prod(shape) * dtype.itemsize > entry.file_size:
                            raise ValueError(
                                f"array {entry.filename} claims the shape {shape}, and is smaller"
                            )
                        if look is not None:
                            look(entry.filename.removesuffix(".npy"), dtype, shape)
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                return dict(arrays)
        except (UnreadableError, PeirceError):
            raise
        except Exception as error:  # what zipfile, zlib, numpy and the parser of its headers raise on damage
            cause = printable(error, 200) or type(error).__name__
            raise UnreadableError(f"it is not an .npz file of plain arrays: {cause}") from error
