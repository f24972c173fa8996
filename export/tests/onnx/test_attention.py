"""Weights of attention as outputs of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small_specs import FOLNET, RECURRENT

import peirce
from peirce.algebra import BetweenTokens, between_tokens
from peirce.compose import build
from peirce.errors import ExportError
from peirce.registry import Registry

SMALL = {
    "model.dims.layers": 2,
    "model.operators": {"layer": "jm.t"},
    "model.heads": [{"use": "mlm"}],
    "model.regularisation.init_std": 0.5,
}


def test_the_file_gives_what_rows_attend_to(registry: Registry, tmp_path: Path) -> None:
    model, path = build(FOLNET.replace(SMALL), registry=registry).eval(), tmp_path / "model.onnx"
    assert peirce.export(model, path=path, attention=True).passed
    ids, observed = np.random.default_rng(0).integers(0, 25, (1, 6)), list[BetweenTokens]()
    with torch.no_grad(), between_tokens(model, observed.append):
        model(input_ids=torch.from_numpy(ids))
    weights = [each.values.numpy() for each in observed if (each.operator, each.name) == ("join", "weights")]
    with peirce.Session(path) as session:
        found = session.run({"input_ids": ids})
        assert session.signature.output("attention_2_join_weights").dims[:3] == ("batch", "length", "length")
    for layer in (1, 2):
        given = found[f"attention_{layer}_join_weights"]
        np.testing.assert_allclose(given, weights[layer - 1], atol=1e-5)
        np.testing.assert_allclose(given.sum(2), 1, atol=1e-5)
    shares = {f"{each.operator}_{each.name}" for each in observed if each.share}
    assert {name.split("_", 2)[2] for name in found if name.startswith("attention_")} == shares
    assert peirce.verify(path, model).passed


def test_what_gives_none(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="has no weights of attention to give"):
        peirce.export(build(RECURRENT, registry=registry), path=tmp_path / "model.onnx", attention=True)
