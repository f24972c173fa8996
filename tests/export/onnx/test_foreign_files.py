"""Files that Peirce did not write, or that were changed since: each is refused in one line, or runs.

`PEIRCE_FOREIGN_SEEDS` and `PEIRCE_FOREIGN_CASES` ask for more of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import foreign_files
import onnx
import pytest
from command_line import exit_code
from foreign_files import endless, properties, served
from onnx import TensorProto, helper
from peirce import Session
from peirce.errors import ModelFileError
from peirce_export.alone import check_alone
from peirce_export.onnx.frame import read_frame

SEEDS = int(os.environ.get("PEIRCE_FOREIGN_SEEDS", "1"))
CASES = int(os.environ.get("PEIRCE_FOREIGN_CASES", "120"))
_MOST_BROKEN = 0.02
"""The share of cases that may end the process: what ONNX Runtime itself breaks on."""


def _results(seed: int, whole: Path, folder: Path) -> Iterator[list[Any]]:
    """What became of each case; a process that ended in the middle of one goes on after it."""
    first, results = 0, folder / "results.jsonl"
    while first < CASES:
        arguments = [str(seed), str(first), str(CASES), str(whole), str(folder)]
        done = subprocess.run(
            [sys.executable, "-P", foreign_files.__file__, *arguments],
            capture_output=True,
            text=True,
            timeout=1800,
        )
        assert done.returncode <= 0, done.stderr
        assert not done.stdout
        found = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
        results.unlink()
        yield from (each for each in found if each[2])
        if done.returncode:
            yield [*found[-1][:2], f"ended with {done.returncode}"]
        first = found[-1][0] + 1


@pytest.mark.parametrize("seed", range(SEEDS))
def test_foreign_and_changed_files_are_refused_in_one_line(
    seed: int, hand_file: Path, tmp_path: Path
) -> None:
    results = list(_results(seed, hand_file, tmp_path))
    assert [number for number, _, _ in results] == list(range(CASES))
    for _, name, found in results:
        assert "Traceback" not in found, f"{name}: {found}"
        assert "\n" not in found, name
        assert len(found) < 2100, name
    broken = [each for each in results if each[2].startswith("ended")]
    assert len(broken) <= _MOST_BROKEN * CASES, broken
    sorts = {name.split()[0] for _, name, found in results if found != "ran"}
    assert sorts == {change.__name__ for change in foreign_files.CHANGES}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (helper.make_tensor_type_proto(TensorProto.STRING, ["batch"]), "tensor(string)"),
        (helper.make_tensor_type_proto(TensorProto.UINT8, ["batch"]), "tensor(uint8)"),
        (helper.make_tensor_type_proto(TensorProto.FLOAT8E4M3FN, ["batch"]), "tensor(float8e4m3fn)"),
        (helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, ["batch"])), "seq"),
        (helper.make_optional_type_proto(helper.make_tensor_type_proto(1, ["batch"])), "optional"),
        (helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, [])), "map"),
    ],
)
def test_a_session_names_what_it_does_not_serve(kind: onnx.TypeProto, said: str, tmp_path: Path) -> None:
    path = tmp_path / "foreign.onnx"
    real = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch"])
    for types, name in (((kind, real), "input 'x'"), ((real, kind), "output 'y'")):
        path.write_bytes(served(types, properties()).SerializeToString())
        with pytest.raises(ModelFileError) as refused:
            Session(path)
        assert str(refused.value).startswith(
            f"{path}: {name} is {said}, which a session does not serve; it serves"
        )


def test_a_file_that_does_what_it_says_passes_alone(tmp_path: Path) -> None:
    path = tmp_path / "foreign.onnx"
    real = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch"])
    path.write_bytes(served((real, real), properties()).SerializeToString())
    assert check_alone(path).passed
    fixed = helper.make_tensor_type_proto(TensorProto.DOUBLE, ["batch"])
    path.write_bytes(served((fixed, fixed), properties()).SerializeToString())
    with pytest.raises(
        ModelFileError, match=r"input 'x' is tensor\(double\) of 1 dims, and the signature says"
    ):
        check_alone(path)


def test_a_file_of_fields_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "many.onnx"
    path.write_bytes(b"xx" * 2_000_001)
    with pytest.raises(ModelFileError, match="it has more than 2,000,000 fields"):
        read_frame(path)


def test_weights_elsewhere_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "foreign.onnx"
    real = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch"])
    model = served((real, real), properties())
    weights = model.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    entry = weights.external_data.add(key="location")
    for place in ("../outside", "/dev/zero", "none.data", "pipe"):
        entry.value = place
        path.write_bytes(model.SerializeToString())
        if place == "pipe":
            os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ModelFileError, match="keeps weights in"):
            Session(path)


def test_an_endless_loop_is_ended_by_its_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "endless.onnx"
    path.write_bytes(endless(properties()).SerializeToString())
    assert exit_code("verify", path, "--alone", "--limit", "2s,2GB") == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path} was not done within the limit of 2 s and 2 GB")
    assert said.count("\n") == 1


@pytest.mark.parametrize("limit", ["", "60", "60s,5s", "0s", "1x", "4GB,2GB", "s", "-1s"])
def test_a_limit_that_is_none_is_named(
    limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("verify", tmp_path / "none.onnx", "--limit", limit) == 2
    assert capsys.readouterr().err.startswith(f"error: limit {limit!r}: ")
