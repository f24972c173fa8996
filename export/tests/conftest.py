"""The hand-written model, exported once a session, and what all exports share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hand_model import Hand

from peirce_export.onnx.exporter import trace, write


@pytest.fixture(scope="session")
def hand() -> Hand:
    return Hand().eval()


@pytest.fixture(scope="session")
def hand_file(hand: Hand, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hand-written model as ONNX, written but not verified. Tests copy it before they change it."""
    path = tmp_path_factory.mktemp("hand") / "hand.onnx"
    write(trace(hand, 20, "float32"), path)
    return path
