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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from attrs import field, frozen
from rich.console import Console

from peirce.commands import Fitting
from peirce.compose import load
from peirce.errors import PeirceError
from peirce.registry import load_spec
from peirce_kg.evaluation import Report, evaluate, frequency_scorer, random_scorer, table
from peirce_kg.task import TYPES, KgQa, KgQaData, model_scorer
from peirce_queries import parse, to_ids
from peirce_training import make_task, read_settings, settings_by_part, train, training_options

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
Checks = Iterator[tuple[bool, str]]
"""What had to be shown, each with whether it was."""


@frozen(kw_only=True)
class Demonstration:
    """What a demonstration does.

    Args:
        directory: where the models go; models of an earlier demonstration in it are replaced.
        graph, types, train_queries, eval_queries: the task's options.
        query: the query that is asked.
        steps: training steps of each model.
        margin: how far each model's MRR on entailed answers must lie above the frequency baseline's, on 1p and on
            the mean over types; None for a run too short to be judged.
        seed: the seed of everything.
        console: where it shows what it does.
    """

    directory: Path
    graph: str = "umls"
    query: str = "(treats(antibiotic,f))&(!(causes(bacterium,f)))"
    types: tuple[str, ...] = TYPES
    train_queries: int = 2000
    eval_queries: int = 200
    steps: int = 900
    margin: float | None = 0.10
    seed: int = 0
    console: Console = field(factory=lambda: Console(width=None if sys.stdout.isatty() else 120))

    def run(self) -> dict[str, Report]:
        """Do all of it.

        Returns:
            The reports of baselines and models, by name.

        Raises:
            PeirceError: a step cannot run at all, or shows something else than it should; every such thing is named.
        """
        since = time.monotonic()
        self.console.rule("1. A graph, and queries with exact answers")
        sets = (
            f"graph={self.graph}",
            f"types={json.dumps(self.types)}",
            f"train_queries={self.train_queries}",
            f"eval_queries={self.eval_queries}",
            f"task.seed={self.seed}",
            f"train.steps={self.steps}",
            f"train.warmup={min(100, self.steps // 10)}",
            *SETTINGS,
        )
        of_model, of_task, of_training = settings_by_part(read_settings(sets, KgQa))
        task = make_task(KgQa.name, of_task)
        assert isinstance(task, KgQa)
        data = task.prepare()
        test, entities = data.sets["test"], data.graph.entities
        self.say(f"such as: {test[-1].query(0, data.graph)}")

        self.console.rule("2. Training")
        baselines = {
            "random": random_scorer(self.seed, entities),
            "frequency": frequency_scorer(data.graph.index("train")),
        }
        reports = {n: evaluate(n, test, scorer, entities=entities) for n, scorer in baselines.items()}
        for name in SPECS:
            place = ["-o", str(self.directory / name), "--seed", str(self.seed), "--overwrite"]
            given = [part for setting in sets for part in ("--set", setting)]
            self.say(f"$ {shlex.join(['peirce', 'train', name, '--task', KgQa.name, *given, *place])}")
            result = train(
                load_spec(name, of_model), task, training_options(of_training), self.directory / name,
                seed=self.seed, overwrite=True, console=self.console, data=data,
            )  # fmt: skip
            parameters = sum(p.numel() for p in result.model.parameters())
            self.say(
                f"{name}: {parameters:,} parameters, {result.steps:,} steps, {result.seconds:.0f} s, loss "
                f"{result.losses[0]:.3f} -> {np.mean(result.losses[-20:]):.3f}"
            )
            reports[name] = task.report(result.model, data, "test")

        self.console.rule("3. Evaluation")
        shown = table(reports.values(), f"Filtered MRR in % on {data.graph.name}, test queries")
        self.console.print(Fitting(shown))
        checks = [*self.margins(reports), *self.export_and_ask(data)]

        self.console.rule("What was to be shown")
        for holds, what in checks:
            self.say(f"{'yes' if holds else 'NO '} {what}")
        self.say(f"{time.monotonic() - since:.0f} s; models and learning curves are in {self.directory}")
        if missing := [what for holds, what in checks if not holds]:
            raise PeirceError(f"this was not shown: {'; '.join(missing)}")
        return reports

    def margins(self, reports: Mapping[str, Report]) -> Checks:
        """Whether each model ranks entailed answers clearly better than the frequency baseline."""
        for name in SPECS if self.margin is not None else ():
            ours, base = (
                {"1p": r.cells["1p"]["entailed"].mrr, "all types": r.mean("entailed").mrr}
                for r in (reports[name], reports["frequency"])
            )
            better = f"{name} beats the frequency baseline by {self.margin:.2f} MRR on entailed answers"
            for where, mrr in ours.items():
                yield (
                    mrr >= base[where] + (self.margin or 0),
                    f"{better}, {where}: {mrr:.3f} to {base[where]:.3f}",
                )

    def export_and_ask(self, data: KgQaData) -> Checks:
        """Export and ask through the commands, and compare the answers with torch's own."""
        directory = str(self.directory / SPECS[0])
        self.console.rule("4. Export and verification")
        exported, _ = self.command("export", directory, "--to", "onnx", "-o", f"{directory}/model.onnx")
        yield exported, f"{directory}/model.onnx is exported and verified against torch"
        if not exported:
            return
        self.console.rule("5. A query, answered by ONNX Runtime")
        shown, _ = self.command("ask", directory, self.query)
        asked, printed = self.command("ask", directory, self.query, "--json")
        answers = json.loads(printed)["answers"] if asked else []
        scorer = model_scorer(load(Path(directory)).eval(), data.vocabulary)
        scores = scorer(*to_ids(parse(self.query), data.graph))[0]
        best = np.argsort(-scores, kind="stable")[:10]
        same = [a["entity"] for a in answers] == [data.graph.entity_names[i] for i in best]
        close = same and np.allclose([a["score"] for a in answers], scores[best], atol=ATOL)
        yield bool(shown and close), f"`peirce ask` gives torch's top ten for {self.query}"

    def command(self, *arguments: str) -> tuple[bool, str]:
        """Run a command of Peirce as a user would: whether it succeeds, and what it prints."""
        command = [sys.executable, "-P", "-m", "peirce", *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.say(f"$ {shlex.join(['peirce', *arguments])}\n{result.stdout}{result.stderr}")
        return result.returncode == 0, result.stdout

    def say(self, text: str) -> None:
        """Show a text as it is."""
        self.console.print(text.rstrip(), markup=False, highlight=False, soft_wrap=True)


def main(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the models go.")
    ] = Path("runs/demo"),
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each model.")] = 900,
    seed: Annotated[int, typer.Option(min=0, help="The seed of everything.")] = 0,
) -> None:
    """Train TEGA and a plain transformer on UMLS, compare, export, verify and ask."""
    try:
        Demonstration(directory=output, steps=steps, seed=seed).run()
    except PeirceError as error:
        typer.secho(f"error: {error}", err=True, fg="red")
        raise typer.Exit(1) from error


if __name__ == "__main__":
    typer.run(main)
