"""What a step minimises: the terms of a task's loss, and how much each batch of the step counts in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

import torch
from attrs import frozen
from torch import Tensor, nn

from peirce.errors import TaskError
from peirce.model import AnyTask, Model
from peirce.training.feed import Batch


@frozen
class Share:
    """How much a batch counts in a step.

    Args:
        usual: the weight of a term whose targets are not counted.
        weights: the weights of the others; over the batches of a step, the weights of a term add up to 1.
    """

    usual: float
    weights: Mapping[str, float]

    def of(self, term: str) -> float:
        """The weight of a term."""
        return self.weights.get(term, self.usual)


class Objective(nn.Module):
    """The task's loss as a module's forward pass, which is what processes synchronise and mixed precision wraps.

    Args:
        task: the task.
        model: the model.
        factor: what the weights of all batches are multiplied by: the number of processes where gradients become
            their mean.
    """

    def __init__(self, task: AnyTask, model: Model, factor: int = 1) -> None:
        super().__init__()
        self.task = task
        self.model = model
        self.factor = factor

    def forward(self, batch: Mapping[str, Tensor], share: Share) -> tuple[Tensor, dict[str, Tensor]]:
        """A batch's share of the step's loss, and of each term of it, which have no gradient.

        Raises:
            TaskError: a term is not a scalar.
        """
        parts: dict[str, Tensor] = {}
        for name, term in self.task.terms(self.model, batch).items():
            if term.dim():
                raise TaskError(f"{self._label(name)} has the shape {list(term.shape)}; it must be a scalar")
            weight = self.factor * share.of(name)
            # Also times zero: every process must have gradients of the same parameters.
            parts[name] = term * weight
        if not parts:
            raise TaskError(f"task {self.task.name!r} gives no terms of its loss")
        total = sum(parts.values(), torch.zeros((), device=next(iter(parts.values())).device))
        return total, {name: part.detach().float() for name, part in parts.items()}

    def _label(self, name: str) -> str:
        return f"the {'' if name == 'loss' else f'term {name!r} of the '}loss of task {self.task.name!r}"


def shared(
    task: AnyTask, batches: Iterable[Batch], total: int, process: int = 0, processes: int = 1
) -> Iterator[tuple[Batch, Share, bool]]:
    """The batches of a step that one process trains on, each with what it counts, and whether it is the last.

    Where the task counts its targets, what a batch counts is known only when all batches of the step have been made:
    the process's own wait until then, and are let go one by one. Otherwise only one is held at a time.

    Args:
        task: whose batches they are.
        batches: those of all processes, in turns.
        total: how many there are.
        process: which process this is.
        processes: how many there are.
    """
    usual = 1 / total
    own: deque[tuple[Batch, Mapping[str, int]]] = deque()
    sums: dict[str, int] = {}
    for index, batch in enumerate(batches):
        counts = task.targets(batch)
        for name, count in counts.items():
            sums[name] = sums.get(name, 0) + count
        if index % processes != process:
            continue
        if counts or own:
            own.append((batch, counts))
        else:
            yield batch, Share(usual, {}), index + processes >= total
    while own:
        batch, counts = own.popleft()
        weights = {name: counts.get(name, 0) / count if count else 0.0 for name, count in sums.items()}
        yield batch, Share(usual, weights), not own
