"""Answers a query with an exported model: ONNX Runtime, numpy and the files beside the model, without torch."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import peirce
from attrs import frozen
from peirce.compose import exported_file
from peirce.errors import ModelFileError, PeirceError, SpecError, TaskError
from peirce.model import SPEC, WEIGHTS, Runner, saved_files
from peirce.registry import load_spec
from peirce.spec import Spec

from peirce_kg.encoding.assets import read_assets
from peirce_kg.encoding.inputs import query_inputs
from peirce_kg.encoding.literal_inputs import takes_literals
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_queries.engine.answers import answers, pair_answers, to_ids
from peirce_queries.engine.budget import SECONDS, Budget, QueryTooLargeError
from peirce_queries.graphs.graph import SPLITS, Graph, Split
from peirce_kg.parts.systems.literals import Executor
from peirce_queries.languages.conversion import read_query
from peirce_queries.languages.language import (
    FIRST,
    FREE,
    SECOND,
    Constant,
    Formula,
    Query,
    Variable,
    canonical,
    replaced,
)

MODEL = "model.onnx"
MAX_FIRSTS = 64
"""The most values of f1 with which f2 is asked for, the best first."""


@frozen(kw_only=True)
class Ranked:
    """One entity, or one pair, as an answer. known: the cumulative graphs on which it is an exact answer."""

    rank: int
    entity: str | tuple[str, str]
    score: float
    known: tuple[Split, ...]


@frozen(kw_only=True)
class Reply:
    """The best answers of a query.

    Args:
        query, answers: the query as it was read, and its answers, the best first.
        exact: how many exact answers each cumulative graph has; None where that is too large to compute, or too long.
        provider: what ran the model.
    """

    query: Query
    answers: tuple[Ranked, ...]
    exact: dict[Split, int] | None
    provider: str


class Asker:
    """An exported model with the vocabulary and the graph that it was trained on.

    Args:
        directory: where spec.toml, provenance.json, model.onnx and assets/ lie.
        seconds: how long the exact answers may take; any time if None.
        session: what runs the model; model.onnx of the directory if None.

    Raises:
        ModelFileError: a file is missing, damaged or belongs to another model.
    """

    def __init__(
        self, directory: Path, seconds: float | None = SECONDS, session: Runner | None = None
    ) -> None:
        self.directory, self.seconds = directory, seconds
        if _given_graphs(directory):
            raise ModelFileError(
                f"{directory} answers on a graph that it is given: add --zero-shot --graph GRAPH. `peirce import ultra "
                "WEIGHTS` makes such a model of published weights"
            )
        file = exported_file(directory) if session is None else directory / MODEL
        self.vocabulary: Vocabulary
        self.graph: Graph
        with saved_files(directory, without=(WEIGHTS,)) as files:
            self.spec: Spec = Spec.from_toml(files.text(SPEC), source=str(directory / SPEC))
            self.vocabulary, self.graph = read_assets(files)
        self.session: Runner = peirce.Session(file) if session is None else session
        self.outputs = self._outputs()
        self._names = [spec.name for spec in self.session.signature.inputs]
        self._system = _system(self.spec.architecture) if takes_literals(self._names) else Executor

    def _outputs(self) -> tuple[str, ...]:
        """The name of the scores, as many as there are entities, or the names of the best ones and their entities."""
        entities = len(self.vocabulary.entity_names)
        outputs = {spec.name: spec for spec in self.session.signature.outputs}
        for name in (head.as_ for head in self.spec.heads):
            spec = outputs.get(f"{name}_logits")
            if spec is not None and spec.dims[-1] == entities:
                return (spec.name,)
            if f"{name}_top_ids" in outputs:
                return (f"{name}_top_scores", f"{name}_top_ids")
        raise ModelFileError(
            f"{self.directory / MODEL} gives no scores of the {entities} entities of {self.vocabulary.graph!r}; export "
            "the model of this folder again"
        )

    def best(self, query: Query, top: int) -> tuple[list[int], list[float]]:
        """The best entities as answers, by number, and the model's scores; a `TaskError` where the file ranks fewer."""
        template, groundings = to_ids(query, self.graph)
        feeds = query_inputs(template, groundings, self.vocabulary, self._names, self.spec, self._system)
        found = self.session.run(feeds, list(self.outputs))
        scores, *ids = (found[name][0] for name in self.outputs)
        if not ids:
            order = np.argsort(-scores, kind="stable")[:top]
            return order.tolist(), scores[order].tolist()
        if top > len(scores):
            raise TaskError(
                f"{self.directory / MODEL} ranks the best {len(scores)} entities, and {top} are asked for; export it "
                f"again with --top-k {top}, or without"
            )
        return ids[0][:top].tolist(), scores[:top].tolist()

    def ask(self, text: str, top: int = 10) -> Reply:
        """The best answers of a query.

        Raises:
            QueryError: the text is no query. TaskError: a name is not in the graph, or the query is too long.
        """
        query, exact = read_query(text, pairs=True), None
        answer: Any = pair_answers if query.pairs else answers
        entities: Any
        entities, scores = best_pairs(self, query, top) if query.pairs else self.best(query, top)
        budget, asked = Budget(seconds=self.seconds), to_ids(query, self.graph)
        with suppress(QueryTooLargeError):
            found = {s: answer(*asked, self.graph.index(s), budget=budget)[0].tolist() for s in SPLITS}
            exact = {s: {tuple(one) if query.pairs else one for one in own} for s, own in found.items()}
        known, names = exact or {}, self.graph.entity_names
        ranked = tuple(
            Ranked(
                rank=place, score=score,
                entity=(names[entity[0]], names[entity[1]]) if isinstance(entity, tuple) else names[entity],
                known=tuple(split for split, found in known.items() if entity in found),
            )
            for place, (entity, score) in enumerate(zip(entities, scores, strict=True), 1)
        )  # fmt: skip
        counts = None if exact is None else {split: len(found) for split, found in exact.items()}
        return Reply(query=query, answers=ranked, exact=counts, provider=self.session.providers[0])


def best_pairs(asker: Asker, query: Query, top: int) -> tuple[list[tuple[int, int]], list[float]]:
    """The best pairs of a query with two free variables, and their scores: log p(f1) + log p(f2 | f1).

    Each p is the softmax of the model's scores: of f1 where f2 exists, and of f2 where f1 is named. No pair is likelier
    than its value of f1, so the search ends where no further one can be among the best.
    """
    found: list[tuple[float, tuple[int, int]]] = []

    def chances(formula: Formula) -> list[tuple[int, float]]:
        entities, scores = asker.best(canonical(Query(formula)), asker.graph.entities)
        logits = np.array(scores, np.float64) - scores[0]
        return list(zip(entities, (logits - np.log(np.exp(logits).sum())).tolist(), strict=True))

    marginal = replaced(query.formula, {FIRST: FREE, SECOND: Variable("second")})
    for entity, first in chances(marginal)[:MAX_FIRSTS]:
        if len(found) == top and first <= found[-1][0]:
            break
        named = replaced(query.formula, {FIRST: Constant(asker.graph.entity_names[entity]), SECOND: FREE})
        found += [(first + second, (entity, other)) for other, second in chances(named)[:top]]
        found = sorted(found, reverse=True)[:top]
    return [pair for _, pair in found], [score for score, _ in found]


def _given_graphs(model: Path) -> bool:
    """Whether a saved model, or the spec that stands in its place, knows no graph of its own."""
    with suppress(SpecError):
        return load_spec(model / SPEC if model.is_dir() else str(model)).architecture == "ultra"
    return False


def _system(architecture: str) -> type[Executor]:
    """What an architecture declares of the queries that it supports; what holds of every system, without torch."""
    from peirce.registry import default_registry

    try:
        return Executor.of(default_registry().get("architectures", architecture))
    except PeirceError as error:
        warnings.warn(f"which queries {architecture!r} supports is not known here: {error}", stacklevel=2)
        return Executor
