"""Query2Particles: queries against the published equations, set by set and particle by particle."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from query_systems import ENTITIES, SMALL, TYPES, grounded, named_tokens, run, small, tree_of
from torch import Tensor

from peirce.registry import Registry
from peirce_kg.parts.systems.betae import BetaE
from peirce_kg.parts.systems.q2p import Q2P
from peirce_queries.languages.language import Constant
from peirce_queries.languages.lisp import Complement, Intersection, Projection, SetExpression, Union

Particles = list[Tensor]
"""The particles of a set, [d] each."""


def _normed(norm: Any, vector: Tensor) -> Tensor:
    centred = vector - vector.mean()
    return norm.weight * centred / (centred.square().mean() + 1e-6).sqrt() + norm.bias


def _map(layer: Any, vector: Tensor) -> Tensor:
    return layer.weight @ vector + layer.bias


def _attended(attention: Any, vectors: Particles) -> Particles:
    """Each becomes a mean of all, by the softmax of scaled products, of vectors that one matrix mapped."""
    told = [_map(attention.map, vector) for vector in vectors]
    found = []
    for one in told:
        weights = torch.stack([(one @ other) / len(one) ** 0.5 for other in told]).exp()
        found.append(sum(w * other for w, other in zip(weights / weights.sum(), told, strict=True)))
    return found  # type: ignore[return-value]


def _mixed(mixing: Any, vectors: Particles, rounds: int) -> Particles:
    for turn in range(rounds):
        vectors = [_normed(mixing.norms[2 * turn], v) for v in _attended(mixing.attention, vectors)]
        wide = [_map(mixing.narrow, torch.nn.functional.gelu(_map(mixing.wide, v))) for v in vectors]
        vectors = [_normed(mixing.norms[2 * turn + 1], v + w) for v, w in zip(vectors, wide, strict=True)]
    return vectors


def _sets(network: Q2P, tree: SetExpression | Constant, ids: dict[str, int]) -> list[Particles]:
    """The answer sets of a tree's disjuncts."""
    if isinstance(tree, Constant):
        return [[network.vectors[ids[tree.name]] + offset for offset in network.offsets]]
    if isinstance(tree, Union):
        return [found for operand in tree.operands for found in _sets(network, operand, ids)]
    if isinstance(tree, Complement):
        return [_mixed(network.turning, found, 2) for found in _sets(network, tree.operand, ids)]
    if isinstance(tree, Intersection):
        found = []
        for some in product(*(_sets(network, operand, ids) for operand in tree.operands)):
            mixed = _mixed(network.meeting, [particle for each in some for particle in each], 2)
            found.append([mixed[len(some) * place] for place in range(network.particles)])
        return found
    assert isinstance(tree, Projection)
    relation, found = network.vectors[ids[tree.relation]], []
    reading = zip(network.read.weight.chunk(3), network.read.bias.chunk(3), strict=True)
    change_r, reset_r, candidate_r = (weight @ relation + bias for weight, bias in reading)
    states = zip(network.gates.weight.chunk(2), network.gates.bias.chunk(2), strict=True)
    (change_w, change_b), (reset_w, reset_b) = states
    for source in _sets(network, tree.source, ids):
        particles = source if isinstance(tree.source, Constant) else _mixed(network.refining, source, 1)
        moved = []
        for state in particles:
            change = (change_r + change_w @ state + change_b).sigmoid()
            reset = (reset_r + reset_w @ state + reset_b).sigmoid()
            candidate = (candidate_r + _map(network.candidate, state * reset)).tanh()
            moved.append(_normed(network.projected, (1 - change) * state + change * candidate))
        found.append([_normed(network.attended, v) for v in _attended(network.attention, moved)])
    return found


@pytest.mark.parametrize("particles", [2, 3])
def test_the_published_equations(particles: int, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SMALL, "q2p", {"model.dims.feedforward": 5, "model.options.particles": particles})
    model = small("q2p", registry, particles=particles)
    network, head = model.network, model.heads["entities"]
    assert isinstance(network, Q2P)
    asked = 0
    for name, kind in TYPES.items():
        template, groundings = grounded(kind)
        if Q2P.why_unsupported(template) is not None:
            continue
        asked += 1
        scores = run(model, template, groundings)
        for row in range(len(groundings)):
            with torch.no_grad():
                sets = _sets(network, tree_of(name), named_tokens(template, groundings, row))
                for place, entity in enumerate(network.vectors[ENTITIES]):
                    wanted = max((each @ entity).item() for own in sets for each in own)
                    found = scores[row, place].item() - head.get_parameter("bias")[place].item()
                    assert found == pytest.approx(wanted, rel=1e-6), (name, row, place)
    assert asked == sum(BetaE.why_unsupported(grounded(kind)[0]) is None for kind in TYPES.values())


def test_particles_that_are_the_same_become_different(registry: Registry) -> None:
    head = small("q2p", registry).heads["entities"]
    sets = torch.ones(1, 6, dtype=torch.float64, requires_grad=True)
    logits = head.scores(sets, torch.rand(5, 6, dtype=torch.float64))
    head.loss({"logits": logits}, torch.tensor([2])).backward()
    assert sets.grad[0, :3].abs().min() > 0
    assert not sets.grad[0, 3:].any()
