"""Saved models to be served, made once a session."""

from __future__ import annotations

from pathlib import Path

import pytest
from served_models import CLASSIFIER, WRITER, graph_model, text_model

from peirce.registry import Registry


@pytest.fixture(scope="session")
def graph(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Path:
    return graph_model(tmp_path_factory.mktemp("saved") / "tega", registry)


@pytest.fixture(scope="session")
def weather(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Path:
    return text_model(CLASSIFIER, tmp_path_factory.mktemp("saved") / "weather", registry)


@pytest.fixture(scope="session")
def novelist(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Path:
    return text_model(WRITER, tmp_path_factory.mktemp("saved") / "novelist", registry)
