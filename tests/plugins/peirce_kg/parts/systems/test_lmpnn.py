"""LMPNN: messages by ComplEx, and every type against the same network node by node."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peirce.registry import Registry
from peirce_kg.engine.template import Groundings, Slot, Template
from peirce_kg.parts.systems.lmpnn import Lmpnn
from peirce_kg.parts.systems.system import conjugate, times
from peirce_kg.queries.language import FREE, Variable
from query_systems import ENTITIES, TYPES, VOCABULARY, grounded, run, small
from torch import Tensor


def test_complex_numbers_are_those_of_torch() -> None:
    left, right = torch.randn(2, 7, 6).double().unbind()

    def number(values: Tensor) -> Tensor:
        return torch.complex(*values.chunk(2, -1))

    torch.testing.assert_close(number(times(left, right)), number(left) * number(right))
    torch.testing.assert_close(number(conjugate(left)), number(left).conj())


def _answer(network: Lmpnn, conjunction: tuple[Slot, ...], groundings: Groundings, row: int) -> Tensor:
    """The free variable's last state, node by node."""
    vectors = network.vectors
    nodes = {end for slot in conjunction for end in (slot.head, slot.tail)}
    distances: dict[int | Variable, int] = {FREE: 0}
    while len(distances) < len(nodes):
        for slot in conjunction:
            for one, other in ((slot.head, slot.tail), (slot.tail, slot.head)):
                if one in distances:
                    distances[other] = min(distances.get(other, 99), distances[one] + 1)
    states: dict[int | Variable, Tensor] = {}
    for node in nodes:
        if isinstance(node, Variable):
            states[node] = vectors[VOCABULARY.free if node == FREE else VOCABULARY.free + 1]
        else:
            states[node] = vectors[VOCABULARY.first_entity + groundings.constants[row, node]]
    for _ in range(max(distances.values())):
        told = {node: network.options.keep * state for node, state in states.items()}
        for slot in conjunction:
            relation = vectors[VOCABULARY.first_relation + groundings.relations[row, slot.relation]]
            sign = 1 if slot.positive else -1
            told[slot.tail] = told[slot.tail] + sign * times(states[slot.head], relation)
            told[slot.head] = told[slot.head] + sign * times(conjugate(relation), states[slot.tail])
        for node in nodes:
            if isinstance(node, Variable):
                states[node] = network.mix(told[node])
    return states[FREE]


def _published(network: Lmpnn, template: Template, groundings: Groundings, row: int) -> Tensor:
    """As the published code has it: one graph of all atoms, every term changes, a layer for each variable."""
    vectors = network.vectors
    atoms = {slot: 1 if slot.positive else -1 for each in template.conjunctions for slot in each}
    terms = dict.fromkeys(end for slot in atoms for end in (slot.head, slot.tail))
    states: dict[int | Variable, Tensor] = {}
    for term in terms:
        if isinstance(term, Variable):
            states[term] = vectors[VOCABULARY.free if term == FREE else VOCABULARY.free + 1]
        else:
            states[term] = vectors[VOCABULARY.first_entity + groundings.constants[row, term]]
    for _ in range(max(1, sum(isinstance(term, Variable) for term in terms))):
        collected: dict[int | Variable, list[Tensor]] = {term: [] for term in terms}
        for slot, sign in atoms.items():
            relation = vectors[VOCABULARY.first_relation + groundings.relations[row, slot.relation]]
            collected[slot.tail].append(sign * times(states[slot.head], relation))
            collected[slot.head].append(sign * times(states[slot.tail], conjugate(relation)))
        states = {term: network.mix(sum(collected[term]) + 0.1 * states[term]) for term in terms}
    return states[FREE]


@pytest.mark.parametrize("bare", [False, True])
def test_every_type_is_passed_as_in_the_published_code_or_node_by_node(
    bare: bool, registry: Registry
) -> None:
    model = small("lmpnn", registry, bare=bare)
    network = model.network
    assert isinstance(network, Lmpnn)
    for kind in TYPES:
        template, groundings = grounded(kind, rows=2)
        if not bare:  # no two atoms are one: the code knows terms and relations by their names
            distinct = np.arange(len(template.constants)) + np.array([[0], [2]])
            groundings = Groundings(groundings.relations, distinct % 5)
        scores = run(model, template, groundings)
        for row in range(2):
            with torch.no_grad():
                if bare:
                    states = [_answer(network, each, groundings, row) for each in template.conjunctions]
                else:
                    states = [_published(network, template, groundings, row)]
                entities = network.vectors[ENTITIES].unsqueeze(0)
                cosines = torch.cosine_similarity(torch.stack(states).unsqueeze(1), entities, dim=2)
            wanted = cosines.amax(0) / 0.05
            torch.testing.assert_close(scores[row], wanted, msg=lambda text, kind=kind: f"{kind}: {text}")
