from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import torch
from torch import nn
from toy_tasks import FOLNET, TRANSFORMER, Marked, MarkedOptions, StoppedError

import peirce
from peirce.errors import TaskError
from peirce.registry import Registry
from peirce_training import Checkpoints, TrainingOptions, train
from peirce_training.optimizer import make_optimizer, optimizer_tensors, restore_optimizer

ADAMW = TrainingOptions(steps=6, lr=1e-2, save_every=2, device="cpu", threads=1)
LAMB = attrs.evolve(ADAMW, optimizer="lamb", epsilon=1e-6)


@pytest.fixture
def model(parts: Registry) -> peirce.Model:
    return peirce.build(TRANSFORMER.replace({"model.input.vocabulary": 10}), registry=parts)


@pytest.mark.parametrize("options", [ADAMW, LAMB], ids=["adamw", "lamb"])
@pytest.mark.parametrize(("decay", "of_vectors"), [("matrices", 0.0), ("all", 0.01)])
def test_what_shrinks(options: TrainingOptions, decay: str, of_vectors: float, model: peirce.Model) -> None:
    groups = make_optimizer(dict(model.named_parameters()), attrs.evolve(options, decay=decay)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.01, of_vectors]
    assert all(p.dim() > 1 for p in groups[0]["params"])
    assert all(p.dim() == 1 for p in groups[1]["params"])
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


def _steps(optimizer: torch.optim.Optimizer, parameters: dict[str, nn.Parameter], count: int) -> None:
    for step in range(count):
        for index, parameter in enumerate(parameters.values()):
            parameter.grad = torch.sin(torch.arange(parameter.numel()) * (1.3 + step) + index).view_as(
                parameter
            )
        optimizer.step()


def _parameters() -> dict[str, nn.Parameter]:
    torch.manual_seed(0)
    return {
        "large": nn.Parameter(torch.randn(40, 30)),  # its norm is above LAMB's bound of 10
        "matrix": nn.Parameter(torch.randn(4, 3)),
        "zero": nn.Parameter(torch.zeros(3, 3)),
        "bias": nn.Parameter(torch.ones(3)),
    }


def test_a_step_of_lamb_by_hand() -> None:
    with pytest.raises(TaskError, match="no parameters to train"):
        make_optimizer({"w": nn.Parameter(torch.ones(2), requires_grad=False)}, ADAMW)
    parameters = {"w": nn.Parameter(torch.tensor([[3.0, 4.0]])), "b": nn.Parameter(torch.tensor([1.0]))}
    optimizer = make_optimizer(parameters, attrs.evolve(LAMB, lr=0.1, weight_decay=0.5, epsilon=1e-12))
    parameters["w"].grad, parameters["b"].grad = torch.tensor([[1.0, -2.0]]), torch.tensor([4.0])
    optimizer.step()
    # Moments 0.1 g and 0.001 g^2: the ratio is 0.1 / sqrt(0.001) = sqrt(10) with the sign of g; the norm of w is 5.
    update = torch.tensor([[10**0.5 + 0.5 * 3, -(10**0.5) + 0.5 * 4]])
    wanted = torch.tensor([[3.0, 4.0]]) - 0.1 * 5 / update.norm() * update
    torch.testing.assert_close(parameters["w"].data, wanted)
    torch.testing.assert_close(parameters["b"].data, torch.tensor([1 - 0.1 * 10**0.5]))


@pytest.mark.parametrize("options", [ADAMW, LAMB], ids=["adamw", "lamb"])
def test_the_state_goes_by_the_names_of_parameters(options: TrainingOptions) -> None:
    first = _parameters()
    before = make_optimizer(first, options)
    _steps(before, first, 3)
    tensors = {name: tensor.clone() for name, tensor in optimizer_tensors(before, first).items()}
    assert {"large/exp_avg", "bias/exp_avg_sq"} <= tensors.keys()
    second = {name: nn.Parameter(first[name].detach().clone()) for name in reversed(first)}
    after = make_optimizer(second, options)
    restore_optimizer(after, second, tensors)
    first["matrix"].grad = second["matrix"].grad = torch.ones(4, 3)
    for name, parameter in first.items():
        second[name].grad = parameter.grad
    before.step()
    after.step()
    for name, parameter in first.items():
        assert torch.equal(parameter, second[name])


@pytest.mark.parametrize("options", [ADAMW, LAMB], ids=["adamw", "lamb"])
def test_resumed_to_the_bit(options: TrainingOptions, parts: Registry, tmp_path: Path) -> None:
    whole = train(FOLNET, Marked(MarkedOptions()), options, tmp_path / "whole", registry=parts)
    with pytest.raises(StoppedError):
        train(FOLNET, Marked(MarkedOptions(), 4), options, tmp_path / "part", registry=parts)
    assert [p.name for p in Checkpoints(tmp_path / "part", 1).paths()] == ["step-00000002"]
    again = train(FOLNET, Marked(MarkedOptions()), options, tmp_path / "part", registry=parts, resume=True)
    assert again.losses == whole.losses
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "part")]
    assert weights[0] == weights[1]


def test_lamb_learns(parts: Registry, tmp_path: Path) -> None:
    options = attrs.evolve(LAMB, steps=120, lr=3e-2, warmup_ratio=0.1, save_every=0)
    task = Marked(MarkedOptions(tokens=4, length=4, examples=256, batch=32))
    result = train(TRANSFORMER, task, options, tmp_path, registry=parts)
    assert result.metrics["accuracy"] > 0.9
