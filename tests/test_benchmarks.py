"""Benchmarks that run at small sizes do run: what they measure changes beneath them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shared_folder import ROOT

from peirce_export.tensorrt import backends

BENCHMARKS = ROOT / "benchmarks"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "sizes", "rows"),
    [
        ("layer", "--repeats 1 --batch 2 --length 40", {"unfused", "fused", "fused, whole"}),
        # atoms large enough to go by blocks
        (
            "growth",
            "--longest 128 --training-length 128 --repeats 1",
            {"trans", "bool", "training step"},
        ),
        (
            "relations",
            "--repeats 1 --nodes 8",
            {"trans", "edge_attention", "triangle_attention", "relation_attention"},
        ),
        (
            "models",
            "--repeats 1 --batch 1 --length 100 --layers 1",
            {"folnet-base", "folnet-base, plain"},
        ),
        (
            "positions",
            "--repeats 1 --batch 4 --length 8",
            {"BERT, transformers", "absolute", "shaw", "logirpe"},
        ),
        ("bfloat16", "--repeats 1 --batch 1 --length 16", {"folnet-base", "BERT base", "autocast"}),
    ],
)
def test_a_benchmark_runs(name: str, sizes: str, rows: set[str], tmp_path: Path) -> None:
    own = tmp_path / "benchmarks"
    own.mkdir()
    for path in BENCHMARKS.glob("*.py"):
        shutil.copy(path, own)
    command = [sys.executable, str(own / f"{name}.py"), *sizes.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads((own / "results" / f"{name}.json").read_text())
    assert report["command"] == f"python benchmarks/{name}.py {sizes}"
    measured = {value for row in report["rows"] for value in row.values() if isinstance(value, str)}
    assert rows <= measured
    for row in report["rows"]:
        assert [name for name, value in row.items() if isinstance(value, float) and not value > 0] == []


def test_what_became_slower_by_more_than_the_spread_is_marked(tmp_path: Path) -> None:
    shutil.copytree(BENCHMARKS, tmp_path / "benchmarks", ignore=shutil.ignore_patterns("results"))
    machine = {"processor": "a", "threads": 1, "torch": "2"}

    def keep(folder: Path, **ratios: tuple[float, float, float]) -> None:
        folder.mkdir()
        columns = ("ratio", "ratio, lowest", "ratio, highest")
        rows = [{"what": what, **dict(zip(columns, own, strict=True))} for what, own in ratios.items()]
        (folder / "own.json").write_text(json.dumps({"machine": machine, "rows": rows}))

    keep(tmp_path / "before", **dict.fromkeys(("slower", "same", "faster"), (1.0, 0.9, 1.1)))
    keep(
        tmp_path / "benchmarks" / "results",
        slower=(1.3, 1.2, 1.4),
        same=(1.2, 1.0, 1.5),
        faster=(0.5, 0.4, 0.6),
    )
    command = [sys.executable, "benchmarks", "--kept", "--compare", "before"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["own: slower: slower: ratio 1 (to 1.1) became 1.3"]
    assert (done.returncode, done.stderr.strip()) == (1, "1 ratios are slower")


@pytest.mark.thorough
def test_the_hour_on_a_gpu_is_rehearsed_without_one() -> None:
    results = set((BENCHMARKS / "results").iterdir())
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--dry-run", "--models", "bert-base"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set((BENCHMARKS / "results").iterdir()) == results
    page = done.stdout.partition("speed.md: columns gpu.json Card")[2].partition("speed.md:")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if "bert-base" in line
    ]
    errors = {(row[2], row[3]): float(row[9]) for row in rows}
    ways = {"eager", "torch.compile", "ONNX Runtime"}
    if backends.is_installed("rtx"):
        ways |= {"TensorRT for RTX", "TensorRT for RTX, CUDA graphs"}
        held = done.stdout.partition("exports.md: columns gpu-engines.json")[2].partition("speed.md:")[0]
        assert [line.split("|")[-2].strip() for line in held.splitlines() if "bert-base" in line] == ["-"] * 3
    assert {way for precision, way in errors if precision == "float32"} == ways
    assert max(error for (precision, _), error in errors.items() if precision == "float32") < 1e-4
    assert "the TensorRT backend 'tensorrt' is not installed" in done.stdout
