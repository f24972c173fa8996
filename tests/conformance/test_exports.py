"""Models that hold many parts each are exported and verified; a thorough run exports the parts one by one."""

from __future__ import annotations

from pathlib import Path

import attrs
import many_readings
import pytest
import torch
from thorough import EXPORTED_ALONE

from peirce.compose import resolve
from peirce.errors import PeirceError
from peirce.parts import StateOperator
from peirce.registry import Registered, Registry
from peirce.spec import OperatorSpec, OperatorsSpec, Spec
from peirce_export import export
from peirce_testing.options import as_table, example_options
from peirce_testing.stub_parts import Host, with_stub_parts
from peirce_testing.tiny_models import build_random, tiny_spec, with_part

MODELS = {"operators": ("operators",), "positions": ("positions",), "others": ("augmenters", "heads")}
CAUSAL = ("cope", "causal_lm")
"""What only a scope without the future can have."""


@pytest.fixture(scope="module")
def known(registry: Registry) -> Registry:
    return with_stub_parts(registry.completed(many_readings))


def with_one_more(spec: Spec, entry: Registered, registry: Registry) -> Spec:
    """The spec with one more part, which it can have; operators follow those that it has in the layer."""
    options = example_options(entry.part)
    if entry.kind == "operators":
        table = as_table(options)
        one = OperatorSpec(use=entry.name, activation=table.pop("activation", "none"), options=table)
        before = spec.operators.layer if isinstance(spec.operators.layer, tuple) else ()
        spec = attrs.evolve(spec, operators=OperatorsSpec(layer=(*before, one)))
    else:
        spec = with_part(spec, entry, options, registry)
    resolve(spec, registry)
    return spec


@pytest.mark.parametrize("name", [*MODELS, "causal"])
def test_a_model_with_all_parts_of_its_kind_is_exported(name: str, known: Registry, tmp_path: Path) -> None:
    entries = [each for kind in MODELS.get(name, ("positions", "heads")) for each in known.entries(kind)]
    chosen = [each for each in entries if (each.name in CAUSAL) is (name == "causal")]
    scope, left = "causal" if name == "causal" else "bidirectional", set()
    spec = tiny_spec(Host, Host.Options(), layers=1, scope=scope)
    for entry in sorted(chosen, key=lambda each: issubclass(each.part, StateOperator)):
        if "onnx" in getattr(entry.part, "expected_failures", ()):
            continue
        try:
            spec = with_one_more(spec, entry, known)
        except PeirceError:
            left.add(f"{entry.kind}.{entry.name}")
    assert left == (set(EXPORTED_ALONE) if name == "operators" else set())
    model = build_random(spec, known, dtype=torch.float32)
    report = export(model, path=tmp_path / "model.onnx", to="onnx", registry=known)
    assert report.passed
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
