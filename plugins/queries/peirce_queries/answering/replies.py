"""What a query is answered: ranked by a model, or exactly, with the graphs that entail each answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from attrs import field, frozen
from rich.console import Console

from peirce_queries.answering.answerer import Answerer, Entity, Ranking
from peirce_queries.engine.answers import answers, pair_answers, to_ids
from peirce_queries.engine.budget import Budget, QueryTooLargeError
from peirce_queries.graphs.graph import SPLITS, Graph, Split
from peirce_queries.languages.conversion import AnyQuery, to_query
from peirce_queries.languages.parsing import QueryError


@frozen(kw_only=True)
class Ranked:
    """One entity, or one pair, as an answer. known: the cumulative graphs on which it is an exact answer."""

    rank: int
    entity: str | tuple[str, str]
    score: float
    known: tuple[Split, ...] = ()


@frozen(kw_only=True)
class Reply:
    """The best answers of a query.

    Args:
        query, answers: the query as it was read, and its answers, the best first.
        exact: how many exact answers each cumulative graph has; None where that is too large to compute, or too long,
            or where no formula says the query.
        provider: what ran the model.
        variables: the likeliest values of each variable that an answer goes through, where a model knows them.
    """

    query: AnyQuery
    answers: tuple[Ranked, ...]
    exact: dict[Split, int] | None
    provider: str
    variables: dict[str, tuple[Ranked, ...]] = field(factory=dict)


def model_reply(
    answerer: Answerer,
    query: AnyQuery,
    top: int = 10,
    seconds: float | None = None,
    splits: Sequence[Split] = SPLITS,
    console: Console | None = None,
) -> Reply:
    """The best answers of a query by a model.

    Args:
        answerer, query: what answers, and what.
        top: how many answers are given.
        seconds: how long the exact answers may take, which mark what is known; any time if None.
        splits: the cumulative graphs that they are marked on.
        console: where a progress bar is shown; nowhere when None.

    Raises:
        TaskError: a name is not in the graph, or the model does not support the query.
    """
    found, graph = answerer.rank(query, top, console), answerer.graph
    exact: dict[Split, set[Entity]] | None = None
    with suppress(QueryTooLargeError):
        exact = exact_answers(query, graph, splits, seconds)
    return Reply(
        query=query,
        answers=_ranked(found, graph, exact or {}),
        exact=None if exact is None else {split: len(members) for split, members in exact.items()},
        provider=answerer.provider,
        variables={name: _ranked(values, graph, {}) for name, values in found.variables.items()},
    )


def exact_reply(query: AnyQuery, graph: Graph, split: Split, seconds: float | None = None) -> Reply:
    """The answers that a graph entails, each with the score 1, by the exact engine alone.

    Raises:
        QueryError: no formula says the query. QueryTooLargeError: it takes too much.
    """
    exact = exact_answers(to_query(query, pairs=True), graph, (split,), seconds)
    assert exact is not None, "there is a formula"
    found = sorted(exact[split], key=lambda entity: (entity,) if isinstance(entity, int) else entity)
    ranking = Ranking(entities=found, scores=[1.0] * len(found))
    return Reply(
        query=query,
        answers=_ranked(ranking, graph, exact),
        exact={split: len(found)},
        provider="the exact engine",
    )


def exact_answers(
    query: AnyQuery, graph: Graph, splits: Sequence[Split], seconds: float | None
) -> dict[Split, set[Entity]] | None:
    """The exact answers on some cumulative graphs, within the same seconds; None if the query has no formula.

    Raises:
        QueryTooLargeError: it takes too much.
    """
    try:
        formula = to_query(query, pairs=True)
    except QueryError:
        return None
    ids, budget = to_ids(formula, graph), Budget(seconds=seconds)
    find: Any = pair_answers if formula.pairs else answers
    rows = {split: find(*ids, graph.index(split), budget=budget)[0].tolist() for split in splits}
    return {split: {tuple(one) if formula.pairs else one for one in found} for split, found in rows.items()}


def _ranked(found: Ranking, graph: Graph, exact: dict[Split, set[Entity]]) -> tuple[Ranked, ...]:
    """Answers by name."""
    names = graph.entity_names
    return tuple(
        Ranked(
            rank=place,
            entity=(names[entity[0]], names[entity[1]]) if isinstance(entity, tuple) else names[entity],
            score=score,
            known=tuple(split for split, members in exact.items() if entity in members),
        )
        for place, (entity, score) in enumerate(zip(found.entities, found.scores, strict=True), 1)
    )
