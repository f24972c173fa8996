"""Inputs that do not fit a model or this machine are refused by the signature, before memory is asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peirce.errors import InputError, OutOfMemoryError, lacks_memory
from peirce.model import Decoding, fitting
from peirce.parts import Signature, TensorSpec, check_sizes, room, within_memory
from peirce.resources import machine_memory

ROW = ("batch", "length")
SIGNATURE = Signature(
    [
        TensorSpec(name="input_ids", dtype="int64", dims=ROW, largest={"length": 64}),
        TensorSpec(
            name="attention_mask", dtype="bool", dims=ROW, required=False, default=True, masks="length"
        ),
    ],
    [
        TensorSpec(name="unary", dtype="float", dims=(*ROW, 8)),
        TensorSpec(name="binary", dtype="float", dims=("batch", "length + 2", "length", 16)),
    ],
)


def test_a_length_beyond_the_largest_is_refused() -> None:
    check_sizes(SIGNATURE, {"batch": 1, "length": 64}, 4)
    with pytest.raises(InputError, match="the length of the inputs is 65, and the model reads at most 64 "):
        check_sizes(SIGNATURE, {"batch": 1, "length": 65}, 4)


def test_a_batch_whose_outputs_fill_the_machine_is_refused() -> None:
    rows = int(machine_memory() / (2 * 66 * 64 * 16 * 4))
    check_sizes(SIGNATURE, {"batch": rows, "length": 64}, 4)
    with pytest.raises(
        InputError, match=r"'binary' alone has .* GB; this machine has .* GB: give fewer or shorter rows"
    ):
        check_sizes(SIGNATURE, {"batch": rows + 1, "length": 64}, 4)
    check_sizes(SIGNATURE, {"batch": 10**9, "length": 64}, None)


def test_more_tokens_than_there_is_room_for() -> None:
    assert [room(SIGNATURE, "input_ids", length) for length in (1, 60, 64)] == [64, 5, 1]
    assert room(SIGNATURE, "attention_mask", 60) == 5
    how = Decoding(max_new=9)
    assert fitting(how, None, asked=True) is how
    assert fitting(how, 9, asked=True) is how
    assert fitting(how, 5, asked=False).max_new == 5
    with pytest.raises(InputError, match="max_new is 9, and the longest prompt leaves room for 5 tokens"):
        fitting(how, 5, asked=True)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried"
        ),
        RuntimeError(
            "[ONNXRuntimeError] : 1 : FAIL : Failed to allocate memory for requested buffer of size 99"
        ),
        RuntimeError("std::bad_alloc"),
        np._core._exceptions._ArrayMemoryError((9,), np.dtype(np.int8)),  # type: ignore[attr-defined]
    ],
)
def test_a_lack_of_memory_is_one_error_whoever_raises_it(error: Exception) -> None:
    assert lacks_memory(error)
    with pytest.raises(OutOfMemoryError, match=r"^there is not enough memory for the inputs ids \[2, 3\] \("):
        _raise(error)
    with pytest.raises(ValueError, match=r"^another$"):
        _raise(ValueError("another"))


def _raise(error: Exception) -> None:
    with within_memory(lambda: {"ids": (2, 3)}):
        raise error
