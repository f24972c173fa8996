from __future__ import annotations

import math
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
ADAM = attrs.evolve(ADAMW, optimizer="adam_uncorrected", epsilon=1e-6)


@pytest.fixture
def model(parts: Registry) -> peirce.Model:
    return peirce.build(TRANSFORMER.replace({"model.input.vocabulary": 10}), registry=parts)


@pytest.mark.parametrize("options", [ADAMW, LAMB, ADAM], ids=["adamw", "lamb", "adam"])
@pytest.mark.parametrize(("decay", "of_vectors"), [("matrices", 0.0), ("all", 0.01)])
def test_what_shrinks(options: TrainingOptions, decay: str, of_vectors: float, model: peirce.Model) -> None:
    groups = make_optimizer(dict(model.named_parameters()), attrs.evolve(options, decay=decay)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.01, of_vectors]
    assert all(p.dim() > 1 for p in groups[0]["params"])
    assert all(p.dim() == 1 for p in groups[1]["params"])
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


def _set_gradients(parameters: dict[str, nn.Parameter], step: int) -> None:
    for index, parameter in enumerate(parameters.values()):
        angles = torch.arange(parameter.numel(), dtype=parameter.dtype) * (1.3 + step) + index
        parameter.grad = torch.sin(angles).view_as(parameter)


def _parameters() -> dict[str, nn.Parameter]:
    torch.manual_seed(0)
    return {
        # Its norm is far above 10, the bound of LAMB's first draft.
        "large": nn.Parameter(torch.randn(40, 30)),
        "matrix": nn.Parameter(torch.randn(4, 3)),
        "zero": nn.Parameter(torch.zeros(3, 3)),
        "bias": nn.Parameter(torch.ones(3)),
    }


def _apex(
    weights: dict[str, list[float]],
    gradients: list[dict[str, list[float]]],
    decay: dict[str, float],
    options: TrainingOptions,
) -> dict[str, list[float]]:
    """Some steps of apex's `FusedLAMB`, or of its `FusedAdam` with `bias_correction=False`, number by number."""
    weights = {name: list(values) for name, values in weights.items()}
    means = {name: [0.0] * len(values) for name, values in weights.items()}
    squares = {name: [0.0] * len(values) for name, values in weights.items()}
    layerwise = options.optimizer == "lamb"
    for step, gradient in enumerate(gradients, 1):
        norm = math.sqrt(sum(g * g for values in gradient.values() for g in values))
        clip = max(1.0, norm / options.clip_norm)  # max_grad_norm
        of_first, of_second = (1 - beta**step if layerwise else 1 for beta in (options.beta1, options.beta2))
        for name, values in weights.items():
            updates = []
            for i, value in enumerate(values):
                g = gradient[name][i] / clip
                means[name][i] = options.beta1 * means[name][i] + (1 - options.beta1) * g
                squares[name][i] = options.beta2 * squares[name][i] + (1 - options.beta2) * g * g
                root = math.sqrt(squares[name][i] / of_second)
                updates.append(means[name][i] / of_first / (root + options.epsilon) + decay[name] * value)
            of_weights, of_updates = (math.sqrt(sum(x * x for x in xs)) for xs in (values, updates))
            scaled = layerwise and decay[name] != 0 and of_weights != 0 and of_updates != 0
            rate = options.lr * (of_weights / of_updates if scaled else 1)
            weights[name] = [value - rate * update for value, update in zip(values, updates, strict=True)]
    return weights


@pytest.mark.parametrize("optimizer", ["lamb", "adam_uncorrected"])
@pytest.mark.parametrize(("decay", "strength"), [("matrices", 0.01), ("all", 0.3), ("matrices", 0.0)])
def test_steps_as_apex_makes_them(optimizer: str, decay: str, strength: float) -> None:
    options = attrs.evolve(LAMB, optimizer=optimizer, decay=decay, weight_decay=strength)
    parameters = {name: nn.Parameter(p.detach().double()) for name, p in _parameters().items()}
    before = {name: p.detach().flatten().tolist() for name, p in parameters.items()}
    gradients: list[dict[str, list[float]]] = []
    made = make_optimizer(parameters, options)
    for step in range(5):
        _set_gradients(parameters, step)
        gradients.append({n: p.grad.flatten().tolist() for n, p in parameters.items() if p.grad is not None})
        nn.utils.clip_grad_norm_(parameters.values(), options.clip_norm)  # as the loop does
        made.step()
    shrinks = {name: strength if p.dim() > 1 or decay == "all" else 0.0 for name, p in parameters.items()}
    wanted = _apex(before, gradients, shrinks, options)
    for name, p in parameters.items():
        torch.testing.assert_close(
            p.detach().flatten(), torch.tensor(wanted[name]).double(), rtol=1e-6, atol=0
        )


def test_nothing_to_train() -> None:
    with pytest.raises(TaskError, match="no parameters to train"):
        make_optimizer({"w": nn.Parameter(torch.ones(2), requires_grad=False)}, ADAMW)


@pytest.mark.parametrize("options", [ADAMW, LAMB, ADAM], ids=["adamw", "lamb", "adam"])
def test_the_state_goes_by_the_names_of_parameters(options: TrainingOptions) -> None:
    first = _parameters()
    before = make_optimizer(first, options)
    for step in range(3):
        _set_gradients(first, step)
        before.step()
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


@pytest.mark.parametrize("options", [ADAMW, LAMB, ADAM], ids=["adamw", "lamb", "adam"])
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
