"""Each node of an exported file says where in the model it belongs, by its name and by its metadata."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import small_specs

import peirce
from peirce.parts import PART
from peirce.registry import Registry
from peirce_export.metadata import SCOPE
from peirce_export.onnx.exporter import scope_of


@pytest.mark.parametrize(
    ("module", "part", "scope"),
    [
        ("model.network.layers.0.mixing", "operators.join", "layers.0/operators.join"),
        ("model.network.encoder.layers.11.mixing", "operators.mu", "encoder/layers.11/operators.mu"),
        ("model.network.layers.3.operators.6.bool.unary", "", "layers.3/operators.bool/unary"),
        ("model.network.input.positions.0.table", "positions.distance", "positions.distance"),
        ("model.heads.mlm.dense", "", "heads.mlm/dense"),
        ("model.network", "", ""),
        ("_empty_nn_module_stack", "", ""),
    ],
)
def test_scopes_are_modules_and_parts(module: str, part: str, scope: str) -> None:
    assert scope_of(module, part) == scope


def test_nodes_of_a_file_are_grouped_by_part(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    spec = small_specs.FOLNET.replace({"model.dims.layers": 1})
    report = peirce.export(peirce.build(spec, registry=registry), path=path, optimize=True)
    assert report.passed
    nodes = onnx.load(path).graph.node
    assert len({node.name for node in nodes}) == len(nodes)
    noted = [({each.key: each.value for each in node.metadata_props}, node.name) for node in nodes]
    scopes = {metadata[SCOPE] for metadata, _ in noted if SCOPE in metadata}
    letters = ("join", "mu", "cjoin", "assoc", "trans", "prod", "bool")
    assert {f"layers.0/operators.{name}" for name in letters} <= scopes
    assert {"positions.distance", "heads.mlm", "heads.nsp", "layers.0/mixing"} <= scopes
    for metadata, name in noted:
        assert name.rpartition("/")[0] == metadata.get(SCOPE, "")
        assert metadata.get(SCOPE, "").endswith(metadata.get(PART, ""))
