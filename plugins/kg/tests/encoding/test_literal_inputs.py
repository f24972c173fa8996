"""What systems that execute queries are given, what they do not support, and how evaluations show it."""

from __future__ import annotations

import numpy as np
import pytest
from query_systems import TYPES, VOCABULARY

from peirce_kg.encoding.literal_inputs import UnsupportedQueryError, check_supported, query_literals
from peirce_kg.parts.systems.betae import BetaE
from peirce_kg.parts.systems.cone import ConE
from peirce_kg.parts.systems.cqd import Cqd
from peirce_kg.parts.systems.literals import shape_of
from peirce_kg.parts.systems.lmpnn import Lmpnn
from peirce_kg.parts.systems.system import QuerySystem
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.languages.conversion import NoLispFormError, to_lisp
from peirce_queries.languages.language import parse


def _has_lisp(text: str) -> bool:
    try:
        to_lisp(parse(text))
    except NoLispFormError:
        return False
    return True


def test_the_literals_of_a_union_are_those_of_its_conjunctions() -> None:
    template = Template.of(TYPES["up"].query)  # (r1(s1,e1) | r2(s2,e1)) & r3(e1,f)
    found = query_literals(template, Groundings(np.array([[0, 1, 2]]), np.array([[3, 4]])), VOCABULARY)
    assert found is not None
    free, some = VOCABULARY.free, VOCABULARY.free + 1
    entity, relation = VOCABULARY.first_entity, VOCABULARY.first_relation
    assert found["input_ids"].tolist() == [[some, free, some, free]]
    assert found["atom_heads"].tolist() == [[entity + 3, some, entity + 4, some]]
    assert found["atom_relations"].tolist() == [[relation, relation + 2, relation + 1, relation + 2]]
    assert found["atom_sources"].tolist() == [[0, 2, 0, 11]]
    assert found["atom_targets"].tolist() == [[2, 1, 11, 10]]
    assert found["atom_negated"].tolist() == [[0, 0, 0, 0]]


COMPLEMENTS = {"pni", "2pni", "pn3i", "upni", "unpi"}
"""Types whose negated atom speaks of an existential variable: sets read it as a complement."""


def test_sets_support_what_the_lisp_like_syntax_says_and_complements_of_projections() -> None:
    for name, kind in TYPES.items():
        shape = shape_of(Template.of(kind.query))
        for system in (BetaE, ConE):
            wanted = name in COMPLEMENTS or _has_lisp(str(kind.query))
            assert (system.unsupported(shape) is None) == wanted, name
        assert Lmpnn.unsupported(shape) is None


@pytest.mark.parametrize(
    ("system", "text", "reason"),
    [
        (BetaE, "(r1(s1,e1))&(r2(e1,f))&(r3(e1,f))", "several atoms speak of e1"),
        (BetaE, "(r1(s1,e1))&(!(r2(e1,f)))&(r3(e1,f))", "several atoms speak of e1"),
        (ConE, "(r1(s1,f))&(r2(e1,f))", "nothing leads to e1, an existential leaf"),
        (ConE, "(r1(s1,f))&(r2(f,s2))", "leads away from f"),
        (Cqd, "(r1(s1,f))&(!(r2(s2,f)))", "no negation"),
        (Cqd, "(r1(s1,e1))&(r2(e1,f))&(r3(e1,e2))&(r4(e2,f))", "a cycle"),
        (Lmpnn, "r1(f,s1)", "no atom leads to f"),
        (Lmpnn, "(r1(s1,f))&(r2(s1,s2))", "two entities"),
        (Lmpnn, "(r1(s1,f))&(r2(e1,e2))", "nothing to do with f"),
        (Lmpnn, "(r1(s1,e1))&(r2(e1,e2))&(r3(e2,e3))&(r4(e3,e4))&(r5(e4,f))", "more than 4 atoms away"),
        (Lmpnn, "(r1(s1,e9))&(r2(e9,f))", "the variable e9"),
        (Lmpnn, "&".join(f"((r1(s{i},f))|(r2(s{i},f)))" for i in range(1, 7)), "atoms, and 64 is the most"),
    ],
)
def test_what_a_system_does_not_support_is_refused(system: type[QuerySystem], text: str, reason: str) -> None:
    with pytest.raises(UnsupportedQueryError, match=f"{system.name} does not support .*{reason}"):
        check_supported(system.name, system, Template.of(parse(text)))
