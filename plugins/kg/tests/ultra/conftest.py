"""The published numbers of ULTRA and UltraQuery, and models of the published weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peirce.files import read_npz
from peirce.model import Model
from peirce_kg.ultra.checkpoint import read_ultra
from peirce_queries.graphs.graph import Graph, from_ids


@pytest.fixture(scope="session")
def golden(shared: Path) -> Path:
    return shared / "golden" / "ultra"


@pytest.fixture(scope="session")
def published(golden: Path) -> Callable[[str], Model]:
    models = {name: read_ultra(golden / f"{name}.safetensors") for name in ("ultra_3g", "ultraquery")}
    return models.__getitem__


@pytest.fixture(scope="session")
def umls(golden: Path) -> Graph:
    """The graph of the published queries, whose names are the published numbers."""
    arrays = read_npz(golden / "umls_graph.npz")
    sizes = int(arrays["num_entities"]), int(arrays["num_direct_relations"])
    names = ([str(i) for i in range(size)] for size in sizes)
    none = np.empty((0, 3), np.int32)
    return from_ids("umls", *names, {"train": arrays["triples"], "valid": none, "test": none})


@pytest.fixture(scope="session")
def queries(golden: Path) -> tuple[list[dict[str, Any]], Mapping[str, Any]]:
    """The published queries, and the fuzzy sets of each."""
    told = json.loads((golden / "cqa_umls.json").read_text(encoding="utf-8"))
    return told["queries"], read_npz(golden / "cqa_umls.npz")
