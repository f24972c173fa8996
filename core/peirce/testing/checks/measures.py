"""What a task measures: finite numbers of the split that is asked for, whatever the model answers."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from peirce.model import Model
from peirce.testing.check import Case, check
from peirce.testing.checks.shared import left_alone
from peirce.testing.compare import same
from peirce.testing.failures import BrokenError
from peirce.testing.subjects.tasks import TaskSubject


@check(
    "tasks",
    contract="`metrics` are finite numbers of the split that is asked for, the same each time, and leave the model as "
    "it is",
)
def task_metrics(case: Case) -> None:
    """On every split, by a model in evaluation mode, and by models that always answer the same."""
    task, model = case.task, case.task.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.zero_grad()
    one = task.fresh()
    for split in task.splits:
        with torch.no_grad(), left_alone(f"metrics of {split!r}", but="the random state"):
            found = [_seeded(partial(one.metrics, model, task.data, split)) for _ in range(2)]
        remarks = one.remarks(model, task.data, split)
        if isinstance(remarks, str) or not all(isinstance(each, str) for each in remarks):
            raise BrokenError(f"remarks gives {remarks!r}; it gives sentences, a tuple of strings")
        _finite_metrics(found[0], split)
        for name, value in found[0].items():
            if float(value) != float(found[1][name]):
                raise BrokenError(
                    f"the metric {name!r} of {split!r} is {float(value)}, and then {float(found[1][name])}"
                )
        if not found[0] and split != "train":
            raise BrokenError(f"there is no metric of the split {split!r}")
    if model.training:
        raise BrokenError("metrics leaves the model in training mode")
    if any(parameter.grad is not None for parameter in model.parameters()):
        raise BrokenError(
            "metrics leaves gradients on the model's parameters, which the next step adds to its own"
        )
    for name, value in model.state_dict().items():
        same(value, before[name], f"the model's {name} after metrics", tolerance=0.0)
    for split in task.splits:
        _of_split(task, split)
        for sign in (-1, 0, 1):
            of_constant = _seeded(partial(one.metrics, _constant(model, sign), task.data, split))
            _finite_metrics(of_constant, split, "by a model that always answers the same, ")


def _finite_metrics(found: Mapping[str, float], split: str, by: str = "") -> None:
    for name, value in found.items():
        if (isinstance(value, Tensor) and value.dim()) or not math.isfinite(float(value)):
            raise BrokenError(f"{by}the metric {name!r} of {split!r} is {value!r}, and no finite number")


def _constant(model: Model, sign: int) -> Model:
    """A model whose outputs depend on no input: every parameter is zero, but for vectors, which rise or fall."""
    constant = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in constant.parameters():
            rising = torch.linspace(-1, 1, len(parameter)) if parameter.dim() == 1 else torch.zeros(())
            parameter.copy_(sign * rising)
    return constant


class _Read(dict[str, Any]):
    """Data by split that note which splits are read."""

    def __init__(self, data: Mapping[str, Any], read: set[str]) -> None:
        super().__init__(data)
        self.read = read

    def __getitem__(self, split: str) -> Any:
        self.read.add(split)
        return super().__getitem__(split)


def _of_split(task: TaskSubject, split: str) -> None:
    """Metrics look at the split that is asked for, as far as it shows: by `batches`, or by data that are a dict."""
    one, read = task.fresh(), set[str]()
    batches = one.batches

    def noted(data: Any, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        read.add(split)
        return batches(data, split, seed, epoch)

    one.batches = noted  # type: ignore[method-assign]
    data = task.data
    if type(data) is dict and set(task.splits) <= set(data):
        data = _Read(data, read)
    with torch.no_grad():
        _seeded(partial(one.metrics, task.model, data, split))
    if (others := sorted(read & set(task.splits))) and split not in others:
        raise BrokenError(
            f"metrics of {split!r} look at {' and '.join(map(repr, others))}, and never at {split!r}"
        )


def _seeded(call: Callable[[], Mapping[str, float]]) -> Mapping[str, float]:
    """As an evaluation calls: random generators start from a seed, and are put back."""
    kept = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        try:
            return call()
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])
