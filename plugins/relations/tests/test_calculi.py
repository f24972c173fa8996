"""Algebras of relations, what follows from edges, and the problems that are made of them."""

from __future__ import annotations

import gzip
import json
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from peirce.errors import InputError, TaskError
from peirce_relations.calculi.algebra import broken_laws, calculus, intervals, random_algebra, rcc8
from peirce_relations.calculi.closure import InconsistentError, closure
from peirce_relations.calculi.problems import Paths
from peirce_relations.calculi.sources import block, source
from peirce_relations.encoding import Relations
from peirce_relations.graphs import Problem, read_graphs, read_problems

PUBLISHED = 15_600


def test_counted_tables_have_the_published_sizes_and_keep_every_law() -> None:
    assert (rcc8().triples, intervals().triples) == (193, 409)
    assert not any(broken_laws(calculus(name)) for name in ("rcc8", "interval"))
    table, turned = rcc8().composition.copy(), rcc8().id
    table[turned("TPP"), turned("TPP"), turned("DC")] = True
    assert len(broken_laws(evolve(rcc8(), composition=table))) == 3


def test_drawn_algebras_keep_the_laws_and_may_be_associative() -> None:
    for seed in range(5):
        assert set(broken_laws(random_algebra(6, 0.5, seed))) <= {"composition is associative"}
    assert not broken_laws(random_algebra(3, 0.7, 1, associative=True))
    assert np.array_equal(random_algebra(5, 0.4, 2).composition, random_algebra(5, 0.4, 2).composition)
    with pytest.raises(InputError, match="has 2 to 40 relations, not 1"):
        random_algebra(1, 0.5, 0)


def test_every_published_row_is_decided_as_published(shared: Path) -> None:
    rows = 0
    for path in sorted((shared / "data" / "relation-algebras").glob("*.jsonl.gz")):
        algebra = calculus(path.name.partition("_")[0])
        for problem in read_problems(path):
            left = closure(algebra, problem.nodes, problem.edges, problem.labels)[problem.query]
            assert [algebra.relations[r] for r in left.nonzero()[0]] == [problem.answer], problem.where
            assert (problem.steps, problem.paths) != (0, 1)
            rows += 1
    assert rows == PUBLISHED


@pytest.mark.parametrize("name", ["rcc8", "interval"])
@pytest.mark.parametrize(("steps", "branches"), [((2, 3), (1, 2, 3)), ((10,), (1,)), ((4,), (8,))])
def test_problems_that_are_made_have_the_one_answer_that_the_closure_leaves(
    name: str, steps: tuple[int, ...], branches: tuple[int, ...]
) -> None:
    algebra = calculus(name)
    paths = Paths(algebra, max(steps))
    made = list(block(paths, {"steps": steps, "branches": branches}, 3, 1, 40))
    for problem in made:
        left = closure(algebra, problem.nodes, problem.edges, problem.labels)[problem.query]
        assert [algebra.relations[r] for r in left.nonzero()[0]] == [problem.answer]
        assert len(problem.edges) == problem.steps * problem.paths
    assert made == list(block(paths, {"steps": steps, "branches": branches}, 3, 1, 40))
    assert len({problem.answer for problem in made}) > 3


@pytest.mark.parametrize("name", ["rcc8", "random:5:1", "reach"])
def test_decided_pairs_are_those_with_one_possible_relation(name: str) -> None:
    made, drawn = source(name, 3), Random(5)
    for steps in (2, 3):
        problem = made.make(steps, 1, drawn)
        pairs = permutations(range(problem.nodes), 2)
        left = {pair: made.possible(evolve(problem, query=pair)) for pair in pairs}
        found = {(x, y): [answer] for x, y, answer in made.decided_pairs(problem)}
        assert found == {pair: answers for pair, answers in left.items() if len(answers) == 1}
        assert found[problem.query] == [problem.answer]


def test_contradictions_are_named() -> None:
    with pytest.raises(InconsistentError, match="over node 0 no relation is left from node 1 to node 2"):
        closure(rcc8(), 3, [(0, 1), (1, 2), (0, 2)], ["NTPP", "NTPP", "DC"])
    with pytest.raises(InputError, match="unknown relation 'NTP' of rcc8"):
        closure(rcc8(), 2, [(0, 1)], ["NTP"])
    with pytest.raises(InputError, match="no problem of rcc8"):
        Paths(evolve(rcc8(), composition=np.ones((8, 8, 8), bool)), 2).make(2, 1, Random(0))


def test_commands_write_the_same_bytes_twice_and_solve_them(tmp_path: Path, invoke: Any) -> None:
    for name in ("one", "other"):
        given = ["--algebra", "interval", "--problems", "300", "--seed", "4"]
        out = str(tmp_path / f"{name}.jsonl.gz")
        assert invoke("relations", "generate", "-o", out, *given).exit_code == 0
        assert not list(tmp_path.glob(".*.parts"))
    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "other.jsonl.gz").read_bytes()
    solved = tmp_path / "solved.jsonl"
    asked = ["relations", "solve", str(tmp_path / "one.jsonl.gz"), *given[:2], "-o", str(solved), "--json"]
    assert json.loads(invoke(*asked).stdout)["agree"] == 300
    rows = [json.loads(line) for line in solved.read_text().splitlines()]
    assert len(rows) == 300
    assert all(row["possible"] == [row["unique"]] for row in rows)
    assert "exists already" in invoke(*asked).output


def test_what_is_no_problem_is_named_with_its_row(tmp_path: Path, invoke: Any) -> None:
    path, line = tmp_path / "test.jsonl", '{"edges": [%s], "labels": [%s], "query": [0, %d], "answer": "a"}\n'
    for content, said in (
        ("3\n", "an object"),
        (line % ("[0, 1]", '"a"', 9), "node 9"),
        (line % ("[0, -1]", '"a"', 1), "a pair of nodes"),
        (line % ("[0, 1]", "", 1), "a label for each edge"),
        (line % ("[0, 1024]", '"a"', 1), "node 1024"),
        (line % ("[0, 1]", "3", 1), "name of a relation"),
        ("", "has no problems"),
    ):
        path.write_text(content)
        with pytest.raises(TaskError, match=f"{path.name}.*{said}"):
            list(read_problems(path))
    with gzip.open(tmp_path / "test_k3_b2.jsonl.gz", "wt") as file:
        file.write(line % ("[0, 1]", '"a"', 1))
    (problem,) = read_problems(tmp_path / "test_k3_b2.jsonl.gz")
    assert (problem.steps, problem.paths, problem.nodes) == (3, 2, 2)


def test_a_pair_with_two_relations_is_no_input() -> None:
    problem = Problem(
        nodes=2, edges=((0, 1),) * 2, labels=("EC", "DC"), query=(0, 1), answer="DC", where="row 1"
    )
    with pytest.raises(InputError, match="row 1: node 0 has two relations to node 1"):
        Relations(rcc8().relations).arrays([problem])


def test_stories_of_clutrr_are_graphs(shared: Path) -> None:
    read = read_graphs(shared / "data" / "clutrr" / "data_db9b8f04")
    assert len(read["train"]) == 15_083
    assert {problem.steps for problem in read["test"]} == set(range(2, 11))
    assert all(len(problem.edges) >= problem.steps for problem in read["test"])
