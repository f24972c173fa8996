"""experts: against the balancing losses of transformers' Mixtral and of Switch."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from small_specs import TRANSFORMER

import peirce
from peirce.algebra import Predicates, Scope
from peirce.errors import PlanError
from peirce.parts import Dims
from peirce.registry import Registry
from peirce_basics.operators.experts import BALANCE, Experts, ExpertsOptions

DIMS = Dims(layers=1, unary=6, feedforward_unary=10, vocabulary=9)
REAL = torch.tensor([[True] * 5, [True, True, False, False, False]])


def _experts(**options: Any) -> Experts:
    torch.manual_seed(0)
    return Experts(ExpertsOptions(**options), DIMS).double()


def test_the_balancing_loss_is_that_of_mixtral_and_counts_no_padding() -> None:
    mixtral = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
    part, atoms = _experts(experts=4, balance=1.0).train(), torch.randn(2, 5, 6).double()
    atoms[~REAL] = 7.0
    part(Predicates(atoms), Scope.padding(REAL))
    (found,) = part.terms().values()
    logits = atoms.flatten(0, 1) @ part.router.weight.T
    wanted = mixtral.load_balancing_loss_func((logits.float(),), 4, 2, REAL.long())
    assert float(found.detach()) == pytest.approx(float(wanted.detach()), abs=1e-5)
    found.backward()
    assert part.router.weight.grad is not None
    assert not part.terms(), "a term is given once"
    part.eval()(Predicates(atoms), Scope.padding(REAL))
    assert not part.terms()


def test_the_balancing_loss_is_that_of_switch() -> None:
    part = _experts(experts=4, top_k=1, normalise=False, balance=0.01).train()
    atoms = torch.randn(1, 50, 6).double()
    part(Predicates(atoms), Scope())
    chances = (atoms[0] @ part.router.weight.T).detach().softmax(1)
    shares = torch.bincount(chances.argmax(1), minlength=4).double() / 50
    wanted = 0.01 * 4 * sum(float(f) * float(p) for f, p in zip(shares, chances.mean(0), strict=True))
    assert float(part.terms()[BALANCE].detach()) == pytest.approx(wanted, abs=1e-12)


def test_every_parameter_has_a_gradient_even_of_an_expert_that_nobody_chose() -> None:
    part = _experts(experts=6)
    with torch.no_grad():
        part.router.weight.zero_()  # ties: the first two are chosen
    part(Predicates(torch.randn(1, 3, 6).double()), Scope()).unary.sum().backward()
    assert all(parameter.grad is not None for parameter in part.parameters())


def _spec(**options: Any) -> peirce.Spec:
    return TRANSFORMER.replace({"model.operators.state": [{"use": "experts", **options}]})


def test_a_training_adds_the_term_of_every_layer(registry: Registry) -> None:
    model = peirce.build(_spec(experts=4), registry=registry).train()
    ids = torch.randint(40, (2, 5), generator=torch.Generator().manual_seed(0))
    model(input_ids=ids)
    deepcopy(model)  # though the term of the pass has a graph
    parts = [module for module in model.modules() if isinstance(module, Experts)]
    assert len(parts) == 2
    each = [part._balance for part in parts]
    assert torch.equal(model.terms()[BALANCE], sum(each[1:], each[0]))
    assert not model.terms()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"experts": 2, "top_k": 3}, ["top_k = 3", "2 experts"]),
        ({"top_k": 1}, ["normalise = false"]),
        ({"network": "relu", "tanh": True}, ["tanh", "relu"]),
    ],
)
def test_impossible_options_are_refused(
    options: dict[str, Any], words: list[str], registry: Registry
) -> None:
    with pytest.raises(PlanError) as caught:
        peirce.build(_spec(**options), registry=registry)
    assert all(word in str(caught.value) for word in words), str(caught.value)
