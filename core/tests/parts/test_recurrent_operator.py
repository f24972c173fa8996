"""The loop that runs recurrent operators: traced as run, from a state, past padding, and by a third party's part."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_specs import FOLNET, RECURRENT
from torch import Tensor, nn

import peirce
from peirce.compose import build, load
from peirce.errors import PlanError
from peirce.networks import recur
from peirce.parts import Dims, RecurrentOperator
from peirce.registry import Registry
from peirce_basics import plugin as basics
from peirce_basics.operators.gated import LSTM
from peirce_folnet import plugin as folnet

DIMS = Dims(layers=1, unary=5, recurrent=4, vocabulary=9)


class Unbinds(RecurrentOperator):
    """A state that is bound to frozen roles and read back, as TPRU's: what steps use is made once a pass."""

    name = "unbinds"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.write = nn.Linear(dims.unary, dims.recurrent)
        self.maps = nn.Parameter(torch.randn(dims.recurrent, 3))
        self.roles: Tensor
        self.register_buffer("roles", torch.randn(3, dims.recurrent))

    def read(self, atoms: Tensor) -> Tensor:
        return self.write(atoms)

    def weights(self) -> Mapping[str, Tensor]:
        return {"unbinding": self.maps @ self.roles}

    def initial(self) -> Mapping[str, Tensor]:
        return {"bound": self.maps.new_zeros(self.maps.shape[0])}

    def step(
        self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        bound = (read + state["bound"] @ weights["unbinding"]).tanh()
        return bound.square(), {"bound": bound}

    def reference(self, atoms: list[list[float]], parameters: Mapping[str, Any]) -> list[list[float]]:
        raise NotImplementedError


class Misshapen(Unbinds):
    """Gives one number too few."""

    name = "misshapen"

    def step(
        self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        output, after = super().step(state, read, weights)
        return output[:, 1:], after


class Forgets(Unbinds):
    """Drops a tensor of its state."""

    name = "forgets"

    def step(
        self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        return super().step(state, read, weights)[0], {}


@pytest.fixture(scope="module")
def own() -> Registry:
    """The operators above beside the parts that ship."""
    parts = SimpleNamespace(register_operators=peirce.hookimpl(lambda: [Unbinds, Misshapen, Forgets]))
    return Registry.of(basics, folnet, parts)


SPEC = RECURRENT.replace(
    {
        "model.operators.layer": "unbinds",
        "model.options.directions": "both",
        "model.scope.kind": "bidirectional",
        "model.heads": [],
    }
)


class Run(nn.Module):
    """A recurrent operator as a module that can be traced."""

    def __init__(self, operator: RecurrentOperator) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, atoms: Tensor, real: Tensor) -> Any:
        outputs, state = recur(self.operator, atoms, None, real)
        return recur(self.operator, atoms)[0], outputs, *state.values()


@pytest.mark.parametrize("cell", [LSTM, Unbinds])
def test_the_traced_scan_is_the_loop_at_every_length(cell: Any) -> None:
    run = Run(cell(None, DIMS)).double().eval().requires_grad_(False)
    length = torch.export.Dim("length")
    given = torch.randn(2, 5, 5, dtype=torch.float64), torch.ones(2, 5, dtype=torch.bool)
    program = torch.export.export(run, given, dynamic_shapes=({1: length}, {1: length}))
    calls = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert calls.count("scan") == 2
    atoms, real = torch.randn(2, 11, 5, dtype=torch.float64), torch.rand(2, 11) < 0.5
    for traced, eager in zip(program.module()(atoms, real), run(atoms, real), strict=True):
        torch.testing.assert_close(traced, eager)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_model_of_half_precision_steps_in_float32(kind: torch.dtype) -> None:
    met = set()

    class Noting(Unbinds):
        def step(
            self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
        ) -> tuple[Tensor, Mapping[str, Tensor]]:
            met.update(each.dtype for each in (read, *state.values(), *weights.values()))
            return super().step(state, read, weights)

    operator = Noting(None, DIMS).to(kind)
    outputs, state = recur(operator, torch.randn(2, 4, 5, dtype=kind))
    assert outputs.dtype == state["bound"].dtype == kind
    recur(operator, torch.randn(2, 4, 5, dtype=kind), state)
    assert met == {torch.float32}


def test_a_third_partys_operator_is_a_layer_and_its_buffers_are_saved(own: Registry, tmp_path: Any) -> None:
    model = build(SPEC, registry=own, dtype=torch.float64).eval()
    assert model.network.layers[0].backwards.roles.shape == (3, 3)
    assert "network.layers.1.forwards.roles" in model.state_dict()
    model.save(tmp_path / "model")
    inputs = {"input_ids": torch.tensor([[3, 4, 5]])}
    again = load(tmp_path / "model", registry=own).eval()
    torch.testing.assert_close(again(**inputs), model(**inputs))


def test_what_does_not_fit_is_refused_before_a_tensor_exists(own: Registry) -> None:
    with pytest.raises(PlanError, match=r"'misshapen' cannot .* returns \[2\] numbers for a token, not 3"):
        build(SPEC.replace({"model.operators.layer": "misshapen"}), registry=own)
    with pytest.raises(PlanError, match=r"'forgets' cannot .* fails to run it .* KeyError: 'bound'"):
        build(SPEC.replace({"model.operators.layer": "forgets"}), registry=own)
    with pytest.raises(PlanError, match=r"keep one of lstm, join"):
        build(FOLNET.replace({"model.operators.layer": [{"use": "lstm"}, {"use": "join"}]}), registry=own)
