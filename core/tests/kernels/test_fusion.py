"""Fused projections: the same network in fewer products, whatever changes the weights."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from small_specs import ENCODER_DECODER, FOLNET, TRANSFORMER
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import peirce
from peirce.kernels import FusedLinear, constant_weights
from peirce.networks import Mixing
from peirce.registry import Registry
from peirce.spec import Spec

PROJECTIONS = {"aten::mm", "aten::addmm", "aten::addmm_"}


class CountProducts(TorchDispatchMode):
    """Counts the matrix products that projections make; the operators' own are batched ones."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.name().split(".")[0] in PROJECTIONS
        return func(*args, **(kwargs or {}))


def tokens(batch: int = 2, length: int = 5) -> torch.Tensor:
    return torch.randint(40, (batch, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("layer", "fused", "apart"),
    [("jmc.atp", 4, 18), ("j.a", 4, 6), ("j.t", 4, 6), ("m.p", 4, 6)],
)
def test_a_stage_takes_one_product_a_branch_each_way(
    layer: str, fused: int, apart: int, registry: Registry
) -> None:
    spec = FOLNET.replace({"model.operators.layer": layer, "model.dims.layers": 1})
    for fuse, expected in ((True, fused), (False, apart)):
        model = peirce.build(spec, fuse=fuse, registry=registry).eval()
        (stage,) = (m for m in model.modules() if isinstance(m, Mixing))
        counter, counts = CountProducts(), []

        def note(*_: object, counter: CountProducts = counter, counts: list[int] = counts) -> None:
            counts.append(counter.count)

        stage.register_forward_pre_hook(note)
        stage.register_forward_hook(note)
        with counter, torch.no_grad():
            model(input_ids=tokens())
        before, after = counts
        assert after - before == expected


@pytest.mark.parametrize("spec", [FOLNET, TRANSFORMER, ENCODER_DECODER], ids=lambda s: s.name)
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no-grad"])
def test_fused_and_unfused_are_one_network(spec: Spec, grad: bool, registry: Registry) -> None:
    spec = spec.replace({"model.dims.layers": 1, "model.regularisation.dropout": 0.0})
    models = [
        peirce.build(spec, fuse=f, registry=registry, dtype=torch.float64).eval() for f in (True, False)
    ]
    assert models[0].state_dict().keys() == models[1].state_dict().keys()
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    with torch.set_grad_enabled(grad):
        target = {"decoder_input_ids": tokens()} if spec.name == ENCODER_DECODER.name else {}
        one, other = (m(input_ids=tokens(), attention_mask=mask, **target) for m in models)
    for name, value in one.items():
        assert (value - other[name]).abs().max() <= 1e-12 * value.abs().max()
    if grad:
        for outputs in (one, other):
            sum(v.square().sum() for v in outputs.values()).backward()
        for (name, p), q in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
            assert torch.allclose(p.grad, q.grad, rtol=1e-10, atol=1e-12), name


def test_kept_weights_follow_every_change(registry: Registry) -> None:
    fused, apart = (peirce.build(FOLNET, fuse=f, registry=registry).eval() for f in (True, False))

    def agree() -> bool:
        with torch.no_grad():
            one, other = (m(input_ids=tokens())["unary"] for m in (fused, apart))
        return torch.allclose(one, other, atol=1e-5)

    assert agree()
    with torch.no_grad():  # an optimiser step in evaluation mode
        for p in (*fused.parameters(), *apart.parameters()):
            p.add_(0.01)
    assert agree()
    apart.load_state_dict(peirce.build(FOLNET, seed=7, registry=registry).state_dict())
    fused.load_state_dict(apart.state_dict())
    assert agree()
    fused.double()
    apart.double()
    assert agree()
    fused.float()
    apart.float()
    with torch.inference_mode():
        kept = fused(input_ids=tokens())["unary"].clone()
    assert torch.equal(kept, fused(input_ids=tokens())["unary"].detach())


def test_folded_weights_are_constants(registry: Registry) -> None:
    model = peirce.build(FOLNET, registry=registry).eval()
    expected = model(input_ids=tokens())["unary"]
    with constant_weights(model):
        inside = model(input_ids=tokens())["unary"]
    assert torch.equal(inside, expected.detach())
    assert model(input_ids=tokens())["unary"].requires_grad


@pytest.mark.parametrize("fused", [False, True])
def test_kept_weights_follow_the_steps_of_optimizers(fused: bool) -> None:
    maps = [(nn.Linear(3, 2), 1.0), (nn.Linear(3, 4), 0.5)]
    owner = nn.ModuleList(linear for linear, _ in maps)
    joined = FusedLinear([(owner, str(i), scale) for i, (_, scale) in enumerate(maps)], "outputs")
    optimizer = torch.optim.AdamW([p for linear, _ in maps for p in linear.parameters()], lr=0.1, fused=fused)
    atoms = torch.randn(5, 3)
    for _ in range(3):
        with torch.no_grad():
            before = torch.cat(
                list(joined.read(atoms)), -1
            )  # kept from here on, and never joined with gradients
        for linear, _ in maps:
            for parameter in linear.parameters():
                parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        with torch.no_grad():
            after = torch.cat(list(joined.read(atoms)), -1)
        expected = torch.cat([scale * linear(atoms) for linear, scale in maps], -1)
        assert not torch.allclose(after, before)
        torch.testing.assert_close(after, expected.detach())


def test_importing_kernels_hooks_no_optimizer() -> None:
    script = """
import torch.optim.optimizer as optimizer
from peirce.kernels import Cache, FusedLinear
assert not optimizer._global_optimizer_post_hooks
"""
    subprocess.run([sys.executable, "-c", script], check=True)
