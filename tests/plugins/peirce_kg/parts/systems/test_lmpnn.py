"""LMPNN: messages by ComplEx, and every type against the same network node by node."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
import pytest
import torch
from peirce.compose import build
from peirce.registry import Registry, load_spec
from peirce_kg.engine.template import Groundings, Slot
from peirce_kg.parts.systems.lmpnn import Lmpnn
from peirce_kg.parts.systems.system import conjugate, times
from peirce_kg.queries.language import FREE, Variable
from peirce_kg.task import overrides_of
from query_systems import ENTITIES, TYPES, VOCABULARY, grounded, run, small
from torch import Tensor


def test_complex_numbers_are_those_of_torch() -> None:
    left, right = torch.randn(2, 7, 6).double().unbind()

    def number(values: Tensor) -> Tensor:
        return torch.complex(*values.chunk(2, -1))

    torch.testing.assert_close(number(times(left, right)), number(left) * number(right))
    torch.testing.assert_close(number(conjugate(left)), number(left).conj())


def test_vectors_of_variables_begin_uniform(registry: Registry) -> None:
    changes = {"model.augmenters": [], **overrides_of(VOCABULARY)}
    vectors = build(load_spec("lmpnn", changes), registry=registry).network.get_parameter("vectors")
    variables, entities = vectors[VOCABULARY.free : VOCABULARY.first_entity], vectors[ENTITIES]
    assert 0 <= variables.min() < 0.05 < 0.95 < variables.max() < 1
    assert entities.abs().max() < 0.2


def _answer(network: Lmpnn, slots: Iterable[Slot], groundings: Groundings, row: int, bare: bool) -> Tensor:
    """The free variable's last state, node by node.

    bare: variables alone change, as often as the furthest node is atoms away from the free variable. In the published
    code every node changes, as often as there are variables.
    """
    vectors, atoms = network.vectors, dict.fromkeys(slots)
    distances: dict[int | Variable, int] = {FREE: 0}
    nodes = dict.fromkeys(end for slot in atoms for end in (slot.head, slot.tail))
    while bare and len(distances) < len(nodes):
        for slot in atoms:
            for one, other in ((slot.head, slot.tail), (slot.tail, slot.head)):
                if one in distances:
                    distances[other] = min(distances.get(other, 99), distances[one] + 1)
    states: dict[int | Variable, Tensor] = {}
    for node in nodes:
        if isinstance(node, Variable):
            states[node] = vectors[VOCABULARY.free if node == FREE else VOCABULARY.free + 1]
        else:
            states[node] = vectors[VOCABULARY.first_entity + groundings.constants[row, node]]
    for _ in range(max(distances.values()) if bare else sum(isinstance(node, Variable) for node in nodes)):
        told = {node: 0.1 * state for node, state in states.items()}
        for slot in atoms:
            relation = vectors[VOCABULARY.first_relation + groundings.relations[row, slot.relation]]
            sign = 1 if slot.positive else -1
            told[slot.tail] = told[slot.tail] + sign * times(states[slot.head], relation)
            told[slot.head] = told[slot.head] + sign * times(conjugate(relation), states[slot.tail])
        changing = [node for node in nodes if isinstance(node, Variable) or not bare]
        states |= {node: network.mix(told[node]) for node in changing}
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
                # the published code knows one graph of all atoms
                parts = template.conjunctions if bare else [chain(*template.conjunctions)]
                states = [_answer(network, slots, groundings, row, bare) for slots in parts]
                entities = network.vectors[ENTITIES].unsqueeze(0)
                cosines = torch.cosine_similarity(torch.stack(states).unsqueeze(1), entities, dim=2)
            wanted = cosines.amax(0) / 0.05
            torch.testing.assert_close(scores[row], wanted, msg=lambda text, kind=kind: f"{kind}: {text}")
