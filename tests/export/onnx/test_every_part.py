"""Every registered part is exported and verified, in the smallest widths; and every ready spec, at its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from peirce.compose import build, resolve
from peirce.registry import Registry, load_spec, ready_specs
from peirce.spec import Spec
from peirce_export.onnx.exporter import OnnxExporter, OnnxOptions
from peirce_export.report import Verification

SMALLEST = {
    "layers": 1,
    "unary": 8,
    "binary": 4,
    "heads": 2,
    "head_size": 4,
    "feedforward": 12,
    "feedforward_unary": 12,
    "feedforward_binary": 6,
}
HEADS = {"first": 4, "count": 9}
INIT_STD = {"lmpnn": 0.3}
"""Where fresh weights of 0.02 would shrink the states, at these widths, to 1e-15, which float16 does not hold."""
KINDS = ("operators", "positions", "augmenters", "heads", "architectures")

FOLNET = """
format = 1
[model]
name = "part"
architecture = "folnet"
[model.dims]
layers = 1
unary = 8
binary = 4
heads = 2
head_size = 4
[model.input]
vocabulary = 20
max_length = 40
"""
TRANSFORMER = """
format = 1
[model]
name = "part"
architecture = "transformer"
[model.dims]
layers = 1
unary = 8
heads = 2
[model.input]
vocabulary = 20
max_length = 40
"""
VARIANTS = {
    "causal": FOLNET
    + """
[model.scope]
kind = "causal"
[model.operators]
layer = "jmc.atp"
[model.operators.options.cjoin]
premise = "paper"
batch_over = "heads"
[[model.positions]]
use = "distance"
clip = 4
[[model.heads]]
use = "causal_lm"
""",
    "decoder": FOLNET.replace("folnet", "folnet_encoder_decoder")
    + """
[model.operators]
layer = "jmc.atp"
[model.operators.options.cjoin]
premise = "paper"
[[model.positions]]
use = "distance"
clip = 4
[[model.heads]]
use = "causal_lm"
as = "lm"
""",
    "prefix": FOLNET
    + """
[model.options]
wiring = "parallel"
affine_norm = true
diag_link = true
[model.scope]
kind = "prefix"
[model.operators]
layer = "jmc.atp"
[model.operators.options.cjoin]
premise = "paper"
[model.operators.options.bool]
mlp = "reglu"
[[model.positions]]
use = "t5"
num_buckets = 8
max_distance = 16
""",
    "relation": TRANSFORMER
    + """
[model.options]
norm = "pre"
[model.scope]
kind = "relation"
[[model.positions]]
use = "t5"
num_buckets = 8
max_distance = 16
[[model.augmenters]]
use = "tpr"
roles = 3
[[model.heads]]
use = "classification"
classes = 3
[[model.heads]]
use = "entities"
pool = "max"
[[model.heads]]
use = "contrastive"
as = "scl"
""",
    "levels": TRANSFORMER
    + """
[[model.positions]]
use = "absolute"
kind = "sinusoidal"
[[model.augmenters]]
use = "logical"
depth = 2
width = 6
[[model.heads]]
use = "entities"
pool = "mean"
""",
    "mapped": TRANSFORMER
    + """
[[model.augmenters]]
use = "kge"
file = ""
width = 6
frozen = false
[[model.positions]]
use = "disentangled"
clip = 4
[[model.heads]]
use = "entities"
""",
    "graph": FOLNET
    + """
[model.operators]
layer = "jmc.atp"
[[model.positions]]
use = "atoms"
distances = true
[[model.positions]]
use = "adjacency"
outside = "both"
[[model.positions]]
use = "directed_distance"
share_layers = true
[[model.heads]]
use = "entities"
""",
    "forward": """
format = 1
[model]
name = "part"
architecture = "recurrent"
[model.dims]
layers = 2
unary = 8
[model.options]
directions = "forward"
[model.input]
vocabulary = 20
max_length = 40
""",
    "unmasked": FOLNET
    + """
[model.scope]
mask_padding = false
[model.operators]
layer = "jm.at"
[[model.positions]]
use = "logirpe"
kinds = 3
max_distance = 4
[[model.heads]]
use = "token_classification"
[[model.heads]]
use = "relation"
classes = 3
[[model.heads]]
use = "swap"
[[model.heads]]
use = "span"
[[model.heads]]
use = "multiple_choice"
""",
}


def smallest(spec: Spec) -> Spec:
    """A spec at the smallest widths that it can have; its parts and their options stay."""
    changes: dict[str, Any] = {f"model.dims.{name}": SMALLEST[name] for name in spec.dims}
    changes |= {"model.input.vocabulary": 20, "model.input.max_length": 40, "model.name": "part"}
    changes["model.regularisation.init_std"] = INIT_STD.get(spec.name, spec.regularisation.init_std)
    for i, head in enumerate(spec.heads):
        changes |= {f"model.heads.{i}.{name}": HEADS[name] for name in head.options if name in HEADS}
        changes[f"model.heads.{i}.as"] = head.use
    return without_files(spec.replace(changes))


def without_files(spec: Spec) -> Spec:
    """The spec with fresh vectors in place of those of a file, which its user trains."""
    files = [i for i, augmenter in enumerate(spec.augmenters) if "file" in augmenter.options]
    return spec.replace({f"model.augmenters.{i}.file": "" for i in files})


def parts() -> dict[str, Spec]:
    """One spec for each distinct composition: the ready ones, shrunk, then the variants that none of them has."""
    names = {smallest(load_spec(name)).to_toml(): name for name in sorted(ready_specs(), reverse=True)}
    texts = {name: text for text, name in reversed(names.items())} | VARIANTS
    return {name: Spec.from_toml(text, source=name) for name, text in texts.items()}


SPECS: Mapping[str, Spec] = parts()
SEARCHES = ("cqd-beam", "cqd-continuous")
"""Ready specs that are no networks: they search for answers, and an export refuses them in words."""
EXPECTED = {"cone": 1e-4}
"""Errors with fresh weights where 1e-5 is too little: the mean of directions that all but cancel hangs on rounding."""


def exported(spec: Spec, path: Path, registry: Registry, **options: Any) -> Verification:
    return OnnxExporter(OnnxOptions(**options)).export(build(spec, registry=registry), path)


@pytest.mark.parametrize("name", [name for name in SPECS if name not in SEARCHES])
def test_it_exports_and_verifies(name: str, registry: Registry, tmp_path: Path) -> None:
    report = exported(SPECS[name], tmp_path / "model.onnx", registry)
    assert report.passed
    assert not report.notes  # an output that is zero throughout would show nothing
    # Fresh weights at these widths: far below the tolerance, which must leave room for trained ones. The runtime's
    # own releases differ by a few 1e-6.
    assert max(line.error for line in report.lines) < EXPECTED.get(name, 1e-5)


def test_the_list_covers_every_registered_part(registry: Registry) -> None:
    covered = {(part.kind, part.name) for spec in SPECS.values() for part in resolve(spec, registry).parts}
    registered = {(kind, name) for kind in KINDS for name in registry.names(kind)}
    assert covered == registered


@pytest.mark.parametrize(
    ("name", "precision", "opset"),
    [
        ("folnet-base", "float16", 17),
        ("folnet-base", "bfloat16", 23),
        ("cone", "float16", 18),  # angles, whose complement jumps
        ("forward", "float16", 18),  # a scan
    ],
)
def test_half_precision(name: str, precision: str, opset: int, registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    report = exported(SPECS[name], path, registry, precision=precision, opset=opset)
    assert report.passed
    assert report.opset_actual == opset
    assert {line.dtype for line in report.lines} == {precision}


if os.environ.get("PEIRCE_EXPORT_ALL"):  # `tox -e export-all`: the full matrix

    @pytest.mark.parametrize("name", sorted({*ready_specs()} - {*SEARCHES}))
    def test_ready_spec(name: str, registry: Registry, tmp_path: Path) -> None:
        assert exported(without_files(load_spec(name)), tmp_path / "model.onnx", registry).passed
        for file in tmp_path.iterdir():
            file.unlink()  # several gigabytes in all

    @pytest.mark.parametrize("opset", [17, 18, 21, 22, 23])
    @pytest.mark.parametrize("name", [name for name in SPECS if name not in SEARCHES])
    def test_every_opset(name: str, opset: int, registry: Registry, tmp_path: Path) -> None:
        assert exported(SPECS[name], tmp_path / "model.onnx", registry, opset=opset).passed

    @pytest.mark.parametrize("precision", ["float16", "bfloat16"])
    @pytest.mark.parametrize("name", [name for name in SPECS if name not in SEARCHES])
    def test_every_precision(name: str, precision: str, registry: Registry, tmp_path: Path) -> None:
        assert exported(SPECS[name], tmp_path / "model.onnx", registry, precision=precision).passed
