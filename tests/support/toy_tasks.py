"""A small real task, and a plug-in that registers it: does a token of the upper half stand at the marked place?"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import small_specs
import torch
from attrs import evolve, field, frozen, validators
from torch import Tensor

import peirce
from peirce.errors import TaskError
from peirce.model import Model, Task
from peirce.spec import HeadSpec, InputSpec, Regularisation, Spec

MARK = 1
KILL_AT = "TOY_TASK_KILL_AT_LOSS"
"""Set to a number, the process kills itself when the loss is asked for so many times."""
KILL_IN_CHECKPOINT = "TOY_TASK_KILL_IN_CHECKPOINT"
"""Set to a step, the process kills itself just before that step's checkpoint gets its name."""


def _kill_in_checkpoint(event: str, arguments: tuple[object, ...]) -> None:
    if event == "os.rename" and str(arguments[1]).endswith(f"step-{int(os.environ[KILL_IN_CHECKPOINT]):08d}"):
        os.kill(os.getpid(), signal.SIGKILL)


if KILL_IN_CHECKPOINT in os.environ:
    sys.addaudithook(_kill_in_checkpoint)


def _toy(spec: Spec, **dims: int) -> Spec:
    """A small spec, smaller still, for tokens of any number and with the one head that the task needs."""
    return evolve(
        spec,
        name=spec.name.replace("small", "toy"),
        dims={**spec.dims, "layers": 1, "unary": 16, "heads": 2, **dims},
        input=InputSpec(),
        heads=(HeadSpec(use="classification"),),
        regularisation=Regularisation(init_std=0.1),
    )


FOLNET = _toy(small_specs.FOLNET, binary=4).replace({"model.positions.0.cls": False})
TRANSFORMER = _toy(small_specs.TRANSFORMER)


@frozen(kw_only=True)
class MarkedOptions:
    """How large the data are.

    Args:
        tokens: the ordinary tokens.
        length: the tokens of an example.
        examples: the examples of the training split.
        batch: the examples of a batch.
    """

    tokens: int = field(default=8, validator=validators.ge(2))
    length: int = field(default=6, validator=validators.ge(2))
    examples: int = field(default=48, validator=validators.ge(1))
    batch: int = field(default=8, validator=validators.ge(1))


class StoppedError(Exception):
    """Raised by a task that is told to fail."""


class Marked(Task):
    """Is the token after the mark one of the upper half?"""

    name = "marked"
    source = "made up for the tests"
    Options = MarkedOptions

    def __init__(self, options: MarkedOptions, fail_at: int = 0) -> None:
        super().__init__(options)
        self.fail_at = fail_at
        self.losses_asked = 0
        self.prepared = 0

    def prepare(self) -> dict[str, tuple[Tensor, Tensor]]:
        self.prepared += 1
        generator = torch.Generator().manual_seed(7)
        return {split: self._draw(generator) for split in ("train", "valid", "test")}

    def _draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        o = self.options
        ids = torch.randint(2, 2 + o.tokens, (o.examples, o.length), generator=generator)
        at = torch.randint(0, o.length - 1, (o.examples,), generator=generator)
        rows = torch.arange(o.examples)
        ids[rows, at] = MARK
        return ids, (ids[rows, at + 1] >= 2 + o.tokens // 2).long()

    def overrides(self, data: Any) -> Mapping[str, Any]:
        return {"model.input.vocabulary": 2 + self.options.tokens}

    def batches(self, data: Any, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        if split not in data:
            raise TaskError(f"there is no split {split!r}")
        ids, labels = data[split]
        order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(1000 * seed + epoch))
        for rows in order.split(self.options.batch):
            yield {"input_ids": ids[rows], "labels": labels[rows]}

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        self.count()
        outputs = model(input_ids=batch["input_ids"])
        return model.loss("classification", outputs, batch["labels"])

    def count(self) -> None:
        """Count the losses asked for, and die or fail at the one that was named."""
        self.losses_asked += 1
        if self.losses_asked == int(os.environ.get(KILL_AT, -1)):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.losses_asked == self.fail_at:
            raise StoppedError

    def metrics(self, model: Model, data: Any, split: str) -> Mapping[str, float]:
        ids, labels = data[split]
        right = (
            model(input_ids=ids.to(next(model.parameters()).device))["classification_logits"].argmax(1).cpu()
            == labels
        )
        return {"accuracy": float(right.float().mean())}

    def assets(self, data: Any) -> Mapping[str, bytes]:
        return {"tokens.txt": "\n".join(map(str, range(self.options.tokens))).encode()}


@frozen(kw_only=True)
class FilledOptions(MarkedOptions):
    """The options of `marked`, and which part of the tokens is masked."""

    masked: float = field(default=0.3, validator=[validators.gt(0), validators.lt(1)])


class Filled(Marked):
    """Fill in masked tokens, and tell as `marked` does what follows the mark: two terms, each over targets of its own.

    Which tokens are masked depends on seed, epoch and example, whatever the batch.
    """

    name = "filled"
    Options = FilledOptions

    def batches(self, data: Any, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        ids, labels = data[split]
        order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(1000 * seed + epoch))
        for rows in order.split(self.options.batch):
            hidden = torch.stack([self._hidden(seed, epoch, int(row)) for row in rows])
            yield {
                "input_ids": ids[rows].masked_fill(hidden, 0),
                "labels": ids[rows].masked_fill(~hidden, -100),
                "upper": labels[rows],
            }

    def _hidden(self, seed: int, epoch: int, row: int) -> Tensor:
        generator = torch.Generator().manual_seed(10**6 * seed + 10**3 * epoch + row)
        return torch.rand(self.options.length, generator=generator) < self.options.masked

    def terms(self, model: Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        self.count()
        outputs = model(input_ids=batch["input_ids"])
        return {
            "filled": model.loss("mlm", outputs, batch["labels"]),
            "upper": model.loss("classification", outputs, batch["upper"]),
        }

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        terms = self.terms(model, batch)
        return terms["filled"] + terms["upper"]

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        return {"filled": int((batch["labels"] != -100).sum()), "upper": len(batch["upper"])}


@frozen(kw_only=True)
class WithTokenizerOptions(MarkedOptions):
    """The options of `marked`, and a tokenizer."""

    tokenizer: str = ""


class WithTokenizer(Marked):
    """`marked` with a tokenizer, a file whose content it saves."""

    name = "tokenized"
    Options = WithTokenizerOptions

    def assets(self, data: Any) -> Mapping[str, bytes]:
        return {"tokenizer.json": Path(self.options.tokenizer).read_bytes()}


@peirce.hookimpl
def register_tasks() -> list[type[Task]]:
    return [Marked, Filled, WithTokenizer]
