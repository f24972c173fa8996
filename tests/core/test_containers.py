"""Headers of safetensors and .npz files that claim what they do not hold."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peirce.files import UnreadableError, read_npz, tensor_header


def _safetensors(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _tensor(dtype: Any, shape: Any, offsets: Any) -> dict[str, Any]:
    return {"t": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


def test_a_header_is_read_without_the_tensors(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    header = {"__metadata__": {"a": "b"}, **_tensor("F32", [2, 3], [0, 24])}
    path.write_bytes(_safetensors(header, bytes(24)))
    found = tensor_header(path)
    assert (found.shapes, found.dtypes, found.metadata) == ({"t": (2, 3)}, {"t": "F32"}, {"a": "b"})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 2**40) + b"{}",
        _safetensors(b"[" * 10**6),
        _safetensors(b"\xff\xfe"),
        _safetensors([]),
        _safetensors({"__metadata__": {"a": 1}}),
        _safetensors(_tensor("F32", [10**12], [0, 4 * 10**12]), bytes(16)),
        _safetensors(_tensor("F32", [2**62, 2**62], [0, 16]), bytes(16)),
        _safetensors(_tensor("F32", [10**4000], [0, 16]), bytes(16)),
        _safetensors(_tensor("F32", [-2, -2], [0, 16]), bytes(16)),
        _safetensors(_tensor("F32", [4], [-16, 0]), bytes(16)),
        _safetensors(_tensor("F32", [4], [8, 24]), bytes(24)),
        _safetensors(_tensor("F32", [4], [0, 16]), bytes(15)),
        _safetensors(_tensor("F99", [4], [0, 16]), bytes(16)),
        _safetensors(_tensor("F32", "4", [0, 16]), bytes(16)),
        _safetensors({"t": []}),
    ],
)
def test_what_a_safetensors_header_claims_is_held_against_the_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(content)
    with pytest.raises(UnreadableError):
        tensor_header(path)


def test_a_sparse_file_of_a_hundred_gigabytes_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(_safetensors(_tensor("F32", [4], [0, 16]), bytes(16)))
    os.truncate(path, 10**11)
    with pytest.raises(
        UnreadableError, match="its header tells of 16 bytes of tensors and the file has 99,9"
    ):
        tensor_header(path)


def _header(shape: tuple[int, ...], descr: str = "<f4") -> bytes:
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, {"descr": descr, "fortran_order": False, "shape": shape})
    return made.getvalue()


def _npz(content: bytes, name: str = "x.npy") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return made.getvalue()


def test_arrays_come_as_numpy_writes_them(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6).reshape(2, 3),
        "b": np.asfortranarray(np.arange(6.0).reshape(3, 2)),
        "c": np.float32(2),
        "d": np.ones((0, 3), bool),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        found = read_npz(tmp_path / "a.npz")
        assert list(found) == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array, strict=True)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\3\4" * 100,
        _npz(_header((10**12,))),
        _npz(_header((2**62, 2**62))),
        _npz(_header((0, 2**62, 2**62))),
        _npz(_header((-1,))),
        _npz(_header((5,), "|O") + bytes(40)),
        _npz(_header((3,)) + bytes(11)),
        _npz(b"\x93NUMPY\1\0\xff\xff" + b"(" * 70_000),
        _npz(b"\x93NUMPY\1\0" + struct.pack("<H", 9000) + b"(" * 9000),
        _npz(b"\x93NUMPY\3\0" + bytes(20)),
        _npz(_header((100_000_000,), "|b1") + bytes(100_000_000)),
        b"PK\5\6" + bytes(8) + struct.pack("<IIH", 2**31, 0, 0),
    ],
)
def test_what_an_npz_file_claims_is_held_against_it(content: bytes) -> None:
    with pytest.raises(UnreadableError):
        read_npz(content)


def test_arrays_are_looked_at_before_they_are_read() -> None:
    class RefusedError(ValueError):
        pass

    def claim(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        raise RefusedError(f"{name} {dtype} {shape}")

    with pytest.raises(UnreadableError, match=r"x float32 \(3,\)"):
        read_npz(_npz(_header((3,))[:-1] + b"\n" + bytes(12)), claim)
