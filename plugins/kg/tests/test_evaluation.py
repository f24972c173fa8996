from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from peirce.errors import TaskError
from peirce_kg import evaluation
from peirce_kg.evaluation import (
    FILTERINGS,
    STRATA,
    Report,
    Scorer,
    frequency_scorer,
    random_scorer,
    ranks,
    table,
)
from peirce_queries.engine.answers import Answers, answers, to_ids
from peirce_queries.engine.missing import Links
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.graphs.graph import SPLITS, Graph, Split, from_names, load_graph
from peirce_queries.languages.language import parse
from peirce_queries.languages.types import load_types, select
from peirce_queries.sampling.sampler import QuerySet, sample

NATIONS = load_graph("nations")
SETS = sample(select(("1p", "2i", "2in"), load_types()), NATIONS, "test", 40, seed=0)


def evaluate(name: str, sets: Sequence[QuerySet], scorer: Scorer, entities: int = NATIONS.entities) -> Report:
    return evaluation.evaluate(name, sets, scorer, entities=entities)


def constant(template: Template, groundings: Groundings) -> evaluation.Floats:
    return np.zeros((len(groundings), NATIONS.entities))


def _oracle(split: Split) -> Scorer:
    def score(template: Template, groundings: Groundings) -> evaluation.Floats:
        found = answers(template, groundings, NATIONS.index(split))
        scores = np.zeros((len(groundings), NATIONS.entities))
        scores[found.queries, found.entities] = 1.0
        return scores

    return score


def _one(graph: Graph, text: str, split: Split) -> QuerySet:
    """A set of one query."""
    template, groundings = to_ids(parse(text), graph)
    found = {s: answers(template, groundings, graph.index(s)) for s in SPLITS}
    return QuerySet(load_types()["1p"], split, template, groundings, found)


def _answers(*sets: list[int]) -> Answers:
    return Answers.concatenate([Answers(np.array([0, len(s)]), np.array(sorted(s), np.int64)) for s in sets])


@given(st.data())
def test_ranks_equal_their_definition(data: st.DataObject) -> None:
    entities, rows = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 3))
    row = st.lists(st.integers(0, 3), min_size=entities, max_size=entities)
    scores = np.array([data.draw(row) for _ in range(rows)], float)
    subset = st.sets(st.integers(0, entities - 1))
    targets = [data.draw(subset) for _ in scores]
    known = [t | data.draw(subset) for t in targets]
    found = ranks(scores, _answers(*map(list, targets)), _answers(*map(list, known)))
    expected = []
    for row, mine, others in zip(scores, targets, known, strict=True):
        for target in sorted(mine):
            rivals = [row[e] for e in range(entities) if e not in others]
            optimistic = 1 + sum(r > row[target] for r in rivals)
            pessimistic = 1 + sum(r >= row[target] for r in rivals)
            expected.append((optimistic + pessimistic) / 2)
    assert found.tolist() == expected


def test_constant_random_and_oracle() -> None:
    oracle = evaluate("oracle", SETS, _oracle("test")).cells.values()
    assert all(by["inferred"].mrr == by["inferred"].hits[1] == 1.0 for by in oracle)
    on_train = evaluate("oracle", SETS, _oracle("train")).mean("entailed")
    assert (on_train.mrr, on_train.hits[1]) == (1.0, 1.0)
    same = evaluate("constant", SETS, constant)
    random = [evaluate("random", SETS, random_scorer(seed, NATIONS.entities)) for seed in range(3)]
    for knowledge in ("entailed", "inferred"):
        mean = np.mean([r.mean(knowledge).mrr for r in random])
        # a constant ranks in the middle, where the mean of 1/rank is larger
        assert same.mean(knowledge).mrr < mean < 0.75
        assert same.mean(knowledge).hits[1] < 0.1
    assert evaluate("f", SETS, frequency_scorer(NATIONS.index("train"))).mean("entailed").mrr > mean


def test_the_filter_is_an_option_and_said() -> None:
    graph = from_names("g", {"train": [("a", "r", "b"), ("a", "r", "c")], "test": [("a", "r", "d")]})
    queries = _one(graph, "r(a,f)", "test")
    scores = np.array([[0.0, 1.0, 2.0, 3.0]])  # d, inferred, beats the entailed b and c
    reports = {
        filtering: evaluation.evaluate("s", [queries], lambda *_: scores, entities=4, filtering=filtering)
        for filtering in FILTERINGS
    }
    assert reports["graphs"].mean("entailed").mrr == 1.0
    assert reports["graph"].mean("entailed").mrr == 0.5
    assert reports["graph"].mean("inferred").mrr == 1.0
    assert reports["graph"].mean("inferred").answers == 1
    for report in reports.values():
        assert {f: r.cells for f, r in report.filtered.items()} == {f: r.cells for f, r in reports.items()}
    assert "A(train), A(valid) and A(test)" in " ".join(_print(reports["graphs"]).split())
    assert "A(train) for entailed answers" in " ".join(_print(reports["graph"]).split())


def test_means_of_seen_and_unseen_types() -> None:
    scorer = frequency_scorer(NATIONS.index("train"))
    report = evaluation.evaluate("f", SETS, scorer, entities=NATIONS.entities, seen=("1p", "2i"))
    by_type = {name: by["inferred"].mrr for name, by in report.cells.items()}
    assert report.mean("inferred", "seen").mrr == pytest.approx((by_type["1p"] + by_type["2i"]) / 2)
    assert report.mean("inferred", "unseen").mrr == by_type["2in"]
    metrics = report.metrics()
    assert metrics["inferred/mrr/unseen"] == by_type["2in"]
    assert metrics["inferred/mrr"] == pytest.approx(np.mean(list(by_type.values())))
    assert "mean, unseen types" in _print(report)
    everything = evaluate("f", SETS, scorer)
    assert not everything.cells_of("inferred", "unseen")
    with pytest.raises(TaskError, match="no test query of unseen types has inferred answers"):
        everything.mean("inferred", "unseen")


def test_an_answer_that_a_later_graph_lost_is_filtered_where_its_graph_counts() -> None:
    splits = {"train": [("a", "r", name) for name in "bcde"], "valid": [("a", "q", "b")]}
    graph = from_names("g", {**splits, "test": [("a", "q", "c"), ("a", "r", "f")]})
    queries = _one(graph, "r(a,f) & !q(a,f)", "test")
    # f is inferred; b answers on the training graph alone, c on it and on valid, d and e on all
    better = {"a": 0.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 2.5, "f": 1.0}
    scores = np.array([[better[name] for name in graph.entity_names]])
    report = evaluate("s", [queries], lambda template, groundings: scores, 6)
    inferred = {f: 1 / r.mean("inferred").mrr for f, r in report.filtered.items()}
    assert inferred == pytest.approx({"graph": 3, "before": 2, "graphs": 1})
    metrics = report.metrics()
    assert metrics["inferred/mrr"] == pytest.approx(1 / 2)
    assert metrics["graph/inferred/mrr"] == metrics["graph/inferred/mrr/seen"] == pytest.approx(1 / 3)
    assert metrics["graphs/inferred/mrr"] == 1
    chosen = evaluation.evaluate("s", [queries], lambda *_: scores, entities=6, filtering="graphs").metrics()
    assert (chosen["inferred/mrr"], chosen["graph/inferred/mrr"]) == pytest.approx((1, 1 / 3))


def test_means_go_over_answers_then_queries_then_types() -> None:
    two = (_answers([1, 2], [3]), np.array([1.0, 2.0, 4.0])), (_answers([], [0]), np.array([1.0]))
    cell = evaluation._cell([*two])
    assert cell.mrr == pytest.approx((0.75 + 0.25 + 1) / 3)
    assert (cell.queries, cell.answers) == (3, 4)
    report = evaluate("c", SETS, constant)
    by_type = [by["inferred"].mrr for by in report.cells.values()]
    assert report.metrics()["inferred/mrr"] == pytest.approx(np.mean(by_type))
    assert report.metrics()["inferred/mrr/2i"] == by_type[1]
    assert report.metrics()["inferred/queries"] == 120


def test_scores_are_finite_and_of_every_entity() -> None:
    with pytest.raises(TaskError, match=r"gave scores \[40, 3\] to 40 queries about 14 entities"):
        evaluate("few", SETS, lambda template, groundings: np.zeros((len(groundings), 3)))
    with pytest.raises(TaskError, match="not finite"):
        evaluate("bad", SETS, lambda *asked: constant(*asked) + np.nan)


def test_frequency_baseline_combines_shares() -> None:
    graph = from_names("g", {"train": [("a", "r", "b"), ("c", "r", "b"), ("a", "r", "d"), ("a", "q", "d")]})
    score = frequency_scorer(graph.index("train"))

    def scores(text: str) -> dict[str, float]:
        query = parse(text)
        template = Template.of(query)
        groundings = Groundings(np.array([[graph.relation(r) for r in template.relations]]), np.array([[0]]))
        return dict(zip(graph.entity_names, score(template, groundings)[0].round(6).tolist(), strict=True))

    third = round(1 / 3, 6)
    assert scores("r(a,f)") == {"a": 0, "b": round(2 / 3, 6), "c": 0, "d": third}
    assert scores("r(f,a)") == {"a": round(2 / 3, 6), "b": 0, "c": third, "d": 0}
    assert scores("r(a,f) & !q(a,f)") == {"a": 0, "b": round(2 / 3, 6), "c": 0, "d": 0}
    assert scores("r(a,f) | q(a,f)") == {"a": 0, "b": round(2 / 3, 6), "c": 0, "d": 1}


def _print(*reports: Report) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(table(reports, "title"))
    return capture.get()


def test_inferred_answers_are_told_apart_by_the_links_that_they_miss() -> None:
    links = Links(NATIONS.index("valid"), NATIONS.index("test"))
    new = [queries.answers["test"].minus(queries.answers["valid"], NATIONS.entities) for queries in SETS]
    missing = [links.missing(q.template, q.groundings, own) for q, own in zip(SETS, new, strict=True)]
    oracle = _oracle("valid")
    report = evaluation.evaluate("v", SETS, oracle, entities=NATIONS.entities, missing=missing)
    for name, by in report.cells.items():
        counted = [by[k] for k in STRATA[:-1] if k in by]
        assert sum(cell.answers for cell in counted) == by["inferred"].answers
        assert ("missing-2" in by) == (name == "2i")
        assert by["hard"].answers == by["missing-2" if name == "2i" else "missing-1"].answers
    hard, inferred = (sum(by[k].answers for by in report.cells.values()) for k in ("hard", "inferred"))
    assert report.shares["hard"] == pytest.approx(hard / inferred)
    assert f"all of their links in {report.shares['hard']:.1%} (hard)" in " ".join(_print(report).split())
    assert "hard/mrr" not in report.metrics()
    assert report.metrics(strata=True)["hard/mrr"] == report.mean("hard").mrr
    assert report.metrics()["missing-1/share"] < 1
    # without the counts nothing else changes
    plain = evaluate("v", SETS, oracle)
    assert not plain.shares
    assert plain.mean("inferred") == report.mean("inferred")
