"""LMPNN: messages by ComplEx, and every type against the same network node by node."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
import pytest
import torch
from query_systems import ENTITIES, TYPES, VOCABULARY, grounded, run, small
from torch import Tensor

from peirce.compose import build
from peirce.registry import Registry, load_spec
from peirce_kg.parts.systems.clmpt import Clmpt
from peirce_kg.parts.systems.lmpnn import Lmpnn
from peirce_kg.parts.systems.system import complex_product, conjugate
from peirce_kg.task import overrides_of
from peirce_queries.engine.template import Groundings, Slot
from peirce_queries.languages.language import FREE, Variable


def test_complex_numbers_are_those_of_torch() -> None:
    left, right = torch.randn(2, 7, 6).double().unbind()

    def number(values: Tensor) -> Tensor:
        return torch.complex(*values.chunk(2, -1))

    torch.testing.assert_close(number(complex_product(left, right)), number(left) * number(right))
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
        told: dict[int | Variable, list[Tensor]] = {node: [] for node in nodes}
        for slot in atoms:
            relation = vectors[VOCABULARY.first_relation + groundings.relations[row, slot.relation]]
            sign = 1 if slot.positive else -1
            told[slot.tail].append(sign * complex_product(states[slot.head], relation))
            told[slot.head].append(sign * complex_product(conjugate(relation), states[slot.tail]))
        changing = [n for n in nodes if isinstance(n, Variable) or network.options.nodes == "all"]
        states |= {node: _mixed(network, states[node], told[node]) for node in changing}
    return states[FREE]


def _mixed(network: Lmpnn, state: Tensor, messages: list[Tensor]) -> Tensor:
    """A node's next state; of CLMPT by torch's own layers, for one set alone."""
    if not isinstance(network, Clmpt):
        return network.mix(0.1 * state + sum(messages))
    encoder, values = network.mix, torch.stack([*messages, state]).unsqueeze(0) * state.numel() ** 0.5
    for layer in encoder.layers:
        theirs = torch.nn.TransformerEncoderLayer(
            state.numel(), layer.heads, 5, 0.0, batch_first=True, norm_first=True, dtype=torch.float64
        )
        named = {
            "linear1": layer.wide,
            "linear2": layer.narrow,
            "norm1": layer.before,
            "norm2": layer.between,
        }
        state_dict = {f"{name}.{k}": v for name, own in named.items() for k, v in own.state_dict().items()}
        maps = [each.weight for each in (layer.asked, layer.keys, layer.values)]
        state_dict["self_attn.in_proj_weight"] = torch.cat(maps)
        state_dict["self_attn.out_proj.weight"] = layer.out.weight
        without = {"self_attn.in_proj_bias": 3 * state.numel(), "self_attn.out_proj.bias": state.numel()}
        theirs.load_state_dict(state_dict | {name: torch.zeros(n) for name, n in without.items()})
        theirs.norm1.eps = theirs.norm2.eps = 1e-6
        values = theirs.eval()(values)
    return encoder.norm(values)[0].mean(0)


@pytest.mark.parametrize(("name", "bare"), [("lmpnn", False), ("lmpnn", True), ("clmpt", False)])
def test_every_type_as_in_the_published_code_or_node_by_node(
    name: str, bare: bool, registry: Registry
) -> None:
    model = small(name, registry, bare=bare)
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
