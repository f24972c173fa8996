"""Problems of drawn algebras, of reachability and off the path: their answers, by what is no part of the generator."""

from __future__ import annotations

import json
from collections import Counter
from itertools import permutations, product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import evolve

from peirce.errors import InputError
from peirce_relations.calculi import sources
from peirce_relations.calculi.algebra import broken_laws, calculus
from peirce_relations.calculi.baselines import majority, path_only
from peirce_relations.calculi.closure import InconsistentError
from peirce_relations.calculi.offpath import GUILDS, STEPS, WEAK, OffPath, on_paths
from peirce_relations.calculi.reach import Reach
from peirce_relations.calculi.sources import block, lines, source
from peirce_relations.graphs import Problem


def problems(name: str, steps: tuple[int, ...], branches: tuple[int, ...], count: int) -> list[Problem]:
    return list(block(source(name, max(steps)), {"steps": steps, "branches": branches}, 1, 0, count))


@pytest.mark.parametrize(("name", "branches"), [("random", 1), ("random:6:4", 2), ("associative", 3)])
def test_problems_of_drawn_algebras_have_one_answer(name: str, branches: int) -> None:
    made = problems(name, (2, 3), (branches,), 30)
    algebra = calculus(name)
    assert broken_laws(algebra) == ([] if name == "associative" else ["composition is associative"])
    assert len({each.answer for each in made}) > 3
    for each in made:
        assert source(name).possible(each) == [each.answer]
        if branches == 1:
            one, *others = map(algebra.id, each.labels)
            left = {one}
            for other in others:
                left = {int(t) for r in left for t in algebra.composition[r, other].nonzero()[0]}
            assert algebra.id(str(each.answer)) in left


def test_turned_edges_tell_nothing_of_what_is_reached() -> None:
    made = problems("reach", (2, 4), (1, 3), 60)
    assert {each.answer for each in made} == {"apart", "reached"}
    for each in made:
        assert sum(x > y for x, y in each.edges) == each.paths
        assert Reach().possible(each) == [each.answer]
    turned = evolve(made[0], edges=tuple((y, x) for x, y in made[0].edges), query=made[0].query[::-1])
    assert Reach().possible(turned) == [made[0].answer]


def worlds(problem: Problem, pair: tuple[int, int]) -> set[str]:
    """The answers for a pair by trying the guilds of all people, in plain loops."""
    allowed = {**{name: (i,) for i, name in enumerate(STEPS)}, **WEAK, "other": (1, 2, 3, 4)}
    facts = list(zip(problem.edges, problem.labels, strict=True))
    masters = [x for (x, _), word in facts if word == "master"]
    found = set()
    for guilds in product(range(5), repeat=problem.nodes):
        steps = ((guilds[y] - guilds[x]) % 5 in allowed[word] for (x, y), word in facts if word in allowed)
        known = (guilds[x] == GUILDS.index(word) for (x, _), word in facts if word in GUILDS)
        if all(known) and all(steps) and len({guilds[x] for x in masters}) == len(masters):
            one, other = pair
            found.add(STEPS[(guilds[other] - guilds[one]) % 5])
    return found


@pytest.mark.parametrize("level", [1, 2, 3])
def test_answers_need_facts_that_lie_on_no_path(level: int) -> None:
    world = OffPath(level)
    made = problems(world.name, (2, 3, 4), (1,), 30)
    for each in made:
        near = on_paths(each)
        assert world.possible(each) == [each.answer]
        assert len(world.possible(near)) > 1
        assert each.answer in world.possible(near)
        walk = [(x, y) for x, y in near.edges if x != y]
        assert sorted(walk) == [(i, i + 1) for i in range(each.steps)]
    small = min(made, key=lambda each: each.nodes)
    assert small.nodes <= 10
    kept = evolve(on_paths(small), nodes=small.steps + 1)
    assert worlds(kept, kept.query) == set(world.possible(kept))
    assert small.nodes > 7 or worlds(small, small.query) == {small.answer}
    pairs = {(x, y): worlds(kept, (x, y)) for x, y in permutations(range(kept.nodes), 2)}
    found = {(x, y): {answer} for x, y, answer in world.decided_pairs(kept)}
    assert found == {pair: answers for pair, answers in pairs.items() if len(answers) == 1}
    train, test = made[:20], made[20:]
    assert len(set(majority(train, test))) == 1
    for guess, each in zip(path_only(world, train, test), test, strict=True):
        assert guess in world.possible(on_paths(each))


def test_what_lies_on_a_path_is_what_a_simple_path_goes_through() -> None:
    edges = ((0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 2), (5, 0), (1, 1), (3, 3))
    problem = Problem(nodes=6, edges=edges, labels=("same",) * 9, query=(0, 2), answer=None)
    assert on_paths(problem).edges == ((0, 1), (1, 2), (0, 2), (1, 1))
    assert on_paths(evolve(problem, query=(3, 3))).edges == ((3, 3),)


def test_contradictions_and_unknown_words_are_named() -> None:
    def problem(*words: tuple[int, int, str]) -> Problem:
        edges, labels = tuple((x, y) for x, y, _ in words), tuple(word for *_, word in words)
        return Problem(nodes=3, edges=edges, labels=labels, query=(0, 1), answer=None)

    world = OffPath(3)
    masters = problem((0, 1, "same"), (0, 0, "master"), (1, 1, "master"))
    with pytest.raises(InconsistentError, match="no world satisfies them all"):
        world.possible(masters)
    assert world.possible(problem((0, 1, "other"), (2, 2, "mason"))) == list(STEPS[1:])
    for word, said in (("nera", "'near'"), ("mason", "one node")):
        with pytest.raises(InputError, match=said):
            world.possible(problem((0, 1, word)))
    with pytest.raises(InputError, match="one path"):
        world.make(2, 3, Random(0))
    for name, said in (("offpath:7", "level 7"), ("reahc", "'reahc'")):
        with pytest.raises(InputError, match=said):
            source(name)


def test_any_number_of_workers_writes_the_same_and_what_was_done_is_kept(
    tmp_path: Path, invoke: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(name: str, *more: str) -> Any:
        given = ["--algebra", "reach", "--problems", "600", "-o", str(tmp_path / name), *more]
        return invoke("relations", "generate", *given)

    assert made("one.jsonl").exit_code == made("two.jsonl", "--workers", "2").exit_code == 0
    calls = Counter[int]()

    def counted(*given: Any) -> str:
        calls[given[-1]] += 1
        if given[-1] == 1 and calls[1] == 1:
            raise InputError("stopped")
        return lines(*given)

    monkeypatch.setattr(sources, "lines", counted)
    assert "stopped" in made("three.jsonl").output
    assert made("three.jsonl").exit_code == 0
    assert calls == {0: 1, 1: 2, 2: 1}
    texts = [(tmp_path / f"{name}.jsonl").read_text() for name in ("one", "two", "three")]
    assert texts[0] == texts[1] == texts[2]
    assert texts[0].count("\n") == 600
    assert not list(tmp_path.glob(".*.parts"))
    given = ["--algebra", "reach", "-o", str(tmp_path / "solved.jsonl"), "--json"]
    solved = invoke("relations", "solve", str(tmp_path / "one.jsonl"), *given)
    assert json.loads(solved.stdout)["agree"] == 600
