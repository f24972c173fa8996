"""What answering may cost: refusals that name the part of a query, estimates, and work that ends when it is told."""

from __future__ import annotations

import _thread
import json
import signal
import threading
from pathlib import Path

import pytest
from peirce_kg.engine.answers import Budget, QueryTooLargeError, answer, answers_within, estimate, to_ids
from peirce_kg.engine.budget import Cancelled, waited
from peirce_kg.engine.files import answer_file
from peirce_kg.engine.template import Template
from peirce_kg.graphs.graph import Graph, from_names
from peirce_kg.kg import app
from peirce_kg.queries.language import parse
from typer.testing import CliRunner

CNF = "&".join(f"((r(e{i},f))|(s(e{i},f)))" for i in range(1, 9))
CHAIN = "&".join([*(f"(r(e{i},e{i + 1}))" for i in range(1, 700)), "(r(e700,f))"])
STAR = "&".join(f"(r(e{i},f))" for i in range(1, 700))
NEVER = 1e-9


@pytest.fixture(scope="module")
def hub() -> Graph:
    """An entity with 300 neighbours, which have none but it and each other in a row."""
    names = [f"x{i}" for i in range(300)]
    triples = [("hub", "r", name) for name in names] + list(zip(names, ["s"] * 299, names[1:], strict=False))
    return from_names("hub", {"train": triples})


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (CNF, "conjunction 1 of 256, the atoms of "),
        (CHAIN, "conjunction 1 of 1, the atoms of e"),
        (STAR, "conjunction 1 of 1, the atoms of e"),
    ],
)
def test_a_query_over_its_rows_is_refused_with_its_part(text: str, part: str, hub: Graph) -> None:
    index = hub.index("test")
    with pytest.raises(
        QueryTooLargeError, match=f"{part}.*more than 250 rows in all; name more entities"
    ) as error:
        answer(parse(text), hub, index, Budget(rows=250))
    assert len(str(error.value)) < 500
    found = answer(parse(text), hub, index)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("peirce_kg.engine.answers.Budget", lambda: Budget(rows=250))
        _, refused = answers_within(*to_ids(parse(text), hub), index, limit=10_000)
    assert refused.all()
    assert len(found) == (0 if text == CHAIN else 300)


@pytest.mark.parametrize("text", [CNF, CHAIN, STAR])
def test_a_query_over_its_time_is_refused_before_it_begins_or_with_its_part(text: str, hub: Graph) -> None:
    with pytest.raises(
        QueryTooLargeError, match=r"conjunctions of .* atoms in all, .* the budget is 1e-09 s"
    ):
        answer(parse(text), hub, hub.index("test"), Budget(seconds=NEVER))
    late = Budget(seconds=1.0)
    late.begun -= 100.0
    with pytest.raises(QueryTooLargeError, match=r"it took more than its budget of 1 s"):
        answer(parse(text), hub, hub.index("test"), late)


def test_an_estimate_is_the_edges_of_all_atoms(hub: Graph) -> None:
    found = estimate(*to_ids(parse("(r(hub,e1))&(s(e1,e2))&(s(e2,f))"), hub), hub.index("test"))
    assert (found.conjunctions, found.atoms, found.rows) == (1, 3, 2 * 299)
    assert str(found) == "1 conjunctions of 3 atoms in all, up to 598 rows"
    assert 0 < found.least < found.seconds
    many = estimate(*to_ids(parse(CNF), hub), hub.index("test"))
    assert many.conjunctions == len(Template.of(parse(CNF)).branches) == 256
    assert many.rows == 256 * 8 * (300 + 299) // 2


def test_a_line_over_its_budget_is_named_and_the_others_of_its_shape_are_not(
    hub: Graph, tmp_path: Path
) -> None:
    source, output = tmp_path / "queries.jsonl", tmp_path / "answers.jsonl"
    lines = [{"query": "s(x0,f)"}, {"query": CNF}, {"query": "s(x1,f)"}]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(
        QueryTooLargeError, match=r"queries\.jsonl, line 2: .*split the query, or give it more"
    ):
        answer_file(hub, "test", source, output, seconds=0.1)
    assert not output.exists()
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("peirce_kg.engine.files.WORTH_SAYING", 1e-5)
        totals = answer_file(hub, "test", source, output, told=told.append)
    assert totals.queries == 3
    assert told[0].startswith(f"{source}, line 1 and 1 more: 1 conjunctions of 1 atoms")
    assert "256 conjunctions" in told[1]


def test_the_command_takes_a_budget(tmp_path: Path) -> None:
    source = tmp_path / "queries.jsonl"
    source.write_text(
        json.dumps({"query": "&".join(f"(intergovorgs(e{i},f))" for i in range(1, 400))}) + "\n"
    )
    arguments = ["answer", "--graph", "nations", "--queries", str(source), "-o", str(tmp_path / "out")]
    with pytest.raises(QueryTooLargeError, match=r"line 1: .* the budget is 0\.001 s"):
        CliRunner().invoke(app, [*arguments, "--budget", "0.001"], catch_exceptions=False)
    assert CliRunner().invoke(app, [*arguments, "--budget", "0"], catch_exceptions=False).exit_code == 0


def test_ctrl_c_ends_the_wait_for_a_step_that_does_not_end() -> None:
    """The step here waits for what comes after the interruption alone."""
    begun, ended, over, budget = threading.Event(), threading.Event(), threading.Event(), Budget()
    outcome: list[BaseException] = []

    def work() -> None:
        begun.set()
        ended.wait()
        try:
            budget.spend(0)
        except Cancelled as error:
            outcome.append(error)
        finally:
            over.set()

    def press() -> None:
        begun.wait()
        _thread.interrupt_main()

    kept = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    try:
        threading.Thread(target=press).start()
        with pytest.raises(KeyboardInterrupt):
            waited(work, budget)
    finally:
        signal.signal(signal.SIGINT, kept)
    ended.set()
    assert over.wait(600)  # not join: Python 3.11 takes a thread for ended whose join is interrupted
    assert len(outcome) == 1


def test_work_gives_its_result_and_its_error_whatever_thread_waits() -> None:
    assert waited(lambda: 3, Budget()) == 3
    with pytest.raises(QueryTooLargeError, match="over its rows"):
        waited(_fails, Budget())
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(waited(lambda: 4, Budget())))
    other.start()
    other.join()
    assert found == [4]


def _fails() -> None:
    raise QueryTooLargeError("over its rows")
