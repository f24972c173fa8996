"""Files of many arrays, whose headers are checked before any value is read."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from peirce.errors import PeirceError, printable
from peirce.files.read import UnreadableError, check_file, open_file, size_limit, too_large_error
from peirce.files.torch_files import READ_DTYPES, read_torch_file, unread_dtype_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor


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
    if path.suffix != ".safetensors":
        return read_torch_file(path, inside)
    from safetensors.torch import load_file

    for name, dtype in tensor_header(path).dtypes.items():
        if dtype not in READ_DTYPES:
            raise unread_dtype_error(name, dtype)
    return load_file(path)


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
