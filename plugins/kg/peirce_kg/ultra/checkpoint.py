"""From a published ULTRA or UltraQuery to a model of ours: its tensors under our names, nothing dropped or added."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from peirce.compose import build
from peirce.errors import ModelFileError
from peirce.model import Model, check_published, published_tensors
from peirce.registry import load_spec

PREFIX = "model.model."
"""What stands before the names of UltraQuery's tensors."""
THRESHOLD = 0.8
"""That of a network which was trained on links alone, as in the published code."""
_OURS = {
    "relation_model.layers.": "network.relations.",
    "entity_model.layers.": "network.entities.",
    "entity_model.mlp.0.": "heads.fuzzy.hidden.",
    "entity_model.mlp.2.": "heads.fuzzy.score.",
    ".relation.weight": ".kinds",
    ".relation_projection.": ".project.",
    ".layer_norm.": ".norm.",
}
"""Parts of the published names of tensors, and of ours."""


def read_ultra(path: Path, name: str = "ultra") -> Model:
    """A model of published tensors: a safetensors file, or a torch file that holds a state dict.

    Args:
        path: the file.
        name: what the model is called.

    Raises:
        ModelFileError: it cannot be read, or has other tensors than such a model.
    """
    found, queries = _read_state(path)
    layers = {kind: _count(found, kind) for kind in ("relations", "entities")}
    width = next((len(each.T) // 2 for key, each in found.items() if key.endswith("linear.weight")), 0)
    if not min(width, *layers.values()):
        raise ModelFileError(
            f"{path} is not a checkpoint of ULTRA: it lacks linear maps of layers on relations or on entities"
        )
    sizes = {"unary": width, "relation_layers": layers["relations"], "layers": layers["entities"]}
    settings: dict[str, Any] = {f"model.dims.{key}": value for key, value in sizes.items()}
    settings |= {"model.name": name, "model.options.threshold": 0.0 if queries else THRESHOLD}
    model = build(load_spec("ultra", settings))
    found = check_published(found, {key: value.shape for key, value in model.state_dict().items()}, path)
    model.to(next(iter(found.values())).dtype).load_state_dict(found)
    return model.eval()


def _read_state(path: Path) -> tuple[dict[str, Tensor], bool]:
    """The tensors by our names, and whether they are UltraQuery's."""
    tensors = published_tensors(path, "model")  # beside it stands the state of an optimiser
    queries = all(key.startswith(PREFIX) for key in tensors)
    found = {}
    for key, value in tensors.items():
        key = key.removeprefix(PREFIX)
        for theirs, ours in _OURS.items():
            key = key.replace(theirs, ours)
        found[key] = value
    return found, queries


def _count(tensors: Mapping[str, Tensor], kind: str) -> int:
    return len(
        {key.split(".")[2] for key in tensors if re.match(rf"network\.{kind}\.\d+\.linear\.weight", key)}
    )
