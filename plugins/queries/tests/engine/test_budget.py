"""What answering may cost: refusals that name the part of a query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kgqa_command import run

from peirce_queries.engine.answers import answer, answers_within, to_ids
from peirce_queries.engine.budget import Budget, QueryTooLargeError
from peirce_queries.engine.files import answer_file
from peirce_queries.graphs.graph import Graph, from_names
from peirce_queries.languages.language import parse

CNF = "&".join(f"((r(e{i},f))|(s(e{i},f)))" for i in range(1, 9))
CHAIN = "&".join([*(f"(r(e{i},e{i + 1}))" for i in range(1, 40)), "(r(e40,f))"])
STAR = "&".join(f"(r(e{i},f))" for i in range(1, 40))


@pytest.fixture(scope="module")
def hub() -> Graph:
    """An entity with 300 neighbours, which have none but it and each other in a row."""
    names = [f"x{i}" for i in range(300)]
    triples = [("hub", "r", name) for name in names] + list(zip(names, ["s"] * 299, names[1:], strict=False))
    return from_names("hub", {"train": triples})


@pytest.mark.parametrize(("text", "conjunctions"), [(CNF, 256), (CHAIN, 1), (STAR, 1)])
def test_a_query_over_its_rows_is_refused_with_its_part(text: str, conjunctions: int, hub: Graph) -> None:
    index = hub.index("test")
    with pytest.raises(QueryTooLargeError, match=f"conjunction 1 of {conjunctions}, .*250 rows") as error:
        answer(parse(text), hub, index, Budget(rows=250))
    assert len(str(error.value)) < 500
    found = answer(parse(text), hub, index)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("peirce_queries.engine.answers.Budget", lambda: Budget(rows=250))
        _, refused = answers_within(*to_ids(parse(text), hub), index, limit=10_000)
    assert refused.all()
    assert len(found) == (0 if text == CHAIN else 300)


def test_a_line_over_its_budget_is_named_and_no_other_of_its_shape(hub: Graph, tmp_path: Path) -> None:
    source, output = tmp_path / "queries.jsonl", tmp_path / "answers.jsonl"
    lines = [{"query": "s(x0,f)"}, {"query": "!s(e1,f)"}, {"query": "s(x1,f)"}]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(QueryTooLargeError, match=r"queries\.jsonl, line 2: .*name more entities"):
        answer_file(hub, "test", source, output, limit=100)
    assert not output.exists()
    assert answer_file(hub, "test", source, output).queries == 3


def test_the_command_takes_a_budget(tmp_path: Path) -> None:
    source = tmp_path / "queries.jsonl"
    long = "&".join(f"(intergovorgs(e{i},f))" for i in range(1, 100))
    source.write_text(json.dumps({"query": long}) + "\n")
    arguments = ["answer", "--graph", "nations", "--queries", str(source), "-o", str(tmp_path / "out")]
    with pytest.raises(QueryTooLargeError, match=r"line 1: .* took more than its budget of 1e-05 s"):
        run(*arguments, "--budget", "0.00001")
    assert "1 queries" in run(*arguments, "--budget", "0")
