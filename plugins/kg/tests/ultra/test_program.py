"""Queries as programs on fuzzy sets: those of the published code, and what has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from published_numbers import WORDS

from peirce_kg.ultra.program import NoProgramError, Program, program_of
from peirce_queries.languages.conversion import parse_any
from peirce_queries.languages.language import parse
from peirce_queries.languages.parsing import QueryError
from peirce_queries.languages.types import load_types

RELATIONS = 46
P, Q, R = "project p", "project q", "project r"


def printed(program: Program) -> list[str]:
    return [" ".join(filter(None, (s.operation, s.name, "^-1" * s.inverse))) for s in program]


def formula(structure: Any, target: str, names: Any) -> str:
    """A published query, nested lists of anchors and relations, as a formula of the target."""
    *_, last = structure
    if len(structure) == 2 and isinstance(last, list) and all(isinstance(each, int) for each in last):
        inner, relations = structure
        source = str(inner) if isinstance(inner, int) else next(names)
        parts = [] if isinstance(inner, int) else [formula(inner, source, names)]
        for place, relation in enumerate(relations):
            if relation == -2:
                parts[-1] = f"!({parts[-1]})"
                continue
            rest = any(each != -2 for each in relations[place + 1 :])
            end = next(names) if rest else target
            ends = (end, source) if relation >= RELATIONS else (source, end)
            parts.append(f"{relation % RELATIONS}({','.join(ends)})")
            source = end
        return "&".join(f"({part})" for part in parts)
    connective = "|" if structure[-1] == [-1] else "&"
    return connective.join(f"({formula(each, target, names)})" for each in structure if each != [-1])


def test_programs_of_the_published_code(queries: tuple[list[dict[str, Any]], Mapping[str, Any]]) -> None:
    for query in queries[0]:
        names = (f"e{i}" for i in range(1, 9))
        asked = parse(formula(query["structure"], "f", names))
        found = [s.replace(" ^-1", "") for s in printed(program_of(asked))]
        expected = []
        for word, _, name in (step.partition(" ") for step in query["postfix"]):
            own = str(int(name) % RELATIONS) if word == "project" else name
            expected.append(" ".join(filter(None, (WORDS.get(word, word), own))))
        assert found == expected, query["type"]


def test_all_types_that_sets_can_say() -> None:
    refused = {}
    for kind in load_types().values():
        try:
            program_of(kind.query)
        except NoProgramError as error:
            refused[kind.name] = error.reason
    assert all("m" in name or "c" in name for name in refused), refused
    assert len(refused) == 18


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("r(f,s)", ["entity s", f"{R} ^-1"]),
        ("r(e1,f)", ["every", R]),
        ("r(s,e1)&q(f,e1)", ["entity s", R, f"{Q} ^-1"]),
        ("r(s,e1)&(q(e1,f)|p(e1,f))", ["entity s", R, Q, "entity s", R, P, "or"]),
        ("(i,(p,(r),(s)),(n,(p,(q),(p,(r),(s)))))", ["entity s", R, "entity s", R, Q, "not", "and"]),
    ],
)
def test_inverses_leaves_unions_and_complements(text: str, steps: list[str]) -> None:
    assert printed(program_of(parse_any(text))) == steps


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("r(f,f)", "does not lead from something else to f"),
        ("r(s,e1)&q(e1,f)&p(e1,f)", r"q\(e1,f\) and p\(e1,f\) need one value of a variable"),
        ("r(s,f)&q(s,e1)", "does not lead from something else to f"),
        ("!(r(s,e1)&q(e1,f))", "a variable stands under the negation"),
    ],
)
def test_what_operations_on_sets_cannot_say(text: str, reason: str) -> None:
    with pytest.raises(NoProgramError, match=reason):
        program_of(parse_any(text))


def test_texts_that_are_no_queries() -> None:
    for text in ("(p,(r))", "r(s,f", "(n,(p,(r),f))"):
        with pytest.raises(QueryError, match=r"column|takes"):
            program_of(parse_any(text))
    program = program_of(parse_any("(n,(p,(q),(p,(r),(s))))"))  # no formula says it
    assert [str(s.variable) for s in program if s.variable] == ["e1"]
