from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kgqa_reference import graphs

from peirce_queries.engine.answers import answers
from peirce_queries.engine.missing import Links
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.graphs.graph import Graph
from peirce_queries.languages.language import FREE, Variable
from peirce_queries.languages.types import load_types

TYPES = load_types()


def _by_loops(
    template: Template, relations: list[int], constants: list[int], graph: Graph, f: int
) -> list[int]:
    """For each conjunction the missing links of each derivation of f, and -1 for the least where there is none."""
    before, whole = (
        {tuple(t) for s in splits for t in graph.added[s].tolist()}
        for splits in (("train", "valid"), ("train", "valid", "test"))
    )
    found = []
    for slots in template.conjunctions:
        variables = sorted({v for slot in slots for v in slot.variables} - {FREE}, key=str)
        counts = []
        for values in product(range(graph.entities), repeat=len(variables)):
            ends: dict[int | Variable, int] = {FREE: f, **dict(zip(variables, values, strict=True))}
            ends |= dict(enumerate(constants))
            triples = [((ends[s.head], relations[s.relation], ends[s.tail]), s.positive) for s in slots]
            if all((t in whole) == positive for t, positive in triples):
                counts.append(sum(t not in before for t, positive in triples if positive))
        found.append(min(counts, default=-1))
    return found


@pytest.mark.parametrize("name", ["3p", "2i", "pi", "pni", "up", "2u", "3c", "im", "pil"])
@given(graph=graphs(), seed=st.integers(0, 2**32))
def test_missing_links_equal_loops_over_derivations(name: str, graph: Graph, seed: int) -> None:
    template, random = Template.of(TYPES[name].query), np.random.default_rng(seed)
    groundings = Groundings(
        random.integers(graph.relations, size=(4, len(template.relations))),
        random.integers(graph.entities, size=(4, len(template.constants))),
    )
    before, whole = graph.index("valid"), graph.index("test")
    inferred = answers(template, groundings, whole).minus(
        answers(template, groundings, before), graph.entities
    )
    missing = Links(before, whole).missing(template, groundings, inferred)
    positive = [sum(slot.positive for slot in slots) for slots in template.conjunctions]
    for query, f, links, hard in zip(
        inferred.queries, inferred.entities, missing.links, missing.hard, strict=True
    ):
        ids = groundings.relations[query].tolist(), groundings.constants[query].tolist()
        least = _by_loops(template, *ids, graph, int(f))
        assert links == min(count for count in least if count >= 0)
        assert hard == (least == positive)
    chosen = missing.select(np.array([2, 0]))
    assert chosen.inferred[0].tolist() == inferred[2].tolist()
    assert len(chosen.links) == len(chosen.hard) == len(inferred[2]) + len(inferred[0])
