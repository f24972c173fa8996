"""Evaluating a model on a task: repeatable, and without a change of the model's mode or of random generators."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from peirce.errors import TaskError, unknown
from peirce.files import read_bytes
from peirce.model import ASSETS, AnyTask, Model, unwrap
from peirce_training import randomness
from peirce_training.options import TrainingOptions
from peirce_training.records import read_training
from peirce_training.warm_start import equal_files, keep_vocabulary


def evaluate(model: nn.Module, task: AnyTask, data: Any, split: str, seed: int = 0) -> dict[str, float]:
    """The task's metrics of a model on one split.

    Args:
        model: the model, or what torch wraps around one, such as DistributedDataParallel.
        task: the task.
        data: what the task prepared.
        split: such as `valid` or `test`.
        seed: what a metric that draws at random depends on.
    """
    with _evaluation(model, seed) as inner:
        return {name: float(value) for name, value in task.metrics(inner, data, split).items()}


@contextmanager
def _evaluation(model: nn.Module, seed: int) -> Iterator[Model]:
    """The model, in evaluation mode, while random generators start from the seed; both are restored."""
    inner = unwrap(model)
    training = inner.training
    inner.eval()
    try:
        with torch.no_grad(), randomness.isolated_generators(seed):
            yield inner
    finally:
        inner.train(training)


def mean_loss(model: nn.Module, task: AnyTask, data: Any, split: str, seed: int = 0) -> float:
    """The mean of the task's loss over one split, dropout off: of each term over its targets, or over batches."""
    sums: dict[str, list[tuple[float, float]]] = {}
    device = next(model.parameters()).device
    with _evaluation(model, seed) as inner:
        for batch in task.batches(data, split, seed, 0):
            counts = task.targets(batch)
            for name, term in task.terms(inner, {k: t.to(device) for k, t in batch.items()}).items():
                if count := counts.get(name, 1):
                    sums.setdefault(name, []).append((float(term), count))
    if not sums:
        raise TaskError(f"task {task.name!r} gives no batches of split {split!r}; check train.valid_split")
    return math.fsum(
        math.fsum(value * count for value, count in found) / math.fsum(count for _, count in found)
        for found in sums.values()
    )


def evaluate_monitor(
    model: Model, task: AnyTask, data: Any, options: TrainingOptions, seed: int
) -> tuple[float, dict[str, float]]:
    """The value of `options.monitor` in an evaluation during training, and all metrics.

    Raises:
        TaskError: the task has no such metric.
    """
    metrics = evaluate(model, task, data, options.valid_split, seed)
    wanted = options.monitor == "loss" or options.evaluate_epochs  # the curve of epochs shows it
    if wanted and "loss" not in metrics:
        metrics = {"loss": mean_loss(model, task, data, options.valid_split, seed), **metrics}
    if options.monitor not in metrics:
        raise TaskError(f"train.monitor: {unknown('metric', options.monitor, metrics)}")
    return metrics[options.monitor], metrics


def check_data(model: Model, directory: Path, task: AnyTask, data: Any) -> None:
    """Refuse data that the model was not trained on: other sizes or vocabularies than it was saved with.

    Raises:
        TaskError: names what differs.
    """
    overrides = keep_vocabulary(task.overrides_for(model.spec, data), model.spec)
    different = [key for key, value in overrides.items() if model.spec.replace({key: value}) != model.spec]
    for name, content in task.assets(data).items():
        path = directory / ASSETS / name
        if path.is_file() and not equal_files(content, read_bytes(path)):
            different.append(f"{ASSETS}/{name}")
    if different:
        record = read_training(directory)
        before = task.name if record is None else record["task"]["name"]
        step = "the options and files of its training" if before == task.name else f"its own task, {before!r}"
        raise TaskError(
            f"the data of task {task.name!r} are not those that {directory} was trained on: {', '.join(different)} "
            f"would differ; give {step}"
        )
