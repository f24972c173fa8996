"""`train.compile`: the losses of eager layers, from one graph for every length; what cannot be compiled says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch
from torch import Tensor
from toy_tasks import FOLNET, TRANSFORMER, Marked, MarkedOptions

import peirce
from peirce.errors import TaskError
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_training import TrainingOptions, layers, layers_of, train
from peirce_training.layers import wrap_layers

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own imports
OPTIONS = TrainingOptions(steps=4, lr=1e-2, save_every=0, device="cpu", threads=1, test_split="")


class Uneven(Marked):
    """Examples of 9 tokens, of which each batch has another part."""

    def batches(self, data: Any, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        for number, batch in enumerate(super().batches(data, split, seed, epoch)):
            yield {**batch, "input_ids": batch["input_ids"][:, number % 4 :]}


@pytest.mark.parametrize(
    ("spec", "more"),
    [
        pytest.param(FOLNET, {}, id="folnet", marks=pytest.mark.thorough),
        pytest.param(TRANSFORMER, {"precision": "bf16", "checkpointing": True}, id="recomputed in bf16"),
    ],
)
def test_losses_are_those_of_eager_layers(
    spec: Spec, more: Mapping[str, Any], parts: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._dynamo.utils import counters

    # The same graphs without kernels of their own, which a C++ compiler takes a minute to make.
    monkeypatch.setattr(layers, "BACKEND", "aot_eager")
    losses = {}
    for name in ("eager", "compiled"):
        torch.compiler.reset()
        counters.clear()
        options = attrs.evolve(OPTIONS, compile=name == "compiled", **more)
        task = Uneven(MarkedOptions(length=9))
        result = train(spec.replace({"model.dims.layers": 2}), task, options, tmp_path / name, registry=parts)
        losses[name] = result.losses
        assert all("forward" not in vars(layer) for layer in layers_of(result.model))
    assert losses["compiled"] == pytest.approx(losses["eager"], rel=1e-2 if more else 1e-4)
    # Lengths 9 to 6 and two layers: no graph for each of them.
    assert 1 <= counters["stats"]["unique_graphs"] <= 2


@pytest.mark.thorough
def test_what_cannot_be_compiled_says_so(parts: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    monkeypatch.setattr(config, "force_disable_caches", True)
    monkeypatch.setattr(config.cpp, "cxx", ("no-such-compiler",))
    torch.compiler.reset()
    model = peirce.build(TRANSFORMER.replace({"model.input.vocabulary": 10}), registry=parts)
    ids = torch.randint(2, 10, (2, 5))
    with (
        pytest.raises(TaskError, match=r"cannot compile a layer \(.*it needs a C\+\+ compiler.*Leave it off"),
        wrap_layers(model, compiling=True),
    ):
        model(input_ids=ids)
    model(input_ids=ids)
