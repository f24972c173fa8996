"""Answers queries with an exported model: ONNX Runtime, numpy and the files beside the model, without torch."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
from rich.console import Console

import peirce
from peirce.errors import InputError, ModelFileError, PeirceError, SpecError, TaskError
from peirce.extras import require
from peirce.model import ASSETS, SPEC, WEIGHTS, saved_files
from peirce.registry import default_registry, load_spec
from peirce.spec import Spec
from peirce_export import Runner, exported_file
from peirce_kg.encoding.assets import VOCABULARY, read_assets
from peirce_kg.encoding.inputs import query_inputs
from peirce_kg.encoding.literal_inputs import takes_literals
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.encoding.writing import KINDS
from peirce_kg.parts.systems.literals import Executor, executor_of
from peirce_queries import (
    FIRST,
    FREE,
    SECOND,
    AnyQuery,
    Constant,
    Formula,
    GivenGraph,
    Graph,
    PageAnswerer,
    Query,
    Ranking,
    Variable,
    canonical,
    load_types,
    replace_terms,
    sample,
    select,
    to_ids,
    to_query,
)

MODEL = "model.onnx"
INDUCTIVE = "ultra"
"""The architecture that knows no names and no graph of its own."""
PAGE_TYPES = ("1p", "2p", "2i", "pi", "2in", "2u")
"""The types that a page has a query of, where its graph has one."""
PAGE_INPUTS = {"input_ids", "attention_mask", "token_kinds"}
"""What a page can tell a model."""
MAX_FIRSTS = 64
"""The most values of f1 with which f2 is asked for, the best first."""


class ExportedModel(PageAnswerer):
    """An exported model with the vocabulary and the graph that it was trained on.

    Args:
        directory: where spec.toml, provenance.json, model.onnx and assets/ lie.
        session: what runs the model; model.onnx of the directory if None.

    Raises:
        ModelFileError: a file is missing, damaged or belongs to another model.
    """

    @classmethod
    def opens(cls, place: Path) -> bool:
        """See `Answerer.opens`."""
        files = (place / MODEL, place / ASSETS / VOCABULARY)
        return any(file.is_file() for file in files) and architecture_of(place) != INDUCTIVE

    @classmethod
    def open(cls, place: Path, given: GivenGraph | None) -> ExportedModel:
        """See `Answerer.open`."""
        if given is not None:
            raise ModelFileError(
                f"{place} answers on the graph that it was trained on: leave --graph out. `peirce import ultra "
                "WEIGHTS` makes a model for any graph of published weights"
            )
        return cls(place)

    def __init__(self, directory: Path, session: Runner | None = None) -> None:
        self.directory = directory
        file = exported_file(directory) if session is None else directory / MODEL
        self.vocabulary: Vocabulary
        self.graph: Graph
        with saved_files(directory, without=(WEIGHTS,)) as files:
            self.spec: Spec = Spec.from_toml(files.text(SPEC), source=str(directory / SPEC))
            self.vocabulary, self.graph = read_assets(files)
        self.session: Runner = peirce.Session(file) if session is None else session
        self.provider = self.session.providers[0]
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
            f"{self.directory / MODEL} does not score the {entities} entities of {self.vocabulary.graph!r}; export "
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
                f"{self.directory / MODEL} ranks only the best {len(scores)} entities, not {top}; export it "
                f"again with --top-k {top}, or without"
            )
        return ids[0][:top].tolist(), scores[:top].tolist()

    def rank(self, query: AnyQuery, top: int, console: Console | None = None) -> Ranking:
        """See `Answerer.rank`; pairs are ranked by `_best_pairs`."""
        formula = to_query(query, pairs=True)
        if formula.pairs:
            pairs = self._best_pairs(formula, top)
            return Ranking(entities=[pair for _, pair in pairs], scores=[score for score, _ in pairs])
        entities, scores = self.best(formula, top)
        return Ranking(entities=entities, scores=scores)

    def _best_pairs(self, query: Query, top: int) -> list[tuple[float, tuple[int, int]]]:
        """The best pairs of a query with two free variables, each after its score: log p(f1) + log p(f2 | f1).

        Each p is the softmax of the model's scores: of f1 where f2 exists, and of f2 where f1 is named. No pair is
        likelier than its value of f1, so the search ends where no further one can be among the best.
        """
        found: list[tuple[float, tuple[int, int]]] = []
        marginal = replace_terms(query.formula, {FIRST: FREE, SECOND: Variable("second")})
        for entity, first in self._log_chances(marginal)[:MAX_FIRSTS]:
            if len(found) == top and first <= found[-1][0]:
                break
            name = Constant(self.graph.entity_names[entity])
            conditional = replace_terms(query.formula, {FIRST: name, SECOND: FREE})
            found += [
                (first + second, (entity, other)) for other, second in self._log_chances(conditional)[:top]
            ]
            found = sorted(found, reverse=True)[:top]
        return found

    def _log_chances(self, formula: Formula) -> list[tuple[int, float]]:
        """Every entity with the logarithm of its chance to be an answer, the likeliest first."""
        entities, scores = self.best(canonical(Query(formula)), self.graph.entities)
        logits = np.array(scores, np.float64) - scores[0]
        return list(zip(entities, (logits - np.log(np.exp(logits).sum())).tolist(), strict=True))

    def write_page(self, path: Path, query: Query, top: int, runtime: Path) -> None:
        """See `PageAnswerer.write_page`.

        Raises:
            TaskError: peirce-show is not installed.
            InputError: the model does not read queries as EFO text from the beginning, or does not rank all entities.
        """
        require("--page", "peirce_show", extra="show")
        from peirce_show import write_page

        session, vocabulary, graph = self.session, self.vocabulary, self.graph
        assert isinstance(session, peirce.Session)
        scores, *ranked = self.outputs
        inputs = {spec.name for spec in session.signature.inputs}
        if vocabulary.syntax != "efo" or vocabulary.reversed_ or ranked or not inputs <= PAGE_INPUTS:
            raise InputError(
                f"{session.path} cannot become a page: a page ranks all entities, and reads nothing but the EFO text "
                "of queries, from their beginning; train such a model, or leave --page out"
            )
        examples = sample(select(PAGE_TYPES, load_types()), graph, "train", 1, seed=0, leave_out=True)
        data = {
            "entities": vocabulary.entity_names,
            "relations": vocabulary.relation_names,
            "symbols": vocabulary.symbols,
            "kinds": KINDS,
            "free": vocabulary.free,
            "existentials": vocabulary.existentials,
            "first_entity": vocabulary.first_entity,
            "first_relation": vocabulary.first_relation,
            "longest": self.spec.input.max_length,
            "query": str(query),
            "examples": {each.type.name: str(each.query(0, graph)) for each in examples},
            "top": top,
            "scores": scores,
        }
        folder, title = Path(__file__).parent / "page", f"Ask {graph.name}"
        write_page(path, session, folder, data, title=title, layer="Layer", runtime=runtime)


def architecture_of(place: Path) -> str:
    """The architecture of a saved model, or of the ready spec of that name; nothing where there is none."""
    with suppress(SpecError):
        return load_spec(place / SPEC if place.is_dir() else str(place)).architecture
    return ""


def _system(architecture: str) -> type[Executor]:
    """What an architecture declares of the queries that it supports; what holds of every system, without torch."""
    try:
        return executor_of(default_registry().get("architectures", architecture))
    except PeirceError as error:
        warnings.warn(f"which queries {architecture!r} supports is not known here: {error}", stacklevel=2)
        return Executor
