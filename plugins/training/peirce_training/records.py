"""`training.json` and `metrics.json`: how a model was trained, and how well it does; enough to evaluate it again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peirce.errors import TaskError
from peirce.files import read_json

TRAINING, METRICS = "training.json", "metrics.json"
REPORT = "report.html"
"""What a task may write of a trained model."""
TRAINING_SCHEMA, METRICS_SCHEMA = "peirce.training/1", "peirce.metrics/1"


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """The keys whose values differ between two trainings, with values that say something; empty if there are none."""
    differing = {
        key: (ours.get(key), theirs.get(key))
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key)
    }
    texts = [
        f"{key} changed"
        if all(map(_is_digest, both))
        else f"{key} is {_shown(both[0])} and was {_shown(both[1])}"
        for key, both in differing.items()
    ]
    return "; ".join(text if len(text) < 300 else f"{text[:300]} ..." for text in texts)


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _shown(value: Any) -> str:
    return "absent" if value is None else "there" if _is_digest(value) else repr(value)


def read_training(directory: Path) -> dict[str, Any] | None:
    """The record of a trained model; None where there is none.

    Raises:
        TaskError: the file is damaged, or is not a record of a training.
    """
    path = directory / TRAINING
    try:
        record = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise TaskError(
            f"{path} cannot be read: {error}; restore it from where the model was trained"
        ) from error
    match record:
        case {"schema": str(schema)} if schema != TRAINING_SCHEMA:
            raise TaskError(
                f"{path} is not a record of a training that this version reads ({TRAINING_SCHEMA})"
            )
        case {"task": {"name": str(), "options": dict()}, "seed": int()}:
            return dict(record)
    raise TaskError(
        f"{path} is damaged: it must have a task with its name and options, and a seed; restore it from where the "
        "model was trained"
    )
