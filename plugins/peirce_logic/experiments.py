"""What the experiments of the paper's tables share: the settings of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peirce.experiments import settings_by_part
from peirce.model import ExperimentRequest

DEPTH = 3
"""K, the levels of relations that every row's task gives; plain models leave them."""
COMMON = {
    "train.schedule": "linear",
    "train.warmup_ratio": 0.1,
    "train.keep": 1,
    "train.test_split": "",
    "task.depth": DEPTH,
}


def settings_of(
    request: ExperimentRequest, scale: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The settings of the model, the task and the training, as `settings_by_part` divides them.

    Relations are kept in the request's folder. A pretrained model that lies in a folder has its tokenizer there.

    Args:
        request: what is asked for.
        scale: the settings of its scale.
    """
    cache = {"task.cache": str(request.directory / "relations.sqlite")}
    model, task, training = settings_by_part(COMMON, cache, scale, request.settings)
    task.setdefault("tokenizer", model.get("model.options.source", ""))
    return model, task, training
