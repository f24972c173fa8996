"""A model that needs an input which a task does not give is refused before the first step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from small_specs import FOLNET
from torch import Tensor
from toy_tasks import Marked, MarkedOptions

from peirce import hookimpl
from peirce.errors import TaskError
from peirce.model import Model
from peirce.parts import Dims, Encoded, Head, NoOptions, Position, TensorSpec, Tokens, UnaryPosition
from peirce.registry import Registry
from peirce_training import TrainingOptions, train

SURE = TensorSpec(name="sure", dtype="float", dims=("batch", "length"), meaning="How sure each token is.")
SPEC = FOLNET.replace({"model.heads": [{"use": "classification"}], "model.input": {}})


class Sure(UnaryPosition):
    """How sure a token is, along one direction."""

    name = "sure"

    def __init__(self, options: NoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.direction = torch.nn.Parameter(torch.ones(dims.unary))

    def inputs(self) -> tuple[TensorSpec, ...]:
        return (SURE,)

    def unary(self, tokens: Tokens) -> Tensor:
        return tokens.rows(tokens.inputs["sure"]).unsqueeze(2) * self.direction


class SureHead(Head):
    """How sure the tokens of a text are on the whole."""

    name = "sureness"
    labels = "float [batch]"

    def inputs(self) -> tuple[TensorSpec, ...]:
        return (SURE,)

    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec(name="mean", dtype="float", dims=("batch",)),)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        return {"mean": tokens.inputs["sure"].mean(1)}

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        return (outputs["mean"] - labels).abs().mean()


class Surely(Marked):
    """The task, whose loss makes the input itself, of a batch that has other names."""

    def batches(self, *arguments: Any) -> Any:
        for batch in super().batches(*arguments):
            yield {"ids": batch["input_ids"], "labels": batch["labels"]}

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        self.count()
        outputs = model(input_ids=batch["ids"], sure=torch.ones(batch["ids"].shape))
        return model.loss("classification", outputs, batch["labels"])


class Parts:
    """The plug-in."""

    @staticmethod
    @hookimpl
    def register_positions() -> list[type[Position]]:
        return [Sure]

    @staticmethod
    @hookimpl
    def register_heads() -> list[type[Head]]:
        return [SureHead]


def learn(directory: Path, task: Marked, **changes: Any) -> None:
    registry = Registry.of("peirce_basics.plugin", "peirce_folnet.plugin", Parts)
    options = TrainingOptions(steps=2, device="cpu", save_every=0, test_split="")
    train(
        SPEC.replace({f"model.{k}": v for k, v in changes.items()}),
        task,
        options,
        directory,
        registry=registry,
    )


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("position 'sure'", {"positions": [{"use": "distance", "clip": 4}, {"use": "sure"}]}),
        ("head 'sureness'", {"heads": [{"use": "classification"}, {"use": "sureness"}]}),
    ],
)
def test_an_input_that_the_task_does_not_give_is_refused_by_the_part_that_declares_it(
    tmp_path: Path, part: str, changes: Mapping[str, Any]
) -> None:
    task = Marked(MarkedOptions())
    with pytest.raises(TaskError) as refused:
        learn(tmp_path / "model", task, **changes)
    assert str(refused.value) == (
        f"{part} needs the input 'sure' (float [batch, length], How sure each token is). The task 'marked' does not "
        "give it: make it optional in the part's `inputs()`, with required=False and a default, or leave the part out"
    )
    assert not list((tmp_path / "model").glob("checkpoints"))


def test_a_task_may_make_inputs_in_its_loss(tmp_path: Path) -> None:
    task = Surely(MarkedOptions())
    learn(tmp_path / "model", task, positions=[{"use": "sure"}])
    assert task.losses_asked == 3  # one of them ended before the model computed anything
