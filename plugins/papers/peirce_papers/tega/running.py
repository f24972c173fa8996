"""The trainings of a table: a model is trained once, whatever tables it is in, and evaluated as each of them asks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from attrs import field, frozen
from rich.console import Console

from peirce.errors import TaskError
from peirce.files import read_json
from peirce.registry import load_spec
from peirce.spec import Spec
from peirce_kg import (
    TOP,
    EmbeddingOptions,
    Filtering,
    KgQa,
    KgQaData,
    Knowledge,
    Predictor,
    Report,
    embed,
    evaluate,
    scorer_of,
)
from peirce_papers.tega.tables import Definitions, Evaluation, Scale, TegaRow, TegaTable, stored_filtering
from peirce_queries import (
    Floats,
    Graph,
    Groundings,
    Missing,
    QuerySet,
    Template,
    fingerprint,
    hard_types,
    load_types,
    missing_links,
    sample,
    select,
)
from peirce_training import TrainResult, make_task, plain_options, settings_by_part, training_options
from peirce_training.experiments import Cell, Matrix, ResultRow, digest, identity, last_loss

PROVENANCE = "provenance.json"
"""What every saved model has."""
SHOWN = ("filtering", "strata")
"""Options of the task that say which figures are shown; a table measures all of them."""


Sets = tuple[Sequence[QuerySet], Sequence[Missing]]
"""Queries, a set a type, and the links that the inferred answers of each miss."""


def _parse_bool(value: object) -> bool:
    return str(value) == "True"


@frozen(kw_only=True)
class RankingRow(ResultRow):
    """How a trained model ranks the answers of one kind of one type's test queries; MRR and Hits@k are in [0, 1]."""

    spec: str
    graph: str
    scale: str
    evaluation: str
    type: str
    seen: bool = field(converter=_parse_bool)
    answers: str
    mrr: float = field(converter=float)
    hits1: float = field(converter=float)
    hits3: float = field(converter=float)
    hits10: float = field(converter=float)
    queries: int = field(converter=int)
    loss: float = field(converter=float)
    filtering: str
    query_seconds: float = field(default=0.0, converter=float, eq=False)
    """CPU seconds that scoring all entities for one query took, on the mean over an evaluation; 0 if older."""


@frozen(kw_only=True, eq=False)
class TegaCell(Cell):
    """A row of a table with one seed; `vectors` is the link predictor whose vectors it begins with, if any."""

    vectors: Predictor | None


@frozen(kw_only=True, eq=False)
class TegaRuns(Matrix[RankingRow]):
    """The trainings of a table.

    Args:
        table: the table.
        scale: how large everything is.
        definitions: where groups of types are looked up.
        request: its data are a graph, as the task's option `graph`; the queries are those of one seed; every filtering
            is measured, whatever its settings say of one.
    """

    table: TegaTable
    scale: Scale
    definitions: Definitions
    hard: dict[str, Sets] = field(factory=dict, init=False, repr=False)
    """Hard queries and what they miss, by the graph and how many of a type."""

    folder = "runs"
    row = RankingRow

    def cells(self) -> Iterator[TegaCell]:
        """The trainings of the table, all rows of one seed before the next seed.

        Raises:
            TaskError: a setting is unknown or impossible. SpecError: so is one of a spec.
        """
        types = self.definitions.types(self.table.types)
        common = {
            **self.scale.settings,
            "task.graph": self.request.data,
            "task.types": [t.name for t in select(types, load_types()) if t.seen],
            "task.eval_types": list(types),
            "task.absent": "leave_out",
            "train.test_split": "",
            "train.keep": 1,
        }
        for seed in self.request.seeds:
            for row in self.table.rows:
                wanted = {k: v for k, v in common.items() if k not in row.without}
                model, task, training = settings_by_part(
                    wanted, row.settings, row.scaled.get(self.scale.name, {}), self.request.settings
                )
                for shown in SHOWN:
                    task.pop(shown, None)
                spec = load_spec(row.spec, {} if row.imported else model)
                made = make_task(KgQa.name, task, self.registry)
                options = training_options(training)
                vectors, as_is, weights = None, self._imported_model(row), []
                if as_is and seed != self.request.seeds[0]:
                    continue
                if as_is and (as_is / PROVENANCE).is_file():
                    weights = [read_json(as_is / PROVENANCE)["weights"]]
                if row.vectors:
                    vectors = plain_options(EmbeddingOptions(model=row.vectors, dim=spec.dims["unary"]))
                facts = {
                    name: value for name, value in plain_options(made.options).items() if name != "strata"
                }
                yield TegaCell(
                    label=row.label,
                    seed=seed,
                    spec=spec,
                    task=made,
                    training=options,
                    run=identity(spec, facts, options, seed, vectors, *weights),
                    vectors=row.vectors,
                    as_is=as_is,
                )

    def run(self, console: Console) -> list[RankingRow]:
        """Do the trainings and evaluations that are not done yet; there are none in a table of sizes.

        Returns:
            The rows of the table's runs and evaluations, earlier ones included.

        Raises:
            PeirceError: a run cannot be done; what was done before it is kept.
        """
        if self.table.measure != "mrr":
            return []
        for row in self.table.rows:
            if (path := self._imported_model(row)) and not (path / PROVENANCE).is_file():
                raise TaskError(
                    f"{row.label} is not trained, and {path} holds no model to measure; make it with "
                    f"`{row.imported} -o {path}`"
                )
        return [row for row in super().run(console) if row.evaluation in self._keys]

    def _imported_model(self, row: TegaRow) -> Path | None:
        """Where the model of a row lies that is measured as it is."""
        return self.request.directory / "imported" / row.spec if row.imported else None

    @property
    def _keys(self) -> set[str]:
        return {evaluation.key for evaluation in self.table.all_evaluations.values()}

    def complete(self, rows: Sequence[RankingRow]) -> bool:
        """Whether there are rows of each evaluation."""
        return {row.evaluation for row in rows} >= self._keys

    def spec_to_train(self, cell: TegaCell, data: KgQaData, console: Console) -> Spec:
        """The spec of a training, with the file of the vectors that it begins with."""
        if not cell.vectors:
            return cell.spec
        path = vectors_file(
            self.request.directory, data.graph, cell.vectors, cell.spec.dims["unary"], console
        )
        links = {"model.heads.0.links": str(path)} if "links" in cell.spec.heads[0].options else {}
        return cell.spec.replace({"model.augmenters.0.file": str(path), **links})

    def measure(
        self, cell: TegaCell, trained: TrainResult, data: KgQaData, before: Sequence[RankingRow]
    ) -> Iterable[RankingRow]:
        """A row for each evaluation that is not there, each filtering, type and kind of answers.

        What two filterings have in common has one row, see `stored_filtering`.
        """
        common: dict[str, Any] = {
            **self.facts(cell, trained),
            "spec": cell.spec.name,
            "graph": data.graph.name,
            "scale": self.scale.name,
            "loss": last_loss(trained),
        }
        known = {row.evaluation for row in before}
        for evaluation in self.table.all_evaluations.values():
            if evaluation.key in known:
                continue
            report, seconds = self._report(cell, trained, data, evaluation)
            filtered = report.filtered
            for filtering, name, knowledge in _row_keys(filtered):
                figures = filtered[filtering].cells[name][knowledge]
                hits: dict[str, Any] = {f"hits{k}": round(figures.hits[k], 6) for k in TOP}
                yield RankingRow(
                    **common,
                    evaluation=evaluation.key,
                    type=name,
                    seen=name in filtered[filtering].seen,
                    answers=knowledge,
                    mrr=round(figures.mrr, 6),
                    **hits,
                    queries=figures.queries,
                    filtering=filtering,
                    query_seconds=round(seconds, 6),
                )

    def _report(
        self, cell: TegaCell, trained: TrainResult, data: KgQaData, evaluation: Evaluation
    ) -> tuple[Report, float]:
        """Evaluate a trained model, whose data hold the queries of all types of the table; and the time of a query."""
        chosen = {t.name for t in self.definitions.kinds(evaluation)}
        every = zip(data.sets["test"], data.missing("test"), strict=True)
        if evaluation.hard:
            every = zip(*self._hard_queries(cell, data), strict=True)
        pairs = [(queries, missing) for queries, missing in every if queries.type.name in chosen]
        sets = [queries for queries, _ in pairs]
        if not sets:
            raise TaskError(f"{self.table.name}: no test queries of the types {evaluation.types!r}")
        turned = data.vocabulary.reversed_ != evaluation.reverse
        vocabulary = attrs.evolve(data.vocabulary, reversed_=turned)
        console = Console(stderr=True)
        scorer = scorer_of(trained.model.eval(), data.graph, vocabulary)
        spent = scored = 0.0

        def score_timed(template: Template, groundings: Groundings) -> Floats:
            nonlocal spent, scored
            since = time.process_time()
            scores = scorer(template, groundings)
            spent, scored = spent + time.process_time() - since, scored + len(groundings)
            return scores

        report = evaluate(
            cell.label,
            sets,
            score_timed,
            console if console.is_terminal else None,
            entities=data.graph.entities,
            seen={queries.type.name for queries in sets if queries.type.seen},
            missing=[missing for _, missing in pairs],
        )
        return report, spent / max(scored, 1)

    def _hard_queries(self, cell: TegaCell, data: KgQaData) -> Sets:
        """Hard test queries of the types of "+H", as many of a type as of others, and what their answers miss."""
        options = cell.task.options
        key = f"{fingerprint(data.graph)} {options.eval_queries} {options.seed}"
        if key not in self.hard:
            sets = sample(
                list(hard_types().values()), data.graph, "test", options.eval_queries, options.seed,
                leave_out=True, hard=True,
            )  # fmt: skip
            self.hard[key] = sets, missing_links(sets, data.graph, "test")
        return self.hard[key]


def vectors_file(directory: Path, graph: Graph, predictor: Predictor, width: int, console: Console) -> Path:
    """The file of trained vectors, which is made where it is missing; its name tells graphs and options apart.

    Args:
        directory: the experiment's.
        graph: what they are trained on.
        predictor: how.
        width: the numbers of a vector.
        console: where it is told what is done.
    """
    options = EmbeddingOptions(model=predictor, dim=width)
    identity = digest(fingerprint(graph), plain_options(options))
    path = directory / "vectors" / f"{graph.name}-{predictor}-{width}-{identity}.safetensors"
    if not path.exists():
        console.print(f"training {predictor} on {graph.name}: {options.epochs} epochs", highlight=False)
        found = embed(graph, options)
        console.print(f"{predictor}: validation MRR {found.mrr:.3f}" if found.mrr is not None else predictor)
        found.write(path)
    return path


def _row_keys(filtered: Mapping[Filtering, Report]) -> Iterator[tuple[Filtering, str, Knowledge]]:
    """The filtering, type and kind of answers of each row, those of one type and kind together."""
    for name, by in next(iter(filtered.values())).cells.items():
        for knowledge in by:
            for filtering in filtered:
                if filtering == stored_filtering(filtering, knowledge):
                    yield filtering, name, knowledge
