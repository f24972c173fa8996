"""One sentence for a disk that takes no more, whichever library met it."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peirce.errors import PeirceError, WriteError
from peirce.files import refused, write_whole, writing

LIMIT = 1000


@pytest.fixture
def small_files() -> Iterator[None]:
    """Files of a thousand bytes at most; the system then says EFBIG, at the same calls as it says ENOSPC."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _safetensors(path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(4 * LIMIT)}, path)


def _onnx(path: Path) -> None:
    import onnx_ir as ir

    value = ir.Value(name="w", const_value=ir.tensor(np.zeros(4 * LIMIT), name="w"))
    graph = ir.Graph([], [], nodes=[], initializers=[value], opset_imports={"": 20})
    ir.save(ir.Model(graph, ir_version=10), path, external_data="data")


def _parquet(path: Path) -> None:
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    pyarrow.parquet.write_table(pyarrow.table({"a": np.random.default_rng(0).random(4 * LIMIT)}), path)


def _npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, a=np.zeros(4 * LIMIT))


WRITERS: dict[str, Callable[[Path], Any]] = {
    "open": lambda path: path.write_bytes(b"0" * 4 * LIMIT),
    "tofile": lambda path: np.zeros(4 * LIMIT).tofile(path),
    "savez": _npz,
    "safetensors": _safetensors,
    "onnx": _onnx,
    "parquet": _parquet,
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.usefixtures("small_files")
def test_every_library_is_understood(tmp_path: Path, writer: str) -> None:
    with pytest.raises(WriteError) as error, writing("the thing", "the rest is whole"):
        WRITERS[writer](tmp_path / "a")
    assert str(error.value).startswith("the thing cannot be written: ")
    assert "; the rest is whole; " in str(error.value)
    assert str(error.value).endswith(", and run it again")


@pytest.mark.usefixtures("small_files")
def test_a_file_that_does_not_fit_leaves_nothing_and_the_outermost_knows_what_is_safe(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, "old")
    with pytest.raises(WriteError) as error, writing("a training", "the checkpoint of step 3 is whole"):
        write_whole(path, "0" * 4 * LIMIT)
    text = f"{path} cannot be written: {os.strerror(errno.EFBIG)}; the checkpoint of step 3 is whole; raise the limit"
    assert str(error.value).startswith(text)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG])
def test_the_system_s_own_errors(number: int) -> None:
    def fail() -> None:
        try:
            raise OSError(number, os.strerror(number))
        except OSError as error:
            raise ValueError("a library's own") from error

    with (
        pytest.raises(WriteError, match=f"x cannot be written: {os.strerror(number)}; y; "),
        writing("x", "y"),
    ):
        fail()


def test_other_errors_are_left_alone() -> None:
    for error in (
        PermissionError(errno.EACCES, "no"),
        ValueError("5 requested and 3 written"),
        OSError("odd"),
        PeirceError("x"),
    ):
        with pytest.raises(type(error)) as found, writing("x", "y"):
            raise error
        assert found.value is error
        assert refused(error) is None
