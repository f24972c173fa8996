"""QTO against its formulas by loops, CQD-Hybrid against certain links, and the links that both know."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from attrs import evolve
from query_systems import ENTITIES, TYPES, VOCABULARY, grounded, run, small
from torch import Tensor

from peirce.compose import load
from peirce.errors import ModelFileError, SpecError
from peirce.model import Model
from peirce.registry import Registry
from peirce_kg.parts.augmenters.kge_files import KgeFacts, write_kge
from peirce_kg.parts.heads import qto
from peirce_kg.parts.systems.cqd import Cqd, Qto
from peirce_kg.parts.systems.system import complex_product
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.languages.language import FREE, And, Atom, Formula, Not, Query, Variable, parse
from peirce_queries.languages.types import QueryType

EXPRESSED = [n for n, kind in TYPES.items() if Qto.why_unsupported(Template.of(kind.query)) is None]
OWN = {
    "2u2u": "((r1(s1,e1))|(r2(s2,e1)))&(r3(e1,f))&((r4(s3,e2))|(r5(s4,e2)))&(r6(e2,f))",
    "2ui": "((r1(s1,f))|(r2(s2,f)))&(r3(s3,f))",
}
GRAPHS = {
    "loop": "(r1(s1,e1))&(r2(e1,e1))&(r3(e1,f))",
    "both ways": "(r1(s1,e1))&(r2(e1,e2))&(r3(e2,e1))&(!(r4(e2,f)))&(r5(e1,f))",
    "square": "(r1(e1,e2))&(r2(e1,e3))&(r3(e2,f))&(r4(e3,f))&(r5(s1,e2))",
    "cliques": "(r1(e1,e2))&(r2(e1,e3))&(r3(e2,e3))&(r4(e3,f))&(r5(e2,f))&(r6(e1,f))",
}
TRIPLES = torch.tensor(
    [[0, 0, 1], [0, 0, 3], [0, 1, 2], [2, 1, 1], [4, 2, 0], [2, 1, 4], [1, 0, 0]], dtype=torch.int32
)
FACTS = KgeFacts(
    model="complex", graph="toy", width=6, epochs=1, seed=0, vocabulary=len(VOCABULARY),
    first_entity=VOCABULARY.first_entity, first_relation=VOCABULARY.first_relation,
)  # fmt: skip


@pytest.fixture
def links(tmp_path: Path) -> str:
    write_kge(tmp_path / "toy.safetensors", FACTS, torch.randn(5, 6), torch.randn(3, 6), TRIPLES)
    return str(tmp_path / "toy.safetensors")


def _scores(model: Model) -> Tensor:
    """ComplEx's, [relations, heads, tails]."""
    vectors = model.network.get_parameter("vectors").detach()
    entities, first = vectors[ENTITIES], VOCABULARY.first_relation
    return complex_product(entities.unsqueeze(0), vectors[first : first + 3].unsqueeze(1)) @ entities.T


def _matrix(scores: Tensor, name: str) -> Tensor:
    """Equations 3 to 5 of QTO's paper and 8 to 10 of FIT's, link by link."""
    known = {tuple(triple) for triple in TRIPLES.tolist()}
    found = torch.zeros_like(scores)
    for relation, head, tail in product(range(3), range(5), range(5)):
        tails, likely = (
            [t for t in range(5) if (head, relation, t) in known],
            scores[relation, head].softmax(0),
        )
        value = likely[tail] * max(1, len(tails))
        if name == "fit" and tails:
            value = value / sum(likely[t] for t in tails)
        most = min(value, 0.999) if name == "fit" else value if value < 1 else 0.9999
        found[relation, head, tail] = 1 if tail in tails else 0 if value < 0.05 else most
    return found


def _truth(
    part: Formula, values: dict[Variable, int], ids: dict[str, int], matrix: Tensor, scale: int
) -> float:
    """How true a formula is of values of its variables."""
    if isinstance(part, Not):
        return 1 - min(1, scale * _truth(part.operand, values, ids, matrix, scale))
    if isinstance(part, Atom):
        head, tail = (values[e] if isinstance(e, Variable) else ids[e.name] for e in part.terms)
        return float(matrix[ids[part.relation], head, tail])
    truths = [_truth(operand, values, ids, matrix, scale) for operand in part.operands]
    return math.prod(truths) if isinstance(part, And) else 1 - math.prod(1 - truth for truth in truths)


def _best(query: Query, ids: dict[str, int], matrix: Tensor, scale: int) -> Tensor:
    """How true a query is of each answer with the best values of its other variables."""
    bound, best = [v for v in query.variables if v != FREE], torch.zeros(5, dtype=torch.float64)
    for values in product(range(5), repeat=len(bound) + 1):
        truth = _truth(query.formula, dict(zip([FREE, *bound], values, strict=True)), ids, matrix, scale)
        best[values[0]] = max(best[values[0]].item(), truth)
    return best


def _ids(template: Template, groundings: Groundings, row: int) -> dict[str, int]:
    numbers = (*groundings.relations[row].tolist(), *groundings.constants[row].tolist())
    return dict(zip((*template.relations, *template.constants), numbers, strict=True))


def test_a_tree_is_true_as_its_formula(
    links: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small("qto", registry, links=links)
    matrix = _matrix(_scores(model), "qto")
    assert ((matrix > 0) & (matrix < 1)).any()
    assert (matrix == 0).any()
    assert {"up", "pni", "unpi", "2nm", "im", "upni", "2pu"} <= set(EXPRESSED)
    assert not {"2il", "3c"} & set(EXPRESSED)
    kinds = {n: TYPES[n] for n in EXPRESSED} | {n: QueryType(n, parse(own), False) for n, own in OWN.items()}
    for portion in (qto.PORTION, 1):
        monkeypatch.setattr(qto, "PORTION", portion)
        for name, kind in kinds.items():
            template, groundings = grounded(kind, rows=4)
            found = run(model, template, groundings).exp()
            for row in range(4):
                ids = _ids(template, groundings, row)
                branches = kind.query.ground({name: f"x{i}" for name, i in ids.items()}).conjunctions()
                if len({frozenset(branch) for branch in branches}) < len(template.conjunctions):
                    continue  # two branches say the same
                wanted = _best(kind.query, ids, matrix, 3)
                torch.testing.assert_close(found[row], wanted, msg=lambda text, name=name: f"{name}: {text}")


def test_a_graph_is_as_true_as_its_best_values(links: str, registry: Registry) -> None:
    model = small("fit", registry, links=links, candidates=5)
    matrix = _matrix(_scores(model), "fit")
    for name, kind in (TYPES | {n: QueryType(n, parse(own), False) for n, own in GRAPHS.items()}).items():
        template, groundings = grounded(kind, rows=1)
        never, ids = torch.ones(5, dtype=torch.float64), _ids(template, groundings, 0)
        for branch in kind.query.conjunctions():
            parts = tuple(each.atom if each.positive else Not(each.atom) for each in branch)
            never *= 1 - _best(Query(And(parts) if len(parts) > 1 else parts[0]), ids, matrix, 1)
        if len({frozenset(map(str, c)) for c in template.conjunctions}) == len(template.conjunctions):
            found = run(model, template, groundings)[0].exp()
            torch.testing.assert_close(found, 1 - never, msg=lambda text, name=name: f"{name}: {text}")


def test_the_hybrid_beam_unites_before_it_projects(links: str, registry: Registry) -> None:
    model = small("cqd-hybrid", registry, links=links)
    truths = 0.9 * _scores(model).sigmoid()
    truths[TRIPLES[:, 1].long(), TRIPLES[:, 0].long(), TRIPLES[:, 2].long()] = 1
    positive = {n: TYPES[n] for n in EXPRESSED if Cqd.why_unsupported(Template.of(TYPES[n].query)) is None}
    assert {"2m", "up", "2pu", "2u"} <= set(positive)
    for name, kind in {**positive, "2u2u": QueryType("2u2u", parse(OWN["2u2u"]), False)}.items():
        template, groundings = grounded(kind, rows=2)
        found = run(model, template, groundings).exp()
        for row in range(2):
            ids = _ids(template, groundings, row)
            branches = kind.query.ground({name: f"x{i}" for name, i in ids.items()}).conjunctions()
            if len({frozenset(branch) for branch in branches}) == len(template.conjunctions):
                wanted = _best(kind.query, ids, truths, 1)
                torch.testing.assert_close(found[row], wanted, msg=lambda text, name=name: f"{name}: {text}")
    with pytest.raises(SpecError, match="reads the first branch of a union alone"):
        small("cqd-hybrid", registry, links=links, branches="apart")


@pytest.mark.parametrize("name", ["qto", "fit", "cqd-hybrid"])
def test_a_variable_without_a_likely_value_makes_zeros(name: str, links: str, registry: Registry) -> None:
    """One query of a batch has nothing above the threshold after its first step, and the others their answers."""
    sparse = {} if name == "cqd-hybrid" else {"threshold": 0.999}
    model = small(name, registry, links=links, **sparse)
    asked = Template.of(TYPES["2p"].query), Groundings(np.array([[2, 0], [1, 2]]), np.array([[0], [2]]))
    found = run(model, *asked).exp()
    assert found.isfinite().all()
    if sparse:
        assert found[0].max() < 1e-20
    assert found[1, 0] == 1  # c -s-> e -t-> a is known


def test_a_saved_model_knows_its_links(links: str, registry: Registry, tmp_path: Path) -> None:
    model = small("qto", registry, links=links)
    model.save(tmp_path / "saved")
    Path(links).unlink()
    again = load(tmp_path / "saved", registry=registry).eval()
    asked = Template.of(TYPES["2p"].query), Groundings(np.array([[0, 1]]), np.array([[0]]))
    assert torch.equal(run(again, *asked), run(model, *asked))


def test_links_of_another_graph_and_of_an_old_file_are_refused(tmp_path: Path, registry: Registry) -> None:
    path, vectors = tmp_path / "other.safetensors", (torch.randn(5, 6), torch.randn(3, 6))
    write_kge(path, FACTS, *vectors)
    with pytest.raises(ModelFileError, match="lacks the triples"):
        small("qto", registry, links=str(path))
    write_kge(path, evolve(FACTS, vocabulary=60), *vectors, TRIPLES)
    with pytest.raises(ModelFileError, match="was trained on 'toy', whose queries have 60 tokens"):
        small("cqd-hybrid", registry, links=str(path))
