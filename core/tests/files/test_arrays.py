"""Files of many arrays whose headers claim what they do not hold, and tensors that are not read."""

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
import torch
from safetensors.torch import save_file

from peirce.errors import InputError
from peirce.files import UnreadableError, read_npz, read_tensors, tensor_header


def _safetensors(dtype: str, shape: Any, offsets: Any, data: bytes = b"") -> bytes:
    header = {"__metadata__": {"a": "b"}, "t": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_a_header_is_read_without_the_tensors(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(_safetensors("F32", [2, 3], [0, 24], bytes(24)))
    found = tensor_header(path)
    assert (found.shapes, found.dtypes, found.metadata) == ({"t": (2, 3)}, {"t": "F32"}, {"a": "b"})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        _safetensors("F32", [10**12], [0, 4 * 10**12], bytes(16)),
        _safetensors("F32", [4], [0, 16], bytes(15)),
    ],
)
def test_what_a_safetensors_header_claims_is_held_against_the_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(content)
    with pytest.raises(UnreadableError, match="not a safetensors file, or is truncated or damaged"):
        tensor_header(path)
    os.truncate(path, 10**11)  # without a byte on the disk
    with pytest.raises(UnreadableError):
        tensor_header(path)


def _header(shape: tuple[int, ...], descr: str = "<f4") -> bytes:
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, {"descr": descr, "fortran_order": False, "shape": shape})
    return made.getvalue()


def _npz(content: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content)
    return made.getvalue()


def test_arrays_come_as_numpy_writes_them(tmp_path: Path) -> None:
    fortran = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    arrays = {"a": np.arange(6).reshape(2, 3), "b": fortran, "c": np.float32(2), "d": np.ones((0, 3), bool)}
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
        _npz(_header((-1,))),
        _npz(_header((5,), "|O") + bytes(40)),
        _npz(_header((3,)) + bytes(11)),
        _npz(b"\x93NUMPY\1\0\xff\xff" + b"(" * 70_000),
    ],
)
def test_what_an_npz_file_claims_is_held_against_it(content: bytes) -> None:
    with pytest.raises(UnreadableError, match=r"not an .npz file of plain arrays"):
        read_npz(content)


def test_arrays_are_looked_at_and_bounded_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        raise InputError(f"{name} {dtype} {shape}")

    content = _npz(_header((3,)) + bytes(12))
    with pytest.raises(InputError, match=r"x float32 \(3,\)"):
        read_npz(content, look)
    monkeypatch.setenv("PEIRCE_LIMIT", "100")
    with pytest.raises(UnreadableError, match=r"it has more than 0.0001 MB"):
        read_npz(content)


def _write(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    save_file(tensors, path) if path.suffix == ".safetensors" else torch.save(tensors, path)


@pytest.mark.parametrize("name", ["a.safetensors", "a.pt"])
def test_dense_tensors_are_read(name: str, tmp_path: Path) -> None:
    tensors = {"a": torch.rand(3, 4), "b": torch.arange(5), "c": torch.ones(2).bfloat16()}
    _write(tmp_path / name, tensors)
    found = read_tensors(tmp_path / name)
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[key], tensor) for key, tensor in tensors.items())
    torch.save({"whole": torch.rand(4, 5).T, "tied": tensors["a"]}, tmp_path / "b.pt")
    assert read_tensors(tmp_path / "b.pt")["whole"].shape == (5, 4)


@pytest.mark.filterwarnings("ignore")  # torch's, of kinds of tensors that it means to change
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: torch.ones(1).expand(10**3, 10**3, 3000),
            "claims 3,000,000,000 values, and its storage has",
        ),
        (lambda: torch.eye(4).to_sparse(), "is sparse"),
        (lambda: torch.eye(4).to_sparse_csr(), "is sparse"),
        (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "quantised"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "nested"),
        (lambda: torch.empty(10**9, 3, device="meta"), "is a meta tensor"),
        (lambda: torch.empty(3, device="meta"), "is a meta tensor"),
        (lambda: torch.ones(3).to(torch.float8_e4m3fn), "is of the type float8_e4m3fn"),
        (lambda: torch.ones(3, dtype=torch.complex64), "is of the type complex64"),
    ],
)
def test_tensors_that_are_not_dense_are_refused_by_name_before_their_values_are_read(
    make: Any, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.pt"
    torch.save({"good": torch.ones(2), "w": make()}, path)
    with pytest.raises(UnreadableError, match=said):
        read_tensors(path)


def test_what_is_no_file_of_tensors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"model": {"a": torch.ones(2)}, "step": 3}, path)
    with pytest.raises(UnreadableError, match="a state dict of named tensors, but the keys model, step"):
        read_tensors(path)
    for content in (b"", b"PK\3\4" * 9, path.read_bytes()[:-90], b"\x80\2c__builtin__\neval\n(S'1'\ntR."):
        path.write_bytes(content)
        with pytest.raises(UnreadableError, match="must be a safetensors file, or a torch file"):
            read_tensors(path)
    save_file({"a": torch.ones(3).to(torch.float8_e5m2)}, tmp_path / "a.safetensors")
    with pytest.raises(UnreadableError, match="is of the type F8_E5M2"):
        read_tensors(tmp_path / "a.safetensors")


@pytest.mark.parametrize("zipped", [True, False])
def test_a_torch_file_that_lacks_bytes_is_refused(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    torch.save({"weight": torch.ones(2, 3)}, path, _use_new_zipfile_serialization=zipped)
    whole = path.read_bytes()
    for place in range(0, len(whole), len(whole) // 20):
        path.write_bytes(whole[:place] + whole[place + 64 :])
        with pytest.raises(UnreadableError):
            read_tensors(path)


def test_a_torch_file_that_unpacks_to_more_than_its_size_is_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(10**5)}, tmp_path / "a.pt")
    with (
        zipfile.ZipFile(tmp_path / "a.pt") as plain,
        zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for entry in plain.infolist():
            packed.writestr(entry.filename, plain.read(entry))
    with pytest.raises(UnreadableError, match="unpacks to more than its own size"):
        read_tensors(tmp_path / "b.pt")


def test_a_state_dict_is_read_beside_what_checkpoints_hold(tmp_path: Path) -> None:
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 4))
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    flat = torch.arange(20.0)
    state = {**layer.state_dict(), "slice": flat[5:9], "steps": flat[::3], "turned": flat.view(4, 5).t()}
    state["halves"], state["parameter"] = torch.ones(2).bfloat16(), torch.nn.Parameter(torch.ones(2))
    state["parameter"].note = "its own"  # type: ignore[attr-defined]
    other = {
        "best": np.float64(0.5),
        "seen": {1, 2},
        "random": np.random.RandomState(0).get_state(),
        "step": 1j,
    }
    path = tmp_path / "a.bin"
    for zipped in (True, False):
        for protocol in (2, 4):
            whole = {"model": state, "optimizer": optimizer.state_dict(), **other}
            torch.save(whole, path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
            found = read_tensors(path, "model")
            assert found.keys() == state.keys()
            for key, value in state.items():
                assert torch.equal(found[key], value), key
                assert (found[key].dtype, found[key].stride()) == (value.dtype, value.stride())
            assert found["slice"].untyped_storage().data_ptr() == found["steps"].untyped_storage().data_ptr()


def _name(text: str) -> bytes:
    return b"c" + text.replace(" ", "\n").encode() + b"\n"


def _torch_zip(path: Path, pickled: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}X\x01\0\0\0a" + pickled + b"s.")
        archive.writestr("archive/data/0", bytes(8))


def _one_tensor(size: int, stride: int, offset: int = 0) -> bytes:
    storage = b"(X\x07\0\0\0storage" + _name("torch FloatStorage") + b"X\x01\0\0\x000X\x03\0\0\0cpuK\x02tQ"
    numbers = (b"\x8a\x08" + struct.pack("<q", number) for number in (offset, size, stride))
    first, second, third = numbers
    return (
        _name("torch._utils _rebuild_tensor_v2")
        + b"("
        + storage
        + first
        + second
        + b"\x85"
        + third
        + b"\x85tR"
    )


@pytest.mark.parametrize(
    ("pickled", "said"),
    [
        (_one_tensor(2, 1), ""),
        (_one_tensor(10**10, 1), "'a' claims 10,000,000,000 values"),
        (_one_tensor(2, 10**10), "'a' claims 2 values, and its storage has fewer"),
        (_one_tensor(1, 1, 2), "'a' claims 1 values, and its storage has fewer"),
        (_one_tensor(-1, 1), "'a' has impossible sizes"),
        (
            _name("builtins bytearray") + b"J\xff\xff\xff\x7f\x85R",
            "names builtins.bytearray, which is neither",
        ),
        (_name("builtins list") + b"]\x85R", "calls a plain type"),
        (_name("torch FloatTensor") + b"J\xff\xff\xff\x7f\x85R", "names torch.FloatTensor"),
        (_name("torch.storage UntypedStorage") + b"J\xff\xff\xff\x7f\x85R", "but the keys a"),
        (_name("os system") + b"X\x02\0\0\0id\x85R", "names os.system, which is neither imported nor run"),
    ],
)
def test_what_a_torch_file_claims_is_known_before_anything_is_made(
    pickled: bytes, said: str, tmp_path: Path
) -> None:
    _torch_zip(tmp_path / "a.pth", pickled)
    if not said:
        assert read_tensors(tmp_path / "a.pth")["a"].tolist() == [0, 0]
        return
    with pytest.raises(UnreadableError, match=said):
        read_tensors(tmp_path / "a.pth")
