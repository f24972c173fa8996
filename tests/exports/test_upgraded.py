"""An upgraded model, of which what was trained alone was saved, is exported, quantised, served, looked at and asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import exit_code

import peirce
from peirce.model import Model
from peirce.registry import default_registry
from peirce.spec import InputSpec, PartSpec, ScopeSpec
from peirce_basics.upgrades import Upgrade


def upgraded(folder: Path, **changes: object) -> Model:
    """A model that has gained every kind of part and learnt something, saved without its base."""
    spec = peirce.Spec(
        name="base", architecture="transformer", dims={"layers": 2, "unary": 16, "heads": 2},
        input=InputSpec(vocabulary=40, max_length=32), **changes,
    )  # fmt: skip
    peirce.build(spec).save(folder / "base")
    old = peirce.load(folder / "base")
    distance = PartSpec(use="distance", options={"clip": 4})
    gains = Upgrade(
        operators="jm.atp", binary=8, positions=[distance], augmenters=["tpr"], from_attention=True
    )
    new = peirce.upgraded(old, gains.spec(old.plan, default_registry()))
    torch.manual_seed(2)
    with torch.no_grad():
        for name, each in new.named_parameters():
            if name in new.gained:
                each.add_(0.2 * torch.randn_like(each))
    new.save(folder / "new", only="trained")
    return new.eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("upgraded")
    upgraded(folder, heads=["mlm"])
    return folder / "new"


@pytest.mark.parametrize(
    ("to", "precision"),
    [
        ("onnx", "int8"),
        *(pytest.param(to, None, marks=pytest.mark.thorough) for to in ("torch_export", "triton")),
    ],
)
def test_it_is_exported_and_verified(folder: Path, to: str, precision: str | None, tmp_path: Path) -> None:
    suffix = {"onnx": ".onnx", "torch_export": ".pt2", "triton": ""}[to]
    options = ["--precision", precision] if precision else []
    assert exit_code("export", folder, "--to", to, "-o", tmp_path / f"model{suffix}", *options) == 0


def test_it_is_looked_at(folder: Path, tmp_path: Path) -> None:
    assert exit_code("look", folder, "5 17 3", "-o", tmp_path / "look.html") == 0
    page = (tmp_path / "look.html").read_text()
    assert "mu.kernel" in page


def test_its_exported_file_writes_what_it_writes(tmp_path: Path) -> None:
    causal = ScopeSpec(kind="causal")
    new = upgraded(tmp_path, scope=causal, positions=["rope"], heads=["causal_lm"], options={"norm": "pre"})
    prompts = np.array([[3, 4, 5]])
    (wanted,) = new.generate({"input_ids": torch.from_numpy(prompts)}, max_new=5)
    peirce.export(tmp_path / "new", path=tmp_path / "model.onnx", generate=True)
    with peirce.Session(tmp_path / "model.onnx") as session:
        (found,) = session.generate({"input_ids": prompts}, max_new=5)
    assert [*found.tokens] == [*wanted.tokens]
