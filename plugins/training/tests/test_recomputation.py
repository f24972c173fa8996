"""Gradient checkpointing: the same numbers from recomputed layers, with fewer of them held at once."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import torch
from toy_tasks import FOLNET, TRANSFORMER, Marked, MarkedOptions

import peirce
from peirce.errors import TaskError
from peirce.registry import Registry
from peirce_training import TrainingOptions, layers_of, train
from peirce_training.layers import wrap_layers

OPTIONS = TrainingOptions(steps=8, lr=1e-2, save_every=0, device="cpu", threads=1)
DEEP = {"model.dims.layers": 4, "model.regularisation.dropout": 0.3}


@pytest.mark.parametrize(
    ("spec", "precision"), [(FOLNET, "no"), (TRANSFORMER, "bf16")], ids=["folnet", "transformer"]
)
def test_losses_are_the_same_with_dropout(
    spec: peirce.Spec, precision: str, parts: Registry, tmp_path: Path
) -> None:
    losses = {}
    for checkpointing in (False, True):
        options = attrs.evolve(OPTIONS, checkpointing=checkpointing, precision=precision)
        place = tmp_path / str(checkpointing)
        result = train(spec.replace(DEEP), Marked(MarkedOptions()), options, place, registry=parts)
        losses[checkpointing] = result.losses
        assert all("forward" not in vars(layer) for layer in layers_of(result.model))
    assert losses[True] == pytest.approx(losses[False], rel=1e-6)


def _held(model: peirce.Model, inputs: dict[str, torch.Tensor], *, active: bool) -> int:
    """The bytes of the tensors that a forward pass keeps for the backward pass, parameters aside."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with (
        wrap_layers(model, recomputing=active),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t),
    ):
        outputs = model(**inputs)
        held = sum(kept.values())
    outputs["classification_logits"].sum().backward()
    return held


def test_fewer_bytes_are_held(parts: Registry) -> None:
    spec = FOLNET.replace({"model.dims.layers": 6, "model.input.vocabulary": 10})
    model = peirce.build(spec, registry=parts).train()
    inputs = {"input_ids": torch.randint(2, 10, (4, 48))}
    plain, recomputed = (_held(model, inputs, active=active) for active in (False, True))
    assert recomputed < plain / 3


def test_an_architecture_without_layers_is_named(parts: Registry) -> None:
    model = peirce.build(TRANSFORMER.replace({"model.input.vocabulary": 10}), registry=parts)
    model.network.blocks = model.network.layers
    del model.network.layers
    with (
        pytest.raises(TaskError, match=r"architecture 'transformer' has no ModuleList called 'layers'"),
        wrap_layers(model, recomputing=True),
    ):
        pass
