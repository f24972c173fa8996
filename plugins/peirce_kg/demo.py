"""The demonstration: `tox -e demo`, or `python -m peirce_kg.demo`.

Reads a real knowledge graph, samples first-order queries with exact answers, trains `tega` and a plain transformer of
the same size, compares them with baselines, exports TEGA to ONNX, verifies the file, and answers a query with it.
It exits with 1 unless every check holds.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from attrs import field, frozen
from peirce.compose import load
from peirce.errors import PeirceError
from peirce.model import Model
from peirce.registry import load_spec
from peirce.training import TrainResult, make_task, read_settings, train, training_options
from rich.console import Console
from rich.markup import escape

from peirce_kg.engine.answers import to_ids
from peirce_kg.evaluation import Report, evaluate, frequency_scorer, random_scorer, table
from peirce_kg.queries.language import parse
from peirce_kg.task import TYPES, KgQa, KgQaData, model_scorer

SPECS = ("tega", "transformer-absolute")
"""The ready specs that are compared; the first is exported."""
SETTINGS = (
    "model.dims.layers=2",
    "model.dims.unary=64",
    "model.dims.heads=4",
    "model.regularisation.dropout=0.0",
    "model.regularisation.init_std=0.1",
    "task.batch_size=64",
    "train.lr=3e-3",
    "train.threads=1",  # tensors this small lose time when two threads share them
)
"""The settings of both trainings, beside graph, queries and steps."""
ATOL = 1e-3
"""How far a score of ONNX Runtime may be from torch's."""


@frozen(kw_only=True)
class Demonstration:
    """What a demonstration does.

    Args:
        directory: where the models go; models of an earlier demonstration in it are replaced.
        graph: the graph, as the task's option `graph`.
        query: the query that is asked.
        types: the query types.
        train_queries: training queries of each type.
        eval_queries: validation and test queries of each type.
        steps: training steps of each model.
        margin: how far each model's MRR on entailed answers must lie above the frequency baseline's, on 1p and on
            the mean over types; None for a run too short to be judged.
        seed: the seed of everything.
    """

    directory: Path
    graph: str = "umls"
    query: str = "(treats(antibiotic,f))&(!(causes(bacterium,f)))"
    types: tuple[str, ...] = TYPES
    train_queries: int = 2000
    eval_queries: int = 200
    steps: int = 2000
    margin: float | None = 0.10
    seed: int = 0

    def settings(self) -> list[str]:
        """What `peirce train --set` is given."""
        return [
            f"graph={self.graph}",
            f"types={json.dumps(self.types)}",
            f"train_queries={self.train_queries}",
            f"eval_queries={self.eval_queries}",
            f"task.seed={self.seed}",
            f"train.steps={self.steps}",
            f"train.warmup={min(100, self.steps // 10)}",
            *SETTINGS,
        ]

    def command(self, spec: str) -> list[str]:
        """The command that trains one of the models."""
        sets = [part for setting in self.settings() for part in ("--set", setting)]
        place = ["-o", str(self.directory / spec), "--seed", str(self.seed), "--overwrite"]
        return ["peirce", "train", spec, "--task", KgQa.name, *sets, *place]


@frozen
class Check:
    """One thing that the demonstration must show."""

    holds: bool
    what: str


@frozen(kw_only=True)
class Outcome:
    """What a demonstration showed."""

    reports: Mapping[str, Report]
    checks: tuple[Check, ...]
    seconds: float = field(repr=False)

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)


def demonstrate(demo: Demonstration, console: Console) -> Outcome:
    """Run the demonstration.

    Raises:
        PeirceError: a step cannot run at all.
    """
    since = time.monotonic()
    console.rule("1. A graph, and queries with exact answers")
    settings = read_settings(demo.settings(), KgQa)
    task = make_task(KgQa.name, settings.task)
    assert isinstance(task, KgQa)
    data = task.prepare()
    example = data.sets["test"][-1]
    console.print(f"such as: {escape(str(example.query(0, data.graph)))}", highlight=False, soft_wrap=True)

    console.rule("2. Training")
    trained: dict[str, TrainResult] = {}
    for name in SPECS:
        console.print(f"$ {escape(shlex.join(demo.command(name)))}", highlight=False, soft_wrap=True)
        trained[name] = train(
            load_spec(name, settings.spec),
            task,
            training_options(settings.train),
            demo.directory / name,
            seed=demo.seed,
            overwrite=True,
            console=console,
            data=data,
        )
        console.print(_summary(name, trained[name], data), highlight=False)

    console.rule("3. Evaluation")
    reports = _reports(demo, task, data, {name: result.model for name, result in trained.items()})
    title = f"Filtered MRR in % on {data.graph.name}, queries sampled from the test graph"
    console.print(table(reports.values(), title))
    checks = [*_margins(demo, reports)]

    first = demo.directory / SPECS[0]
    console.rule("4. Export and verification")
    file = first / "model.onnx"
    exported = _run(["export", str(first), "--to", "onnx", "-o", str(file)], console)
    checks.append(Check(exported.returncode == 0, f"{file} is exported and verified against torch"))

    console.rule("5. A query, answered by ONNX Runtime")
    if exported.returncode == 0:
        checks.append(_ask(demo, first, data, console))

    console.rule("What was to be shown")
    outcome = Outcome(reports=reports, checks=tuple(checks), seconds=time.monotonic() - since)
    for check in outcome.checks:
        console.print(
            f"{'[green]yes[/]' if check.holds else '[red]NO [/]'} {escape(check.what)}", highlight=False
        )
    console.print(
        f"{outcome.seconds:.0f} s; models and learning curves are in {demo.directory}",
        highlight=False,
    )
    return outcome


def _summary(name: str, result: TrainResult, data: KgQaData) -> str:
    parameters = sum(p.numel() for p in result.model.parameters())
    queries = sum(len(queries) for queries in data.sets["train"])
    return (
        f"{name}: {parameters:,} parameters, {queries:,} queries, {result.steps:,} steps in {result.seconds:.0f} s, "
        f"loss {result.losses[0]:.3f} -> {np.mean(result.losses[-20:]):.3f}"
    )


def _reports(
    demo: Demonstration, task: KgQa, data: KgQaData, models: Mapping[str, Model]
) -> dict[str, Report]:
    test, entities = data.sets["test"], data.graph.entities
    return {
        "random": evaluate("random", test, random_scorer(demo.seed, entities), entities=entities),
        "frequency": evaluate(
            "frequency", test, frequency_scorer(data.graph.index("train")), entities=entities
        ),
        **{name: task.report(model, data, "test") for name, model in models.items()},
    }


def _margins(demo: Demonstration, reports: Mapping[str, Report]) -> list[Check]:
    if demo.margin is None:
        return []
    checks = []
    for name in SPECS:
        for where in ("1p", "all types"):
            ours, base = (
                (r.mean("entailed") if where == "all types" else r.cells[where]["entailed"]).mrr
                for r in (reports[name], reports["frequency"])
            )
            checks.append(
                Check(
                    ours >= base + demo.margin,
                    f"{name} beats the frequency baseline by {demo.margin:.2f} MRR on entailed answers, {where}: "
                    f"{ours:.3f} to {base:.3f}",
                )
            )
    return checks


def _ask(demo: Demonstration, directory: Path, data: KgQaData, console: Console) -> Check:
    """Ask through the command, and compare its answers with torch's own."""
    shown = _run(["ask", str(directory), demo.query], console)
    printed = _run(["ask", str(directory), demo.query, "--json"], None)
    what = f"`peirce ask` gives torch's top ten for {demo.query}"
    if shown.returncode or printed.returncode:
        return Check(False, what)
    answers: list[dict[str, Any]] = json.loads(printed.stdout)["answers"]
    model = load(directory).eval()
    scores = model_scorer(model, data.vocabulary)(*to_ids(parse(demo.query), data.graph))[0]
    best = np.argsort(-scores, kind="stable")[:10]
    same = [a["entity"] for a in answers] == [data.graph.entity_names[i] for i in best]
    close = np.allclose([a["score"] for a in answers], scores[best], atol=ATOL)
    return Check(bool(same and close), what)


def _run(arguments: Sequence[str], console: Console | None) -> subprocess.CompletedProcess[str]:
    """Run a command of Peirce as a user would; its output is shown where there is a console."""
    if console is not None:
        console.print(f"$ {escape(shlex.join(['peirce', *arguments]))}", highlight=False, soft_wrap=True)
    command = [sys.executable, "-P", "-m", "peirce", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if console is not None or result.returncode:
        shown = console or Console(stderr=True)
        for text in (result.stdout, result.stderr):
            if text.strip():
                shown.print(text.rstrip(), markup=False, highlight=False, soft_wrap=True)
    return result


def main(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the models go.")
    ] = Path("runs/demo"),
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each model.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="The seed of everything.")] = 0,
) -> None:
    """Train TEGA and a plain transformer on UMLS, compare, export, verify and ask."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        outcome = demonstrate(Demonstration(directory=output, steps=steps, seed=seed), console)
    except PeirceError as error:
        typer.secho(f"error: {error}", err=True, fg="red")
        raise typer.Exit(2) from error
    raise typer.Exit(0 if outcome.passed else 1)


if __name__ == "__main__":
    typer.run(main)
