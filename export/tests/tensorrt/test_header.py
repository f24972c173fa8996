"""What is known of an engine without a GPU: its buffers, the profile for a shape, options, and half-moved files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import killed_moves
import pytest
from attrs import evolve
from hand_model import SIGNATURE

from peirce import Session
from peirce.errors import InputError, ModelFileError
from peirce.files import digest_of
from peirce_export.metadata import Metadata, Precision
from peirce_export.tensorrt.header import Header
from peirce_export.tensorrt.profiles import choose, profiles

SIZES = ("batch=1:2:4,length=8:16:32,levels=2", "batch=1:1:1,length=48:64:64")


def header(engine: Path, precision: Precision = "float32") -> Header:
    """The header of an engine whose bytes are no engine."""
    engine.write_bytes(b"engine")
    metadata = Metadata(
        signature=SIGNATURE, spec="", provenance={}, precision=precision, opset_requested=20, opset_actual=20
    )
    return Header(
        metadata=metadata,
        backend="rtx",
        tensorrt="1.7",
        capabilities=("8.9",),
        profiles=profiles(SIGNATURE, SIZES),
        layers=3,
        seconds=1.5,
        size=6,
        sha256=digest_of(engine),
        onnx="0",
        flags={"tf32": True},
    )


@pytest.mark.parametrize(("precision", "wide"), [("float32", 4), ("float16", 2), ("bfloat16", 2)])
def test_buffers_hold_the_largest_shape_of_any_profile(
    precision: Precision, wide: int, tmp_path: Path
) -> None:
    found = header(tmp_path / "model.engine", precision)
    assert found.buffers() == {
        "input_ids": 8 * 4 * 32,
        "attention_mask": 4 * 32,
        "token_type_ids": 8 * 4 * 32,
        "logical_ids": 8 * 4 * 2 * 32,
        "unary": wide * 4 * 32 * 8,
        # one text of 64 tokens has as many pairs as four of 32
        "binary": wide * 64 * 64 * 3,
        "pooled": wide * 4 * 8,
    }


def test_a_header_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "model.engine"
    wrote = header(path)
    wrote.write(path)
    read = Header.read(path)
    assert read == evolve(wrote, metadata=read.metadata)
    assert read.metadata.to_properties() == wrote.metadata.to_properties()
    assert read.check(path) == wrote.sha256
    # Of two profiles the one that has the size; none has 40 tokens.
    assert [choose(read.profiles, {"batch": 1, "length": size}) for size in (8, 64)] == [0, 1]
    with pytest.raises(InputError, match=r"not built for length 40: .*length=8:16:32; length=48:64:64"):
        choose(read.profiles, {"batch": 1, "length": 40})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"CUDAExecutionProvider": {}}, "unknown provider to give options 'CUDAExecutionProvider'"),
        (
            {"TensorRT": {"cuda_graph": True}},
            "unknown option 'cuda_graph' of TensorRT. Did you mean 'cuda_graphs'",
        ),
        (
            {"TensorRT": {"cuda_graphs": "yes"}},
            "option cuda_graphs of TensorRT is 'yes'; it is True or False",
        ),
    ],
)
def test_what_is_no_option_of_an_engine_is_refused(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.engine"
    header(path).write(path)
    with pytest.raises(InputError, match=re.escape(said)):
        Session(path, provider_options=options)


def test_an_engine_that_was_killed_while_it_was_replaced_is_old_new_or_refused(tmp_path: Path) -> None:
    command = [sys.executable, killed_moves.__file__, "engine", str(tmp_path / "moved")]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found == sorted(found, key=["a", "refused", "b"].index)
    assert {found[0], found[-1]} == {"a", "b"}
    assert "refused" in found


def test_a_header_that_is_damaged_or_newer_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.engine"
    header(path).write(path)
    file = tmp_path / "model.engine.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"format": 99}))
    with pytest.raises(ModelFileError, match="by a newer Peirce"):
        Session(path)
    file.write_text("{")
    with pytest.raises(ModelFileError, match=r"model\.engine\.json is damaged"):
        Session(path)
