"""`peirce bench` on a composed model that is saved and exported: what it measures, not how fast that is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from command_line import exit_code as run
from small_specs import TRANSFORMER

from peirce import build

SMALL = TRANSFORMER.replace({"model.dims.layers": 1, "model.input.vocabulary": 20})


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench") / "model"
    build(SMALL, seed=3).save(folder)
    assert run("export", folder, "-o", folder / "model.onnx") == 0
    return folder / "model.onnx"


def test_every_size_and_way_is_timed(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = torch.get_num_threads()
    sizes = ("--batch", "1,3", "--length=2,4", "--threads", 1, "--repeats", 3)
    assert run("bench", file, *sizes, "--plot", tmp_path / "times.svg", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["providers"]) == ("peirce.bench/1", ["CPUExecutionProvider"])
    assert str(file.parent) in report["model"]
    found = [(row["sizes"]["batch"], row["sizes"]["length"], row["way"]) for row in report["rows"]]
    ways = ("CPUExecutionProvider", "torch")
    assert found == [(batch, length, way) for batch in (1, 3) for length in (2, 4) for way in ways]
    for row in report["rows"]:
        assert (row["runs"], row["threads"], row["rows"]) == (3, 1, row["sizes"]["batch"])
        assert 0 < row["least"] <= row["p50"] <= row["p90"] <= row["p99"]
        assert row["per_second"] == pytest.approx(row["rows"] / row["mean"])
    assert "<svg" in (tmp_path / "times.svg").read_text()
    assert torch.get_num_threads() == before


def test_without_a_model_it_times_the_file_alone(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = tmp_path / "model.onnx"
    moved.write_bytes(file.read_bytes())
    assert run("bench", moved, "--repeats", 1) == 0
    printed = capsys.readouterr().out
    assert "rows/s" in printed
    assert "torch" not in printed
    assert run("bench", moved, "--repeats", 1, "--model", file.parent) == 0
    assert "p50 / torch" in capsys.readouterr().out


def test_several_files_are_timed_in_one_run(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = file.with_name("other.onnx")
    other.write_bytes(file.read_bytes())
    assert run("bench", file, other, "--repeats", 1, "--alone", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["files"] == [str(file), str(other)]
    assert [row["way"] for row in report["rows"]] == ["model.onnx", "other.onnx"]
    assert run("bench", file, file) == 2
    assert "a file is given twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--lenght", "4"), "option or symbolic dim '--lenght' of .* Did you mean '--length'"),
        (("--lenght", "4x"), "option or symbolic dim '--lenght' of .* Did you mean '--length'"),
        (("--jason",), "unknown option '--jason'. Did you mean '--json'"),
        (("--provders", "X"), "unknown option '--provders'. Did you mean '--provider'"),
        (("--length", "many"), "If it is a dim of FILE, give sizes: --length 1,8"),
        (("--length", "0"), "--length is '0'; give whole numbers from 1"),
        (("--length", "33"), "the length of the inputs is 33, and the model reads at most 32"),
        (("--threads", "many"), "--threads is 'many'"),
        (("--plot", "times.txt"), "times.txt is not the name of a picture"),
        (("--alone", "--model", "x"), "--alone times no model"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    file: Path, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("bench", *options, file) in (1, 2)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.search(message, " ".join(printed.err.split()))


def test_a_file_of_another_model_is_refused(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.toml"
    other.write_text(SMALL.replace({"model.input.token_types": 0}).to_toml())
    assert run("bench", file, "--repeats", 1, "--model", other) in (1, 2)
    assert "give its own model with --model" in " ".join(capsys.readouterr().err.split())
