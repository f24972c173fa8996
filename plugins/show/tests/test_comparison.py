"""Models side by side: sizes as `peirce summary` counts them, and curves and metrics of trained ones."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import small_specs
from command_line import exit_code as run
from small_specs import FOLNET
from toy_tasks import TRANSFORMER, Marked, MarkedOptions

import peirce
from peirce.compose import summarise
from peirce.registry import Registry
from peirce_show.comparison import compare_models, comparison_page, comparison_picture, rows
from peirce_training import TrainingOptions, train


@pytest.fixture
def trained(toy_registry: Registry, tmp_path: Path) -> Path:
    options = TrainingOptions(steps=4, log_every=1, device="cpu")
    task = Marked(MarkedOptions(examples=16, batch=4))
    train(TRANSFORMER, task, options, tmp_path / "trained", seed=3)
    return tmp_path / "trained"


def test_a_trained_model_beside_a_spec(trained: Path, toy_registry: Registry, tmp_path: Path) -> None:
    spec = tmp_path / "toy.toml"
    spec.write_text(FOLNET.to_toml())
    found = compare_models([str(trained), str(spec)], toy_registry, length=6)
    one, other = found
    assert one.summary["parameters"] == summarise(peirce.load(trained, registry=toy_registry).spec, length=6,
                                                  registry=toy_registry).parameters  # fmt: skip
    record = json.loads((trained / "training.json").read_text())
    curve = one.curves["train/loss"]
    assert [step for step, _ in curve] == [1, 2, 3, 4]
    assert curve[-1][1] == pytest.approx(record["losses"]["last"], rel=1e-5)
    assert one.metrics["test accuracy"] == record["metrics"]["test"]["accuracy"]
    assert not other.curves
    table = {row[0]: row[1:] for row in rows(found)}
    assert table["steps"] == ["4", ""]
    assert table["parameters"][1] == f"{other.summary['parameters']:,}"
    added = other.summary["groups"]["position distance"]
    assert table["parameters of position distance"] == ["", f"{added:,}"]
    picture = comparison_picture(found)
    root = ElementTree.fromstring(picture)
    assert len(root.findall(".//{*}polyline")) == 1
    assert "training loss" in picture
    assert "small-folnet" in comparison_page(found)


def test_the_command_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "both.svg"
    specs = []
    for spec in (FOLNET, small_specs.TRANSFORMER):
        specs.append(tmp_path / f"{spec.name}.toml")
        specs[-1].write_text(spec.to_toml())
    assert run("compare", *specs, "--length", "6", "-o", out, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "peirce.compare/1"
    assert [each["name"] for each in told["models"]] == ["small-folnet", "small-transformer"]
    ElementTree.parse(out)
    assert run("compare", *specs, "--length", "6") == 0
    assert "bytes of parameters" in capsys.readouterr().out
    assert run("compare", specs[0]) == 2
    assert "give two models or more" in capsys.readouterr().err
