"""Scores that are ranked inside the graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small_specs import TRANSFORMER

import peirce
from peirce.compose import build
from peirce.errors import PeirceError
from peirce.model import Model
from peirce.registry import Registry

ENTITIES = {
    "model.heads": [
        {"use": "entities", "first": 3, "count": 20, "free": 2, "pool": "sum"},
        {"use": "mlm"},
        {"use": "pair", "as": "nsp"},
    ],
    "model.regularisation.init_std": 0.5,
    "model.dims.layers": 1,
}


@pytest.fixture(scope="module")
def ranking(registry: Registry) -> Model:
    return build(TRANSFORMER.replace(ENTITIES), registry=registry).eval()


def test_the_file_gives_the_best_scores_and_what_they_are_of(ranking: Model, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    report = peirce.export(ranking, path=path, to="onnx", top_k=4)
    shapes = {line.output: line.shape for line in report.lines}
    assert shapes["entities_top_scores"] == shapes["entities_top_ids"] == ("batch", 4)
    assert "entities_logits" not in shapes
    assert {"mlm_logits", "nsp_logits"} <= set(
        shapes
    )  # scores of tokens, and of fewer things, are not ranked
    assert peirce.verify(path, ranking).passed
    with peirce.Session(path) as session:
        ids = np.random.default_rng(0).integers(0, 25, (6, 9))
        ids[:, 3] = 2
        mask = np.ones((6, 9), bool)
        mask[5] = False  # nothing to pool: every score is the same, and the first entities come first
        found = session.run({"input_ids": ids, "attention_mask": mask})
    scores = ranking(
        **{name: torch.from_numpy(a) for name, a in (("input_ids", ids), ("attention_mask", mask))}
    )
    logits = scores["entities_logits"].detach().numpy()
    order = np.argsort(-logits, axis=1, kind="stable")[:, :4]
    assert (found["entities_top_ids"] == order).all()
    assert np.allclose(found["entities_top_scores"], np.take_along_axis(logits, order, 1), atol=1e-5)
    assert found["entities_top_ids"].dtype == np.int64


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"top_k": 21}, r"no scores \[batch, n\] of 21 things or more to rank; its outputs are"),
        ({"top_k": -1}, "'top_k' must be >= 0: -1"),
        ({"top_k": 3, "precision": "float16"}, "ranks in float32"),
        ({"top_k": 3, "generate": True}, "exclude each other"),
    ],
)
def test_what_cannot_be_ranked(
    options: dict[str, object], words: str, ranking: Model, tmp_path: Path
) -> None:
    with pytest.raises(PeirceError, match=words):
        peirce.export(ranking, path=tmp_path / "model.onnx", to="onnx", **options)
    assert not list(tmp_path.iterdir())
