"""Predictions for a folder of Parquet files: what is kept of each, what a killed run leaves, what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from code_blocks import run_page
from command_line import exit_code as run
from served_models import CLASSES, CLASSIFIER, TEXTS, text_model

from peirce.registry import Registry
from peirce_text.reading import read_rows


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Path:
    return text_model(CLASSIFIER, tmp_path_factory.mktemp("weather") / "model", registry)


def write(path: Path, count: int = 40, **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "id": pyarrow.array(range(count), "int32"),
        "text": pyarrow.array([None if i == 3 else f"{TEXTS[i % 9]} {i}" for i in range(count)], "string"),
        "label": [CLASSES[i % 3] for i in range(count)],
        **more,
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b", "year=2024/c", "_metadata"):
        write(tmp_path / "in" / f"{name}.parquet")
    write(tmp_path / "in" / "empty.parquet", 0, label=pyarrow.array([], "string"))
    return tmp_path / "in"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


def predicted(
    capsys: pytest.CaptureFixture[str], *words: object, code: int = 0
) -> tuple[dict[str, Any], str]:
    assert run("predict", *words, "--json") == code
    said = capsys.readouterr()
    return json.loads(said.out), said.err


def test_each_file_has_its_predictions_and_is_left_alone_when_it_has(
    weather: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    (folder / "bad.parquet").write_text("no table")
    write(folder / "other.parquet", text=pyarrow.array(range(40)), prediction=["calm"] * 40)
    pyarrow.parquet.write_table(pyarrow.table({"said": ["calm"]}), folder / "words.parquet")
    facts, said = predicted(capsys, weather, folder, "-o", out, code=1)
    assert set(facts["failed"]) == {"bad.parquet", "other.parquet", "words.parquet"}
    assert "not predicted: bad.parquet:" in said
    assert "cannot be read as Parquet" in facts["failed"]["bad.parquet"]
    assert "unknown column 'text'" in facts["failed"]["words.parquet"]
    assert "has a column 'prediction' already" in facts["failed"]["other.parquet"]
    assert (facts["files"], facts["kept"], facts["rows"], facts["without_text"]) == (4, 0, 120, 3)
    measured = facts["metrics"]

    table = pyarrow.parquet.read_table(out / "a.parquet")
    assert table.column_names == ["id", "text", "label", "prediction", "probability"]
    assert table.schema.field("id").type == pyarrow.int32()
    assert table["prediction"].null_count == 1
    assert len(pyarrow.parquet.read_table(out / "empty.parquet")) == 0
    assert run("predict", weather, folder / "a.parquet", "-o", tmp_path / "a.jsonl") == 0
    alone = [row.values["prediction"] for row in read_rows(tmp_path / "a.jsonl")]
    assert table["prediction"].to_pylist() == alone
    capsys.readouterr()

    for name in ("bad", "other", "words"):
        (folder / f"{name}.parquet").unlink()
    facts, _ = predicted(capsys, weather, folder, "-o", out)
    assert (facts["kept"], facts["metrics"]) == (4, measured)
    before = contents(out)
    write(folder / "b.parquet", 12)  # another file since
    facts, _ = predicted(capsys, weather, folder, "-o", out)
    assert (facts["files"], facts["kept"], facts["rows"], facts["failed"]) == (4, 3, 92, {})
    after = contents(out)
    assert {name for name in after if after[name] != before.get(name)} == {"b.parquet"}

    assert run("predict", weather, folder, "-o", out, "--batch-size", "4") == 2
    assert "has predictions of another batch_size" in capsys.readouterr().err
    facts, _ = predicted(capsys, weather, folder, "-o", out, "--batch-size", "4", "--overwrite")
    assert facts["kept"] == 0
    assert predicted(capsys, weather, folder, "-o", out, "--batch-size", "4", "--overwrite")[0]["kept"] == 4


def test_a_killed_run_goes_on_to_the_same_files(
    weather: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(6):
        write(tmp_path / "in" / f"{number}.parquet", 400)
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert run("predict", weather, tmp_path / "in", "-o", whole) == 0
    words = ("predict", weather, tmp_path / "in", "-o", out)
    process = subprocess.Popen(
        [sys.executable, "-m", "peirce", *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not (out / "0.parquet").exists():
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    there = {name: content for name, content in contents(out).items() if not name.startswith(".")}
    assert 0 < len(there) < 6
    assert there.items() <= contents(whole).items()
    capsys.readouterr()
    facts, _ = predicted(capsys, *words[1:])
    assert facts["kept"] == len(there)
    assert contents(out) == contents(whole)  # and nothing else, such as a part


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("ray") is None, reason="the extra `ray` is not installed")
def test_two_workers_of_ray_give_the_same_bytes(weather: Path, folder: Path, tmp_path: Path) -> None:
    assert run("predict", weather, folder, "-o", tmp_path / "one") == 0
    words = ("predict", weather, folder, "-o", tmp_path / "two", "--workers", "2")
    quiet = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    command, environment = [sys.executable, "-m", "peirce", *map(str, words)], {**os.environ, **quiet}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_what_cannot_be_is_refused_before_anything_is_written(
    weather: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "file").touch()
    write(tmp_path / "foreign" / "a.parquet")
    for words, said in (
        ((tmp_path / "none", "-o", tmp_path / "out"), "has no .parquet files"),
        ((folder, "-o", folder / "out"), "would lie among the files of"),
        ((folder, "-o", tmp_path / "file"), "is a file, where the folder of predictions would go"),
        ((folder, "-o", tmp_path / "foreign"), "was not written by `peirce predict`"),
        ((folder, "-o", tmp_path / "out", "--text", "said"), "unknown column 'said'"),
        ((folder / "a.parquet", "-o", tmp_path / "a.csv", "--workers", "2"), "share the files of a folder"),
    ):
        assert run("predict", weather, *words) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough
def test_the_blocks_of_the_page_run(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "large-tables.md"
    assert run_page(page, tmp_path) == 3
