"""Benchmarks that run at small sizes do run: what they measure changes beneath them."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from shared_folder import ROOT
from small_texts import RECIPE, blocks, documents

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


def rehearse(rows: Path, *options: str) -> list[dict[str, Any]]:
    """The rows of a rehearsal of the minutes on a card, after those that are there."""
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--dry-run", "--seconds", "900"]
    command += ["--rows", str(rows), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stdout
    return [json.loads(line) for line in rows.read_text().splitlines() if line.endswith("}")]


def test_minutes_on_a_card_go_on_from_the_rows_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "gpu.jsonl"
    kept = {
        "step": "times",
        "model": "bert-base",
        "way": "eager",
        "precision": "float32",
        "batch": 2,
        "length": 8,
    }
    rows.write_text(json.dumps(kept) + '\n{"step": "times", "mod')  # and a process died within a row
    steps = ("facts", "parity", "times", "engines")
    found = rehearse(rows, "--steps", *steps, "--models", "bert-base", "--specs", "bert-base")
    assert found[0] == kept
    assert [sum(row["step"] == step for row in found) for step in steps[:3]] == [5, 1, 6]
    assert [row["capability"] for row in found if row.get("what") == "CUDA runtime"] == ["8.9"]
    assert not [row for row in found if row.get("note")]
    (errors,) = [row for row in found if row["step"] == "parity"]
    assert max(errors["float32"], errors["gradients"]) < 1e-5 < errors["bfloat16"] < 0.05
    assert all(row["floor GB"] > 0 and row["ms"] > 0 for row in found[1:] if row["step"] == "times")
    rows.write_text(rows.read_text().split("\n", 2)[2])  # without what no run has written
    monkeypatch.syspath_prepend(BENCHMARKS)
    tables = importlib.import_module("tables")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    pages = [(ROOT / page).read_text() for page in ("docs/results/speed.md", "export/docs/exports.md")]
    hows = [
        each["how"] for page in pages for each in tables.TABLE.finditer(page) if "gpu.jsonl" in each["how"]
    ]
    lines = [len(tables.made(how).splitlines()) - 2 for how in hows]
    assert sorted(lines, reverse=True)[:3] == [5, 1, 0]  # times, parity, and what this did not measure


@pytest.mark.thorough
def test_minutes_on_a_card_are_rehearsed_without_one(tmp_path: Path) -> None:
    steps = ("parts", "kernels", "training", "generation", "compile", "ONNX Runtime", "engines")
    models = ("--models", "bert-base", "folnet-base", "BERT, transformers")
    found = rehearse(tmp_path / "gpu.jsonl", "--steps", *steps, *models)
    notes = [row["note"] for row in found if row["note"]]
    assert not [note for note in notes if "bfloat16" not in note]  # which ONNX Runtime lacks on the CPU
    assert {row["step"] for row in found} >= {*steps} - {"kernels", "compile", "engines"}


@pytest.mark.thorough
def test_two_pieces_of_a_run_give_the_weights_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    campaign = importlib.import_module("campaign")
    made = documents(60)
    (tmp_path / "text.txt").write_text(blocks(made))
    (tmp_path / "tiny.toml").write_text(RECIPE)
    how = "--set train.steps=60 --set train.save_every=2 --set train.threads=1"
    run = campaign.Run(
        f"pretrain {tmp_path}/tiny.toml --data {{data}}/text.txt -o {{out}} {how}", ("text.txt",)
    )
    monkeypatch.setattr(campaign, "RUNS", {"cut": run})
    out, rows = tmp_path / "runs", tmp_path / "campaign.jsonl"
    begun = (out / "cut" / "checkpoints").glob
    monkeypatch.setattr(campaign, "is_over", lambda ends: any(begun("step-*/manifest.json")))

    def go_on(what: str = "next") -> None:
        arguments = ["campaign", what, "--data", str(tmp_path), "--out", str(out), "--rows", str(rows)]
        monkeypatch.setattr(sys, "argv", arguments)
        campaign.main()

    go_on()
    assert not rows.exists()
    assert campaign.state(out, "cut")["pieces"] == 1
    monkeypatch.setattr(campaign, "is_over", lambda ends: False)
    go_on()
    (row,) = map(json.loads, rows.read_text().splitlines())
    assert (row["run"], row["pieces"], row["done"]) == ("cut", 2, True)
    go_on()  # nothing is left
    assert len(rows.read_text().splitlines()) == 1
    (whole,) = run.commands(tmp_path, tmp_path / "whole")
    assert campaign.piece(whole, lambda: False)
    weights = [load_file(folder / "weights.safetensors") for folder in (out / "cut", tmp_path / "whole")]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(each, weights[1][name]) for name, each in weights[0].items())


def test_the_data_of_the_campaign_fit_and_each_run_finds_its_own(tmp_path: Path, shared: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "campaign.py")]
    where = ["--data", str(shared / "data"), "--out", str(tmp_path / "runs")]
    packed = tmp_path / "campaign.tar"
    subprocess.run([*command, "pack", str(packed), *where], check=True, capture_output=True)
    assert 1e6 < packed.stat().st_size < 40e6
    (tmp_path / "data").mkdir()
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "data", filter="data")
    where[1] = str(tmp_path / "data")
    done = subprocess.run([*command, "list", *where], check=True, capture_output=True, text=True)
    lacking = [line.split()[0] for line in done.stdout.splitlines() if "lacks" in line]
    assert lacking == ["logical-dream", "logical-dialogsum"]  # whose encoders are larger than a pack
