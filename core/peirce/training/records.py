"""`training.json` and `metrics.json`: how a model was trained, and how well it does; enough to evaluate it again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peirce.errors import TaskError
from peirce.files import read_json, write_json
from peirce.model import AnyTask
from peirce.training.options import TrainingOptions, TrainResult
from peirce.training.settings import plain

TRAINING, METRICS = "training.json", "metrics.json"
_SCHEMA_TRAINING, _SCHEMA_METRICS = "peirce.training/1", "peirce.metrics/1"


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """The keys whose values differ between two trainings, with both values; empty if there are none."""
    differing = [
        f"{key} is {ours.get(key)!r} and was {theirs.get(key)!r}"
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key)
    ]
    return "; ".join(text if len(text) < 300 else f"{text[:300]} ..." for text in differing)


def write_training(
    directory: Path,
    task: AnyTask,
    given: Any,
    options: TrainingOptions,
    seed: int,
    result: TrainResult,
    facts: Mapping[str, Any],
) -> None:
    """Write both records of a finished training.

    Args:
        directory: the training's directory.
        task: what it was trained on.
        given: the options that the task was given.
        options: how.
        seed: the seed.
        result: what it gave.
        facts: what else is worth keeping, such as threads.
    """
    losses, last = result.losses, result.losses[-options.log_every :]
    tested = {options.test_split: dict(result.metrics)} if options.test_split else {}
    shown = {**tested, "remarks": list(result.remarks)}
    during = {"during_training": list(result.evaluations)}
    write_json(directory / METRICS, {"schema": _SCHEMA_METRICS, **shown, **during})
    record = {
        "schema": _SCHEMA_TRAINING,
        "task": {"name": task.name, "options": plain(given)},
        "training": plain(options),
        "seed": seed,
        "steps": len(losses),
        "losses": {"first": losses[0], "last": losses[-1], "final_mean": math.fsum(last) / len(last)},
        "metrics": tested,
        "remarks": list(result.remarks),
        **facts,
        "seconds": result.seconds,
        "start": result.start.plain() if result.start is not None else None,
    }
    write_json(directory / TRAINING, record)


def read_training(directory: Path) -> dict[str, Any] | None:
    """What `write_training` wrote; None where there is none.

    Raises:
        TaskError: the file is damaged, or no record of a training.
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
        case {"schema": str(schema)} if schema != _SCHEMA_TRAINING:
            raise TaskError(f"{path} is no record of a training that this version reads ({_SCHEMA_TRAINING})")
        case {"task": {"name": str(), "options": dict()}, "seed": int()}:
            return dict(record)
    raise TaskError(
        f"{path} is damaged: it must have a task with its name and options, and a seed; restore it from where the "
        "model was trained"
    )
