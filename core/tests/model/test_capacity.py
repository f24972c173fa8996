"""Inputs that do not fit a model or this machine are refused by the signature, before memory is asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from peirce.errors import InputError, OutOfMemoryError, lacks_memory
from peirce.model import check_sizes, free_tokens, make_decoding, refuse_if_out_of_memory
from peirce.parts import Signature, TensorSpec
from peirce.resources import machine_memory

ROW = ("batch", "length")
SIGNATURE = Signature(
    [
        TensorSpec(name="input_ids", dtype="int64", dims=ROW, largest={"length": 64}),
        TensorSpec(name="mask", dtype="bool", dims=ROW, required=False, default=True, masks="length"),
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
    with pytest.raises(InputError, match=r"'binary' alone has .* GB; this machine has .* GB: give fewer"):
        check_sizes(SIGNATURE, {"batch": rows + 1, "length": 64}, 4)
    check_sizes(SIGNATURE, {"batch": 10**9, "length": 64}, None)


def test_more_tokens_than_there_is_room_for() -> None:
    assert [free_tokens(SIGNATURE, "input_ids", length) for length in (1, 60, 64)] == [64, 5, 1]
    assert free_tokens(SIGNATURE, "mask", 60) == 5
    assert [make_decoding({"max_new": 9}, free).max_new for free in (None, 9)] == [9, 9]
    assert make_decoding({}, 5).max_new == 5
    with pytest.raises(InputError, match="max_new is 9, and the longest prompt leaves room for 5 tokens"):
        make_decoding({"max_new": 9}, 5)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you"),
        RuntimeError(
            "[ONNXRuntimeError] : 1 : FAIL : Failed to allocate memory for requested buffer of size"
        ),
        RuntimeError("std::bad_alloc"),
        np._core._exceptions._ArrayMemoryError((9,), np.dtype(np.int8)),  # type: ignore[attr-defined]
    ],
)
def test_a_lack_of_memory_is_one_error_whoever_raises_it(error: Exception) -> None:
    assert lacks_memory(error)
    ids = {"ids": np.zeros((2, 3))}
    with pytest.raises(OutOfMemoryError, match=r"^there is not enough memory for the inputs ids \[2, 3\] \("):
        refuse_if_out_of_memory(error, ids)
    refuse_if_out_of_memory(ValueError("another"), ids)
