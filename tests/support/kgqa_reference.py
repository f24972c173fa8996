"""The formula's own semantics as literal loops, to hold the engine against, and random graphs and formulas."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from peirce_queries.graphs.graph import SPLITS, Graph, Split, from_ids
from peirce_queries.languages.language import FREE, And, Atom, Constant, Formula, Not, Or, Query, Variable
from peirce_testing import strategies


def brute_force(query: Query, graph: Graph, split: Split) -> list[int]:
    """Every f for which some values of the existential variables make the formula true."""
    triples = {tuple(t) for s in SPLITS[: SPLITS.index(split) + 1] for t in graph.added[s].tolist()}
    existential = [v for v in query.variables if v != FREE]
    found = []
    for f in range(graph.entities):
        for values in product(range(graph.entities), repeat=len(existential)):
            if _true(query.formula, {FREE: f, **dict(zip(existential, values, strict=True))}, graph, triples):
                found.append(f)
                break
    return found


def _true(formula: Formula, values: dict[Variable, int], graph: Graph, triples: set[tuple[int, ...]]) -> bool:
    match formula:
        case Atom(relation, head, tail):
            h, t = (graph.entity(x.name) if isinstance(x, Constant) else values[x] for x in (head, tail))
            return (h, graph.relation(relation), t) in triples
        case Not(operand):
            return not _true(operand, values, graph, triples)
        case And(operands):
            return all(_true(operand, values, graph, triples) for operand in operands)
        case Or(operands):
            return any(_true(operand, values, graph, triples) for operand in operands)


@st.composite
def graphs(draw: st.DrawFn, entities: int = 5, relations: int = 2) -> Graph:
    """Small graphs with entities a0, a1, ... and relations p0, p1, ..."""
    density = draw(st.sampled_from([0.05, 0.2, 0.5]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    every = np.array(list(product(range(entities), range(relations), range(entities))), np.int32)
    splits: dict[Split, NDArray[np.int32]] = {s: every[random.random(len(every)) < density] for s in SPLITS}
    return from_ids("random", [f"a{i}" for i in range(entities)], [f"p{i}" for i in range(relations)], splits)


def queries(entities: int = 5, relations: int = 2) -> st.SearchStrategy[Query]:
    """Random formulas in which f occurs."""
    constants = [Constant(f"a{i}") for i in range(entities)]
    terms = st.sampled_from([FREE, FREE, *(Variable(f"e{i}") for i in (1, 2, 3)), *constants[:3]])
    atoms = st.builds(Atom, st.sampled_from([f"p{i}" for i in range(relations)]), terms, terms)
    return strategies.queries(atoms, 7).map(Query).filter(lambda query: FREE in query.variables)
