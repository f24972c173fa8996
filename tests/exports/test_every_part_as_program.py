"""Every registered part as a program of torch.export, in the smallest widths: it is written, loaded and verified."""

from __future__ import annotations

from pathlib import Path

import pytest
from every_part import SPECS, covering

from peirce.compose import build
from peirce.registry import Registry
from peirce_export.torch_export.exporter import TorchExportExporter, TorchExportOptions

EXPECTED = {"cone": 1e-4, "fuzzqe": 1e-4}
"""As for ONNX, the mean of directions that all but cancel hangs on rounding; so does the norm of products that are all
but equal."""


@pytest.mark.thorough
@pytest.mark.parametrize("name", covering())
def test_it_is_a_program(name: str, registry: Registry, tmp_path: Path) -> None:
    model = build(SPECS[name], registry=registry)
    report = TorchExportExporter(TorchExportOptions()).export(model, tmp_path / "model.pt2")
    assert report.passed
    assert max(line.error for line in report.lines) < EXPECTED.get(name, 1e-5)
