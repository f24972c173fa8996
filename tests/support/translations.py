"""What torch.onnx builds anew for each export, built once: half a second of each, and the same every time."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib.util import find_spec

import pytest


@pytest.fixture(scope="session", autouse=True)
def kept_translations() -> Iterator[None]:
    """The table of how torch's operators are written in ONNX, kept for each opset."""
    if find_spec("onnxscript") is None:
        yield
        return
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ONNXRegistry, "from_torchlib", staticmethod(functools.cache(ONNXRegistry.from_torchlib))
        )
        yield
