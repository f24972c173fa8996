"""Each room hands out names that are there, and none that a file of the room would hide."""

from __future__ import annotations

import ast
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import peirce

ROOMS = [module.name for module in pkgutil.iter_modules(peirce.__path__) if module.ispkg]


@pytest.mark.parametrize("room", ["peirce", *(f"peirce.{name}" for name in ROOMS)])
def test_a_face_hands_out_what_its_stub_says(room: str) -> None:
    module = import_module(room)
    assert module.__file__ is not None
    stub = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    named = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert named == set(module.__all__)
    assert not named & {inner.name for inner in pkgutil.iter_modules(module.__path__)}
    for name in module.__all__:
        assert getattr(module, name) is not None
