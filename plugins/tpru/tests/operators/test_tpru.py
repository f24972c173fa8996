"""The recurrent unit: the published numbers, its own derivative, its counts, and what a hook reads of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from peirce.networks import recur
from peirce.parts import Dims
from peirce_tpru.operators.tpru import TPRU, TPRUOptions
from peirce_tpru.published import NAMES


def unit(unary: int, recurrent: int, **options: object) -> TPRU:
    torch.manual_seed(0)
    return TPRU(TPRUOptions(**options), Dims(layers=1, vocabulary=9, unary=unary, recurrent=recurrent))


def test_the_published_states(shared: Path) -> None:
    folder = shared / "golden" / "tpru" / "small"
    tensors, arrays = load_file(folder / "weights.safetensors"), np.load(folder / "io.npz")
    roles, size = tensors["basis"].shape
    inputs, wanted = torch.from_numpy(arrays["inputs"]), torch.from_numpy(arrays["states"])
    operator = unit(inputs.shape[2], size, roles=roles, tanh=False, state_map=True, bias=True)
    operator.load_state_dict({NAMES[name]: value for name, value in tensors.items()})
    real = torch.arange(inputs.shape[1]) < torch.from_numpy(arrays["lengths"]).unsqueeze(1)
    first = {"state": torch.from_numpy(arrays["initial_state"])}
    states, _ = recur(operator, inputs, first, real)
    # Published padding has zero states, which the architecture gives; here the rows of padding are left out.
    error = (states - wanted).masked_fill(~real.unsqueeze(2), 0).abs().max() / wanted.abs().max()
    assert error < 1e-5


VARIANTS = [{}, {"tanh": False}, {"state_map": True}, {"bias": True}, {"state_map": True, "bias": True}]


@pytest.mark.parametrize("options", VARIANTS)
def test_the_whole_text_is_the_steps_and_has_their_gradients(options: dict[str, bool]) -> None:
    operator = unit(5, 4, roles=7, **options).double()
    atoms = torch.randn(3, 6, 5, dtype=torch.float64, requires_grad=True)
    given = [atoms, *operator.parameters()]
    fused, steps = operator.fused(atoms), recur(operator, atoms)[0]
    assert fused is not None
    torch.testing.assert_close(fused, steps)
    weights = torch.randn_like(steps)
    for ours, theirs in zip(
        torch.autograd.grad(fused, given, weights), torch.autograd.grad(steps, given, weights), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("options", VARIANTS)
def test_what_is_kept_without_gradients_follows_the_parameters(options: dict[str, bool]) -> None:
    operator, atoms = unit(5, 4, roles=7, **options), torch.randn(3, 6, 5)
    with torch.no_grad():
        operator.fused(atoms)
        for parameter in operator.parameters():
            parameter.mul_(1.5)
        found = [operator.fused(atoms), recur(operator, atoms)[0]]
    for states in found:
        torch.testing.assert_close(states, operator.fused(atoms))


def test_fillers_that_are_all_zero_have_no_gradient_and_no_share() -> None:
    operator = unit(5, 4, roles=7).double()
    for offset in (operator.state_offset, operator.token_offset):
        torch.nn.init.constant_(offset, -1e3)
    atoms = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    states = operator.fused(atoms)
    assert states is not None
    assert states.eq(0).all()  # nothing is bound, from a state of zeros
    (gradient,) = torch.autograd.grad(states.sum(), atoms)
    assert gradient.isfinite().all()


def test_a_hook_reads_the_share_of_each_role_at_each_token() -> None:
    operator, seen = unit(5, 4, roles=7), list[torch.Tensor]()
    atoms = torch.randn(2, 3, 5)
    unread = operator.fused(atoms)
    handle = operator.fillers.register_forward_hook(lambda module, given, result: seen.append(result))
    assert operator.fused(atoms) is None
    states = recur(operator, atoms)[0]
    handle.remove()
    assert unread is not None
    torch.testing.assert_close(states, unread)
    assert [each.shape for each in seen] == [(2, 7)] * 3
    for each in seen:
        torch.testing.assert_close(each.sum(1), torch.ones(2))
        assert each.ge(0).all()
