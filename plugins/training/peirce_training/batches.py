"""The batches of a training as a stream that can start anywhere, and the weight of each batch in a step's loss."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, final

import torch
from attrs import frozen
from torch import Tensor, nn

from peirce.errors import TaskError
from peirce.model import AnyTask, Model

Batch = Mapping[str, Tensor]


@final
class Feed:
    """The batches of one split, epoch after epoch, without an end.

    The order depends on the seed and the epoch alone, so a feed that starts in the middle of an epoch makes that
    epoch's batches again from the first and passes over those that were used.

    Args:
        task: whose batches they are.
        data: what the task prepared.
        split: which part of the data.
        seed: what the order depends on.
        epoch: the epoch to start in.
        batch: how many of its batches were used already.
    """

    def __init__(
        self, task: AnyTask, data: Any, split: str, seed: int, epoch: int = 0, batch: int = 0
    ) -> None:
        self.epoch, self.batch = epoch, batch
        self._task, self._data, self._split, self._seed = task, data, split, seed
        self._batches = self._pass()
        used = sum(1 for _ in islice(self._batches, batch))
        if used < batch:
            raise TaskError(
                f"task {task.name!r} had more than {batch} batches in epoch {epoch} and now has {used}: its data "
                "changed since the checkpoint was written; start again without resuming"
            )

    def take(self, count: int) -> Iterator[Batch]:
        """The next batches, as many as asked for."""
        for _ in range(count):
            if (batch := next(self._batches, None)) is None and self.batch:
                self.epoch, self.batch = self.epoch + 1, 0
                self._batches = self._pass()
                batch = next(self._batches, None)
            if batch is None:
                raise TaskError(
                    f"task {self._task.name!r} gives no batches of split {self._split!r} in epoch {self.epoch}; check "
                    "the task's options and data"
                )
            self.batch += 1
            yield batch

    def _pass(self) -> Iterator[Batch]:
        return iter(self._task.batches(self._data, self._split, self._seed, self.epoch))


@frozen
class Share:
    """How much a batch counts in a step.

    Args:
        default: the weight of a term whose targets are not counted.
        weights: the weights of the other terms; over the batches of a step, the weights of a term add up to 1.
    """

    default: float
    weights: Mapping[str, float]

    def weight(self, term: str) -> float:
        """The weight of a term."""
        return self.weights.get(term, self.default)


def step_batches(
    task: AnyTask, batches: Iterable[Batch], total: int, process: int = 0, processes: int = 1
) -> Iterator[tuple[Batch, Share, bool]]:
    """The batches of a step that one process trains on, each with what it counts, and whether it is the last.

    Where the task counts its targets, the weight of a batch is known only when all batches of the step have been made:
    those of the process are kept until then and released one by one. Otherwise only one is in memory at a time.

    Args:
        task: whose batches they are.
        batches: those of all processes, in turns.
        total: how many there are.
        process: which process this is.
        processes: how many there are.
    """
    default = 1 / total
    waiting: deque[tuple[Batch, Mapping[str, int]]] = deque()
    sums: Counter[str] = Counter()
    for index, batch in enumerate(batches):
        counts = task.targets(batch)
        sums.update(counts)
        if index % processes != process:
            continue
        if counts or waiting:
            waiting.append((batch, counts))
        else:
            yield batch, Share(default, {}), index + processes >= total
    while waiting:
        batch, counts = waiting.popleft()
        weights = {name: counts.get(name, 0) / count if count else 0.0 for name, count in sums.items()}
        yield batch, Share(default, weights), not waiting


@final
class Objective(nn.Module):
    """The task's loss with the model's own terms, as a module's forward pass.

    That is what processes synchronise and mixed precision wraps.

    Args:
        task: the task.
        model: the model.
        factor: what the weights of all batches are multiplied by: the number of processes where gradients become
            their mean.
    """

    def __init__(self, task: AnyTask, model: Model, factor: int = 1) -> None:
        super().__init__()
        self.task, self.model, self.factor = task, model, factor

    def forward(self, batch: Batch, share: Share) -> tuple[Tensor, dict[str, Tensor]]:
        """A batch's share of the step's loss, and of each term of it, which have no gradient.

        Raises:
            TaskError: a term is not a scalar.
        """
        parts: dict[str, Tensor] = {}
        for name, term in {**self.task.terms(self.model, batch), **self.model.terms()}.items():
            if term.dim():
                what = "loss" if name == "loss" else f"term {name!r} of the loss"
                raise TaskError(
                    f"the {what} of task {self.task.name!r} has the shape {list(term.shape)}; it must be a scalar"
                )
            # Also times zero: every process must have gradients of the same parameters.
            parts[name] = term * (self.factor * share.weight(name))
        if not parts:
            raise TaskError(f"task {self.task.name!r} gives no terms of its loss")
        total = sum(parts.values(), torch.zeros((), device=next(iter(parts.values())).device))
        return total, {name: part.detach().float() for name, part in parts.items()}
