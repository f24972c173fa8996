"""BetaE and ConE: their equations on numbers worked by hand, and queries against the operators of their trees."""

from __future__ import annotations

import math
from copy import deepcopy
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from query_systems import ENTITIES, TYPES, VOCABULARY, grounded, named_tokens, run, small, tree_of
from torch import Tensor

from peirce.compose import build
from peirce.registry import Registry, load_spec
from peirce_kg.encoding.inputs import join_batches
from peirce_kg.encoding.literal_inputs import query_literals
from peirce_kg.parts.heads import distances
from peirce_kg.parts.systems import clmpt, fuzzqe, lmpnn, set_system
from peirce_kg.parts.systems.betae import BetaE
from peirce_kg.parts.systems.cone import ConE
from peirce_kg.parts.systems.fuzzqe import FuzzQE
from peirce_kg.parts.systems.set_system import SetSystem
from peirce_kg.task import overrides_of
from peirce_queries.engine.template import Template
from peirce_queries.languages.language import Constant, parse
from peirce_queries.languages.lisp import Complement, Intersection, Projection, SetExpression, parse_lisp
from peirce_queries.languages.types import QueryType

TREES = [name for name, kind in TYPES.items() if BetaE.why_unsupported(Template.of(kind.query)) is None]


def _set_linear(layer: torch.nn.Module, weight: list[list[float]], bias: list[float]) -> None:
    with torch.no_grad():
        layer.get_parameter("weight").copy_(torch.tensor(weight))
        layer.get_parameter("bias").copy_(torch.tensor(bias))


def _tensor(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("name", ["betae", "cone"])
def test_networks_begin_by_xavier_with_uniform_biases(name: str, registry: Registry) -> None:
    model = build(load_spec(name, {"model.dims.unary": 20, **overrides_of(VOCABULARY)}), registry=registry)
    layers = [module for module in model.network.modules() if isinstance(module, torch.nn.Linear)]
    for layer in layers:
        bounds = (6 / (layer.in_features + layer.out_features)) ** 0.5, layer.in_features**-0.5
        for values, bound in zip((layer.weight, layer.bias), bounds, strict=True):
            assert 0.7 * bound < values.abs().max() <= bound
    assert len(layers) == {"betae": 5, "cone": 7}[name]


def test_betae_projects_by_its_network(registry: Registry) -> None:
    network = small("betae", registry, width=2).network
    first, second, last = network.projection
    _set_linear(first, [[1, 2, 3]] + [[0, 0, 0]] * 4, [0] * 5)
    _set_linear(second, [[1, 0, 0, 0, 0]] + [[0] * 5] * 4, [-2, 0, 0, 0, 0])
    _set_linear(last, [[1, 0, 0, 0, 0], [-2, 0, 0, 0, 0]], [0, 1])
    # (1.5, 2) and r = 0.5: 1.5 + 4 + 1.5 = 7, less 2 = 5; then 5 and 1 - 10 = -9; positive: 6 and 0.05.
    found = network.project(_tensor([1.5, 2.0]), _tensor([0.5, 99.0]))
    torch.testing.assert_close(found, _tensor([6.0, 0.05]))


def test_betae_intersects_by_attention_and_complements_by_reciprocals(registry: Registry) -> None:
    network = small("betae", registry, width=2).network
    first, second = network.attention
    _set_linear(first, [[1, 0], [0, 1]], [0, 0])
    _set_linear(second, [[math.log(3) / 6, 0]], [0])
    # The scores differ by log 3, so the weights are 3/4 and 1/4.
    both = _tensor([8.0, 14.0], [2.0, 20.0], [50.0, 50.0]).unsqueeze(0)
    found = network.intersect(both, torch.tensor([[[True, True, False]]]))
    torch.testing.assert_close(found[0], _tensor([6.5, 15.5]))
    torch.testing.assert_close(network.complement(_tensor([4.0, 0.5])), _tensor([0.25, 2.0]))


def test_beta_scores_are_divergences_of_an_entity_from_a_set(registry: Registry) -> None:
    head = small("betae", registry, margin=60.0).heads["entities"]
    torch.manual_seed(0)
    entities, answers = (torch.rand(n, 6, dtype=torch.float64) * 4 + 0.1 for n in (5, 3))
    of_entities, of_answers = (
        torch.distributions.Beta(*each.chunk(2, 2)) for each in (entities[None], answers[:, None])
    )
    wanted = torch.distributions.kl_divergence(of_entities, of_answers).sum(2)
    torch.testing.assert_close(head.scores(answers, entities), 60 - wanted, atol=1e-8, rtol=1e-8)


def test_cone_projects_by_turning_and_widening(registry: Registry) -> None:
    network = small("cone", registry, width=2, bare=True).network
    first, second, last = network.projection
    _set_linear(first, [[1, 1]] + [[0, 0]] * 4, [0] * 5)
    _set_linear(second, [[1, 0, 0, 0, 0]] + [[0] * 5] * 4, [0] * 5)
    _set_linear(last, [[0.1, 0, 0, 0, 0], [-0.1, 0, 0, 0, 0]], [0, 0])
    scaled = torch.atanh(_tensor([0.5, 0.25])) * network.range / math.pi  # a relation of pi / 2 and pi / 4
    mixed = 0.1 * (1.0 + math.pi / 2 + 2.0 + math.pi / 4)
    found = network.project(_tensor([1.0, 2.0]), scaled)
    wanted = _tensor([math.pi * math.tanh(mixed), math.pi * math.tanh(-2 * mixed) + math.pi])
    torch.testing.assert_close(found, wanted)


def test_cone_intersects_directions_and_narrows_the_least_aperture(registry: Registry) -> None:
    network = small("cone", registry, width=2, bare=True).network
    for layers in (network.attention, network.narrowing):
        _set_linear(layers[0], [[0, 0]], [0])
        _set_linear(layers[1], [[0]], [0])
    # Equal weights: the mean of directions 0 and pi / 2 is pi / 4; sigma(0) halves the least aperture, 1.
    both = _tensor([0.0, 3.0], [math.pi / 2, 1.0], [3.0, 0.1]).unsqueeze(0)
    found = network.intersect(both, torch.tensor([[[True, True, False]]]))
    torch.testing.assert_close(found[0], _tensor([math.pi / 4, 0.5]))
    turned = network.complement(_tensor([1.0, 0.5], [-1.0, 6.0]))
    wanted = _tensor([1.0 - math.pi, 2 * math.pi - 0.5], [math.pi - 1.0, 2 * math.pi - 6.0])
    torch.testing.assert_close(turned, wanted)


def _published_cone(network: ConE, expression: SetExpression | Constant, ids: dict[str, int]) -> Any:
    """The published code's axis and half aperture of a set, operator by operator."""

    def angle(values: Tensor) -> Tensor:
        return torch.tanh(values / network.range) * math.pi

    if isinstance(expression, Constant):
        axis = angle(network.vectors[ids[expression.name]])
        return axis, torch.zeros_like(axis)
    if isinstance(expression, Projection):
        axis, half = _published_cone(network, expression.source, ids)
        token = ids[expression.relation]
        place = token - len(VOCABULARY.entity_names)  # of tokens that are no entities
        x = torch.cat([axis + angle(network.vectors[token]), half + angle(network.apertures[place])])
        for layer in list(network.projection)[:-1]:
            x = (layer.weight @ x + layer.bias).relu()
        x = network.projection[-1].weight @ x + network.projection[-1].bias
        axis, half = x.chunk(2)
        return torch.tanh(axis) * math.pi, torch.tanh(2 * half) * math.pi / 2 + math.pi / 2
    if isinstance(expression, Complement):
        axis, half = _published_cone(network, expression.operand, ids)
        return torch.where(axis >= 0, axis - math.pi, axis + math.pi), math.pi - half
    parts = [_published_cone(network, operand, ids) for operand in expression.operands]
    axis, half = torch.stack([a for a, _ in parts]), torch.stack([b for _, b in parts])
    borders = torch.cat([axis - half, axis + half], 1)
    weights = network.attention[1](network.attention[0](borders).relu()).softmax(0)
    x, y = (weights * axis.cos()).sum(0), (weights * axis.sin()).sum(0)
    x = torch.where(x.abs() < 1e-3, 1e-3, x)
    turned = torch.atan(y / x)
    turned = torch.where((x < 0) & (y >= 0), turned + math.pi, turned)
    turned = torch.where((x < 0) & (y < 0), turned - math.pi, turned)
    gate = network.narrowing[1](network.narrowing[0](borders).relu().mean(0)).sigmoid()
    return turned, half.amin(0) * gate


def test_cone_agrees_with_its_published_code(registry: Registry) -> None:
    model = small("cone", registry)
    network, head = model.network, model.heads["entities"]
    assert isinstance(network, ConE)
    for kind in TREES:
        template, groundings = grounded(kind, rows=1)
        if len(template.conjunctions) > 1:
            continue
        with torch.no_grad():
            axis, half = _published_cone(network, tree_of(kind), named_tokens(template, groundings, 0))
            entities = torch.tanh(network.vectors[ENTITIES] / network.range) * math.pi
            near = ((entities - axis) / 2).sin().abs()
            edge = (half / 2).sin().abs()
            low, high = (((entities - (axis + side * half)) / 2).sin().abs() for side in (-1, 1))
            outside = torch.where(near < edge, 0, torch.minimum(low, high)).sum(1)
            wanted = 30 - (outside + 0.02 * torch.minimum(near, edge).sum(1)) * head.scale
        found = run(model, template, groundings)[0]
        torch.testing.assert_close(found, wanted, msg=lambda text, kind=kind: f"{kind}: {text}")


def test_in_the_published_form_apertures_are_dropped_out(registry: Registry) -> None:
    model = small("cone", registry).train()
    literals = query_literals(*grounded("2i", rows=3), VOCABULARY)
    inputs = {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in literals.items()}
    assert len({model(**inputs)["entities_logits"].sum().item() for _ in range(20)}) > 1


def test_an_answer_that_is_not_rewarded_is_no_negative(registry: Registry) -> None:
    head = small("betae", registry).heads["entities"]
    scores = torch.tensor([[2.0, 1.0, -1.0, 0.5, 3.0]])
    labels = torch.tensor([[0.0, 1.0, -1.0, 0.0, 0.0]])
    wanted = math.log(1 + math.exp(-1.0)) + sum(math.log(1 + math.exp(s)) for s in (2.0, 0.5, 3.0)) / 3
    assert head.loss({"logits": scores}, labels).item() == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["betae", "cone", "lmpnn"])
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_what_is_given_alone(name: str, kind: torch.dtype, registry: Registry) -> None:
    half = small(name, registry, width=64).to(kind)
    with torch.no_grad():  # vectors that half precision holds, and products of which it does not
        half.network.get_parameter("vectors").mul_(1e-2 if name == "lmpnn" else 1)
    exact = deepcopy(half).float()
    for query in ("2p", "2in", "inp"):
        template, groundings = grounded(query, rows=20)
        found, wanted = run(half, template, groundings), run(exact, template, groundings)
        assert found.dtype == kind
        assert torch.equal(found, wanted.to(kind)), query


def test_portions_of_entities_change_nothing(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small("cone", registry).train()
    answers = torch.rand(3, 6, dtype=torch.float64, requires_grad=True)
    entities = torch.rand(5, 6, dtype=torch.float64)
    gradients = []
    for numbers in (2**24, 1):
        monkeypatch.setattr(distances, "NUMBERS", numbers)
        scores = model.heads["entities"].scores(answers, entities)
        (gradient,) = torch.autograd.grad(scores.square().sum(), answers)
        gradients.append((scores, gradient))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def _of_tree(network: SetSystem, tree: SetExpression | Constant, ids: dict[str, int]) -> list[Tensor]:
    """The sets of a tree's disjuncts, operator by operator."""
    if isinstance(tree, Constant):
        return [network.entities(network.names()[ids[tree.name]])]
    if isinstance(tree, Projection):
        relation = network.names()[ids[tree.relation]]
        return [network.project(source, relation) for source in _of_tree(network, tree.source, ids)]
    if isinstance(tree, Complement):
        return [network.complement(operand) for operand in _of_tree(network, tree.operand, ids)]
    operands = [_of_tree(network, operand, ids) for operand in tree.operands]
    if isinstance(tree, Intersection):
        chosen = torch.ones(1, 1, len(operands), dtype=torch.bool)
        return [network.intersect(torch.stack(some)[None], chosen)[0, 0] for some in product(*operands)]
    return [disjunct for operand in operands for disjunct in operand]


def test_points_and_boxes_are_moved_met_and_compared(registry: Registry) -> None:
    gqe, box = (small(name, registry, width=n, margin=5.0) for name, n in (("gqe", 2), ("query2box", 4)))
    for network in (gqe.network, box.network):
        first, second = network.attention
        _set_linear(first, [[1, 0]] + [[0, 0]] * 4, [0] * 5)
        _set_linear(second, [[math.log(3) / 6, 0, 0, 0, 0]] * 2, [0, 0])
    point = gqe.network.project(_tensor([1.0, 2.0]), _tensor([0.5, -1.0]))
    torch.testing.assert_close(point, _tensor([1.5, 1.0]))
    # The scores differ by log 3, so the weights are 3/4 and 1/4.
    both, chosen = (
        _tensor([8.0, 14.0], [2.0, 20.0], [50.0, 50.0])[None],
        torch.tensor([[[True, True, False]]]),
    )
    torch.testing.assert_close(gqe.network.intersect(both, chosen)[0], _tensor([6.5, 15.5]))
    scores = gqe.heads["entities"].scores(_tensor([1.0, 2.0]), _tensor([0.0, 5.0], [1.5, 2.0]))
    torch.testing.assert_close(scores, _tensor([5 - 4.0, 5 - 0.5]))
    for layer, rows in zip(box.network.narrowing, (5, 2), strict=True):
        _set_linear(layer, [[0.0] * (7 - rows)] * rows, [0.0] * rows)
    both = _tensor([8.0, 14.0, 3.0, 1.0], [2.0, 20.0, 1.0, 4.0], [50.0, 50.0, 0.0, 0.0])[None]
    # sigma(0) halves the least reaches, 1 and 1.
    torch.testing.assert_close(box.network.intersect(both, chosen)[0], _tensor([6.5, 15.5, 0.5, 0.5]))
    moved = box.network.project(_tensor([1.0, 2.0, 0.0, 0.5]), _tensor([1.0, -1.0, 0.25, 1.0]))
    torch.testing.assert_close(moved, _tensor([2.0, 1.0, 0.25, 1.5]))
    # Outside by 0.75 in the first dimension, within in the second: 0.25 and 1 of the inside.
    scores = box.heads["entities"].scores(moved, _tensor([3.0, 2.0, 9.0, 9.0]))
    torch.testing.assert_close(scores, _tensor([5 - 0.75 - 0.02 * 1.25]))


def _fuzzy(network: FuzzQE, tree: SetExpression | Constant, ids: dict[str, int]) -> Tensor:
    """The memberships of a set, operator by operator and basis by basis."""
    vectors = network.vectors

    def member(values: Tensor, operation: int) -> Tensor:
        scale, shift = network.maps[operation]
        return (scale * values + shift).sigmoid()

    def norm(values: Tensor) -> Tensor:
        return (values - values.mean()) / (values.var(correction=0) + 1e-5).sqrt()

    if isinstance(tree, Constant):
        return member(vectors[ids[tree.name]], 0)
    if isinstance(tree, Projection):
        source, weights = _fuzzy(network, tree.source, ids), vectors[ids[tree.relation]]
        mixed = sum(
            weights[j] * (source @ network.matrices[j] + network.biases[j]) for j in range(network.bases)
        )
        assert isinstance(mixed, Tensor)
        return member(norm(mixed), 1)
    if isinstance(tree, Complement):
        return 1 - _fuzzy(network, tree.operand, ids)
    parts = torch.stack([_fuzzy(network, operand, ids) for operand in tree.operands])
    if isinstance(tree, Intersection):
        return member(norm(parts.prod(0)), 2)
    return member(parts.sum(0) - parts.prod(0), 3)


def test_fuzzy_sets_are_joined_where_the_formula_joins_them(registry: Registry) -> None:
    model = small("fuzzqe", registry)
    network, head = model.network, model.heads["entities"]
    assert isinstance(network, FuzzQE)
    more = {
        "2u2u": "((r1(s1,e1))|(r2(s2,e1)))&(r3(e1,f))&((r4(s3,e2))|(r5(s4,e2)))&(r6(e2,f))",
        "2pup": "((r1(s1,e1))|((r2(s2,e2))&(r3(e2,e1))))&(r4(e1,f))",
    }
    trees = {name: tree_of(name) for name in TREES} | {
        "unpi": parse_lisp("(i,(n,(p,(r3),(u,(p,(r1),(s1)),(p,(r2),(s2))))),(p,(r5),(p,(r4),(s3))))"),
        "2u2u": parse_lisp(
            "(i,(p,(r3),(u,(p,(r1),(s1)),(p,(r2),(s2)))),(p,(r6),(u,(p,(r4),(s3)),(p,(r5),(s4)))))"
        ),
        "2pup": parse_lisp("(p,(r4),(u,(p,(r1),(s1)),(p,(r3),(p,(r2),(s2)))))"),
    }
    for name, tree in trees.items():
        kind = QueryType(name, parse(more[name]), seen=False) if name in more else TYPES[name]
        template, groundings = grounded(kind, rows=6)
        found = run(model, template, groundings)
        for row in range(6):
            names = named_tokens(template, groundings, row)
            branches = kind.query.ground({n: f"x{i}" for n, i in names.items()}).conjunctions()
            if len({frozenset(branch) for branch in branches}) < len(template.conjunctions):
                continue  # two branches say the same
            with torch.no_grad():
                asked, entities = _fuzzy(network, tree, names), network.entities(network.vectors[ENTITIES])
                wanted = head.scores(asked.unsqueeze(0), entities)[0]
            torch.testing.assert_close(
                found[row], wanted, msg=lambda text, name=name: f"{name}: {text}", rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("name", ["betae", "cone", "gqe", "query2box"])
def test_queries_are_what_their_operators_give(name: str, registry: Registry) -> None:
    model = small(name, registry)
    network, head = model.network, model.heads["entities"]
    assert isinstance(network, SetSystem)
    assert len(TREES) == 30
    for kind in TREES:
        template, groundings = grounded(kind)
        if type(network).why_unsupported(template) is not None:
            assert template.negated
            continue
        tree, scores = tree_of(kind), run(model, template, groundings)
        for row in range(len(groundings)):
            with torch.no_grad():
                disjuncts = torch.stack(_of_tree(network, tree, named_tokens(template, groundings, row)))
                points = network.points(network.names())[ENTITIES]
                wanted = head.scores(disjuncts, points).amax(0)
            torch.testing.assert_close(scores[row], wanted, msg=lambda text, kind=kind: f"{kind}: {text}")


@pytest.mark.parametrize("name", ["betae", "clmpt", "cone", "fuzzqe", "gqe", "lmpnn", "q2p", "query2box"])
def test_mixed_and_traced_batches(name: str, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(name, registry)
    kinds = ("1p", "3p", "ip" if name in ("gqe", "query2box") else "2in", "upi")
    alone = torch.cat([run(model, *grounded(kind)) for kind in kinds])
    mixed = join_batches([query_literals(*grounded(kind), VOCABULARY) for kind in kinds])
    inputs = {key: torch.from_numpy(np.ascontiguousarray(values)) for key, values in mixed.items()}
    torch.testing.assert_close(model(**inputs)["entities_logits"], alone)
    monkeypatch.setattr(distances, "has_static_shapes", lambda values: True)
    for module in (set_system, clmpt, fuzzqe, lmpnn):
        monkeypatch.setattr(module, "on_cpu", lambda values: False)
    torch.testing.assert_close(model(**inputs)["entities_logits"], alone)
