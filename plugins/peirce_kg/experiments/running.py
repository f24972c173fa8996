"""Doing what a table needs: a model is trained once, whatever tables it is in, and what is done is not done again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from attrs import field, frozen
from peirce.errors import TaskError
from peirce.experiments import commit, digest, read_rows, write_rows
from peirce.model import Model
from peirce.registry import Registry, load_spec
from peirce.spec import Spec
from peirce.training import (
    PREFIX_TASK,
    PREFIX_TRAIN,
    TrainingOptions,
    make_task,
    plain,
    train,
    training_options,
)
from rich.console import Console

from peirce_kg.evaluation import TOP, Report, evaluate
from peirce_kg.experiments.tables import Definitions, Evaluation, Row, Scale, Table
from peirce_kg.experiments.vectors import embedding_options, vectors_file
from peirce_kg.queries.types import load_types, select
from peirce_kg.task import KgQa, KgQaData, model_scorer

RESULTS, RUNS = "results.csv", "runs"


@frozen(kw_only=True)
class Plan:
    """What an experiment does.

    Args:
        table: the table.
        scale: how large everything is.
        definitions: where groups of types are looked up.
        graph: a graph, as the task's option `graph`.
        directory: where results go, and the trained models below it; other tables may use the same one.
        seeds: the seeds of each model; the queries are those of one seed.
        settings: what differs from the scale's, by dotted key.
        command: how the experiment was started.
        registry: where parts are looked up; the default registry if None.
    """

    table: Table
    scale: Scale
    definitions: Definitions
    graph: str
    directory: Path
    seeds: tuple[int, ...] = (0, 1, 2)
    settings: Mapping[str, Any] = field(factory=dict)
    command: str = ""
    registry: Registry | None = None

    @property
    def evaluations(self) -> Mapping[str, Evaluation]:
        """The table's evaluations by name."""
        return self.table.evaluations or {"": Evaluation(types=self.table.types)}


def _truth(value: object) -> bool:
    return str(value) == "True"


@frozen(kw_only=True)
class Result:
    """How a trained model ranks the answers of one kind of one type's test queries; MRR and Hits@k are in [0, 1]."""

    run: str
    spec: str
    graph: str
    scale: str
    seed: int = field(converter=int)
    evaluation: str
    type: str
    seen: bool = field(converter=_truth)
    answers: str
    mrr: float = field(converter=float)
    hits1: float = field(converter=float)
    hits3: float = field(converter=float)
    hits10: float = field(converter=float)
    queries: int = field(converter=int)
    parameters: int = field(converter=int)
    steps: int = field(converter=int)
    seconds: float = field(converter=float)
    loss: float = field(converter=float)
    filtering: str
    commit: str
    command: str


COLUMNS = tuple(attribute.name for attribute in attrs.fields(Result))


@frozen
class Job:
    """One training of a table: a row with one seed.

    Args:
        row: the row.
        seed: the seed.
        run: what it is known by.
        spec: what is trained.
        task: on what.
        training: and how.
    """

    row: Row
    seed: int
    run: str
    spec: Spec
    task: KgQa
    training: TrainingOptions


def jobs(plan: Plan) -> Iterator[Job]:
    """The trainings of a table, all rows of one seed before the next seed.

    Raises:
        TaskError: a setting is unknown or impossible. SpecError: so is one of a spec.
    """
    seen = [t.name for t in select(plan.definitions.types(plan.table.types), load_types()) if t.seen]
    common = {
        **plan.scale.settings,
        "task.graph": plan.graph,
        "task.types": seen,
        "task.eval_types": list(plan.definitions.types(plan.table.types)),
        "task.absent": "leave_out",
        "train.test_split": "",
        "train.keep": 1,
    }
    for seed in plan.seeds:
        for row in plan.table.rows:
            wanted = {k: v for k, v in common.items() if k not in row.without}
            model, task, training = _parts({**wanted, **row.settings, **plan.settings})
            spec = load_spec(row.spec, model)
            made = make_task(KgQa.name, task, plan.registry)
            assert isinstance(made, KgQa)
            options = training_options(training)
            vectors = plain(embedding_options(row.vectors, spec.dims["unary"])) if row.vectors else None
            identity = digest(
                spec.to_toml(), vectors, plain(made.options), {**plain(options), "threads": 0}, seed
            )
            yield Job(row, seed, f"{spec.name}-{seed}-{identity}", spec, made, options)


def run(plan: Plan, console: Console) -> list[Result]:
    """Do the trainings and evaluations of a table that are not done yet; there are none in a table of sizes.

    Returns:
        The results of the table's runs, earlier ones included.

    Raises:
        PeirceError: a run cannot be done; what was done before it is kept.
    """
    if plan.table.measure != "mrr":
        return []
    path = plan.directory / RESULTS
    kept = read_rows(path, Result)
    data = _Data()
    wanted = list(jobs(plan))
    for number, job in enumerate(wanted, 1):
        title = f"{number}/{len(wanted)} {job.row.label}, seed {job.seed}"
        missing = {
            name: evaluation
            for name, evaluation in plan.evaluations.items()
            if not any(r.run == job.run and r.evaluation == key(evaluation) for r in kept)
        }
        if not missing:
            console.print(f"{title}: done before (run {job.run})", highlight=False)
            continue
        console.rule(title)
        prepared = data.of(job.task)
        plan.directory.mkdir(parents=True, exist_ok=True)  # what cannot be asked leaves no folder behind
        found = _do(plan, job, missing, prepared, console)
        kept += found
        write_rows(path, kept, COLUMNS)
        console.print(f"{title}: {found[0].steps:,} steps in {found[0].seconds:.0f} s", highlight=False)
    runs = {job.run for job in wanted}
    keys = {key(evaluation) for evaluation in plan.evaluations.values()}
    return [r for r in kept if r.run in runs and r.evaluation in keys]


def key(evaluation: Evaluation) -> str:
    """What results call an evaluation, whatever tables it is in."""
    return evaluation.types + ("-reversed" if evaluation.reverse else "")


@frozen
class _Data:
    """Graphs and queries, shared by the runs that have the same options; one at a time, since they are large."""

    _kept: dict[str, KgQaData] = field(factory=dict)

    def of(self, task: KgQa) -> KgQaData:
        name = digest(plain(task.options))
        if name not in self._kept:
            self._kept.clear()
            self._kept[name] = task.prepare()
        return self._kept[name]


def _do(
    plan: Plan, job: Job, evaluations: Mapping[str, Evaluation], data: KgQaData, console: Console
) -> list[Result]:
    trained = train(
        _beginning(plan, job, data, console),
        job.task,
        job.training,
        plan.directory / RUNS / job.run,
        seed=job.seed,
        resume=True,
        registry=plan.registry,
        console=console,
        data=data,
    )
    facts = {
        "graph": data.graph.name,
        "parameters": sum(p.numel() for p in trained.model.parameters()),
        "steps": trained.steps,
        "seconds": round(trained.seconds, 1),
        "loss": round(float(np.mean(trained.losses[-100:])), 4),
        "commit": commit(),
        "command": plan.command,
    }
    return [
        result
        for evaluation in evaluations.values()
        for result in _results(
            plan, job, key(evaluation), _report(plan, job, trained.model, data, evaluation), facts
        )
    ]


def _beginning(plan: Plan, job: Job, data: KgQaData, console: Console) -> Spec:
    """The spec of a training, with the file of the vectors that it begins with."""
    if not job.row.vectors:
        return job.spec
    path = vectors_file(plan.directory, data.graph, job.row.vectors, job.spec.dims["unary"], console)
    return job.spec.replace({"model.augmenters.0.file": str(path)})


def _results(
    plan: Plan, job: Job, evaluation: str, report: Report, facts: Mapping[str, Any]
) -> Iterator[Result]:
    """A row for each type and kind of answers, each with the facts of the training."""
    for name, by in report.cells.items():
        for knowledge, cell in by.items():
            hits: dict[str, Any] = {f"hits{k}": round(cell.hits[k], 6) for k in TOP}
            yield Result(
                run=job.run,
                spec=job.spec.name,
                scale=plan.scale.name,
                seed=job.seed,
                evaluation=evaluation,
                type=name,
                seen=name in report.seen,
                answers=knowledge,
                mrr=round(cell.mrr, 6),
                **hits,
                queries=cell.queries,
                filtering=report.filtering,
                **facts,
            )


def _report(plan: Plan, job: Job, model: Model, data: KgQaData, evaluation: Evaluation) -> Report:
    """Evaluate a trained model; its data hold the queries of all types of the table."""
    chosen = {t.name for t in select(plan.definitions.types(evaluation.types), load_types())}
    sets = [queries for queries in data.sets["test"] if queries.type.name in chosen]
    if not sets:
        raise TaskError(f"{plan.table.name}: no test queries of the types {evaluation.types!r}")
    turned = data.vocabulary.reversed_ != evaluation.reverse
    vocabulary = attrs.evolve(data.vocabulary, reversed_=turned)
    console = Console(stderr=True)
    return evaluate(
        job.row.label,
        sets,
        model_scorer(model.eval(), vocabulary),
        console if console.is_terminal else None,
        entities=data.graph.entities,
        seen={queries.type.name for queries in sets if queries.type.seen},
        filtering=job.task.options.filtering,
    )


def _parts(settings: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """Settings of the model, of the task and of the training; the first with whole keys."""
    model: dict[str, Any] = {}
    others: dict[str, dict[str, Any]] = {PREFIX_TASK: {}, PREFIX_TRAIN: {}}
    for name, value in settings.items():
        first, _, rest = name.partition(".")
        if first == "model":
            model[name] = value
        elif first in others:
            others[first][rest] = value
        else:
            raise TaskError(f"the setting {name!r} begins with none of model., task. and train.")
    return model, others[PREFIX_TASK], others[PREFIX_TRAIN]
