"""What systems that execute queries are given, what they have no way to say, and how evaluations show it."""

from __future__ import annotations

import numpy as np
import pytest
from peirce_kg.encoding.atom_inputs import (
    InexpressibleError,
    check_expressible,
    joined,
    query_atoms,
    shape_of,
)
from peirce_kg.engine.template import Groundings, Template
from peirce_kg.queries.conversion import NoLispFormError, to_lisp
from peirce_kg.queries.language import parse
from peirce_kg.query_atoms import RULES, Edge, fault, learns
from query_systems import TYPES, VOCABULARY


def _template(text: str) -> Template:
    return Template.of(parse(text))


def _has_lisp(text: str) -> bool:
    try:
        to_lisp(parse(text))
    except NoLispFormError:
        return False
    return True


def test_the_atoms_of_a_union_are_those_of_its_conjunctions() -> None:
    template = Template.of(TYPES["up"].query)  # (r1(s1,e1) | r2(s2,e1)) & r3(e1,f)
    found = query_atoms(template, Groundings(np.array([[0, 1, 2]]), np.array([[3, 4]])), VOCABULARY)
    assert found is not None
    free, some = VOCABULARY.free, VOCABULARY.free + 1
    entity, relation = VOCABULARY.first_entity, VOCABULARY.first_relation
    assert found.tails.tolist() == [[some, free, some, free]]
    assert found.heads.tolist() == [[entity + 3, some, entity + 4, some]]
    assert found.relations.tolist() == [[relation, relation + 2, relation + 1, relation + 2]]
    assert found.sources.tolist() == [[0, 2, 0, 11]]
    assert found.targets.tolist() == [[2, 1, 11, 10]]
    assert found.negated.tolist() == [[0, 0, 0, 0]]


def test_a_batch_is_as_long_as_its_longest_query() -> None:
    parts = []
    for name in ("2in", "1p"):
        template = Template.of(TYPES[name].query)
        zeros = np.zeros((2, len(template.constants)), np.int64)
        part = query_atoms(template, Groundings(zeros[:, : len(template.relations)], zeros), VOCABULARY)
        assert part is not None
        parts.append(part)
    batch = joined(parts)
    assert batch.mask.tolist() == [[True, True]] * 2 + [[True, False]] * 2
    assert batch.negated.tolist() == [[0, 1]] * 2 + [[0, 0]] * 2
    assert (batch.tails[2:, 1] == 0).all()


def test_sets_say_what_the_lisp_like_syntax_says() -> None:
    for name, kind in TYPES.items():
        shape = shape_of(Template.of(kind.query))
        for system in ("betae", "cone"):
            assert (fault(system, shape) is None) == _has_lisp(str(kind.query)), name
        assert fault("lmpnn", shape) is None


@pytest.mark.parametrize(
    ("system", "text", "reason"),
    [
        ("betae", "(r1(s1,e1))&(r2(e1,f))&(r3(e1,f))", "several atoms speak of e1"),
        ("betae", "(r1(s1,e1))&(!(r2(e1,f)))&(r3(s2,f))", "negated atom of e1"),
        ("cone", "(r1(s1,f))&(r2(e1,f))", "nothing leads to e1, an existential leaf"),
        ("cone", "(r1(s1,f))&(r2(f,s2))", "leads away from f"),
        ("cqd", "(r1(s1,f))&(!(r2(s2,f)))", "no negation"),
        ("cqd", "(r1(s1,e1))&(r2(e1,f))&(r3(e1,e2))&(r4(e2,f))", "a cycle"),
        ("lmpnn", "r1(f,s1)", "no atom leads to f"),
        ("lmpnn", "(r1(s1,f))&(r2(s1,s2))", "two entities"),
        ("lmpnn", "(r1(s1,f))&(r2(e1,e2))", "nothing to do with f"),
        ("lmpnn", "(r1(s1,e1))&(r2(e1,e2))&(r3(e2,e3))&(r4(e3,e4))&(r5(e4,f))", "more than 4 atoms away"),
        ("lmpnn", "(r1(s1,e9))&(r2(e9,f))", "the variable e9"),
        ("lmpnn", "&".join(f"((r1(s{i},f))|(r2(s{i},f)))" for i in range(1, 7)), "atoms, and 64 is the most"),
    ],
)
def test_what_a_system_cannot_say_is_refused(system: str, text: str, reason: str) -> None:
    with pytest.raises(InexpressibleError, match=f"{system} has no way to say .*{reason}"):
        check_expressible(system, _template(text))


def test_cqd_learns_from_single_atoms() -> None:
    path = (Edge(None, 1), Edge(1, 0))
    assert fault("cqd", (path,)) is None
    assert "one atom at a time" in str(learns("cqd", (path,)))
    assert learns("cqd", ((Edge(None, 0),),)) is None
    assert learns("betae", (path,)) is None
    assert set(RULES) == {"betae", "cone", "cqd", "lmpnn"}
