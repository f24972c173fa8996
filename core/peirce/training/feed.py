"""The batches of a training as one stream over its epochs, which knows where it is and can start anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from peirce.errors import TaskError
from peirce.model import AnyTask

Batch = Mapping[str, Tensor]


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
        self.epoch = epoch
        self.batch = batch
        self._task, self._data, self._split, self._seed = task, data, split, seed
        self._batches = self._pass()
        for index in range(batch):
            if next(self._batches, None) is None:
                raise TaskError(
                    f"task {task.name!r} had more than {batch} batches in epoch {epoch} and now has {index}: its data "
                    "changed since the checkpoint was written; start again without resuming"
                )

    def take(self, count: int) -> Iterator[Batch]:
        """The next batches, as many as asked for."""
        for _ in range(count):
            yield self._next()

    def _next(self) -> Batch:
        for _ in range(2):
            batch = next(self._batches, None)
            if batch is not None:
                self.batch += 1
                return batch
            if self.batch == 0:
                break
            self.epoch, self.batch = self.epoch + 1, 0
            self._batches = self._pass()
        raise TaskError(
            f"task {self._task.name!r} gives no batches of split {self._split!r} in epoch {self.epoch}; check the "
            "task's options and data"
        )

    def _pass(self) -> Iterator[Batch]:
        return iter(self._task.batches(self._data, self._split, self._seed, self.epoch))
