"""First-order queries to a served model: text in, names of entities and scores out, without torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from peirce.errors import InputError
from peirce.parts import Signature
from peirce_export import Field, Pipeline, Runner, Say
from peirce_kg.encoding.assets import TRIPLES, VOCABULARY
from peirce_kg.exported import ExportedModel
from peirce_queries import Atom, Constant, Variable, read_query

TOP = 10


class QueryAnswers(Pipeline):
    """The best answers of a query over the graph that a model was trained on."""

    question = (
        Field(name="query", kind="text", meaning="A query, such as isa(alga,f) & !affects(e1,f)."),
        Field(name="top", kind="int64", required=False, meaning=f"How many answers; {TOP} if not given."),
    )
    answer = (
        Field(name="entities", kind="text", many=True, meaning="The best entities, the best first."),
        Field(name="scores", kind="float", many=True, meaning="Their scores."),
    )

    @classmethod
    def answers(cls, signature: Signature, assets: Collection[str], generates: bool) -> bool:
        """Whether the model has a vocabulary with its graph."""
        return {VOCABULARY, TRIPLES} <= set(assets)

    def __init__(self, folder: Path, model: Runner) -> None:
        self._model = ExportedModel(folder, session=model)

    def labels(self) -> Mapping[str, Sequence[str]]:
        """The entities."""
        scores, *ranked = self._model.outputs
        return {} if ranked else {scores: self._model.graph.entity_names}

    def example(self) -> Mapping[str, Any]:
        """One relation of the graph, from one of its entities."""
        graph = self._model.graph
        return {"query": str(Atom(graph.relation_names[0], Constant(graph.entity_names[0]), Variable("f")))}

    def ask(self, question: Mapping[str, Any], say: Say) -> None:
        """Rank the entities."""
        top = question.get("top", TOP)
        if top < 1:
            raise InputError(f"input 'top' is {top}; ask for one answer or more")
        entities, scores = self._model.best(read_query(question["query"]), top)
        names = self._model.graph.entity_names
        say({"entities": [names[entity] for entity in entities], "scores": scores})
