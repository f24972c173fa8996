"""`peirce experiments`: reproduce the tables of papers, at a chosen scale."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from peirce.commands import Json, group, print_json, print_table
from peirce.errors import TaskError, check_known, unknown
from peirce.registry import Registry
from peirce_training import SettingsCommand
from peirce_training.experiments.hooks import EXPERIMENTS

if TYPE_CHECKING:
    from peirce_training.experiments.contract import Experiment

app = group("Reproduce the tables of a paper, at a scale of your own.")
SCHEMA = "peirce.experiments/1"


@app.command("list")
def list_experiments(json: Json = False) -> None:
    """List the experiments and the scales."""
    found = list(_experiments().values())
    scales: dict[tuple[str, str], list[str]] = {}
    for experiment in found:
        for scale in experiment.scales.items():
            scales.setdefault(scale, []).append(experiment.name)
    if json:
        shown = [{"name": name, "about": about, "of": of} for (name, about), of in scales.items()]
        listed = [
            {
                "name": one.name,
                "title": one.title,
                "rows": [*one.rows, *one.more],
                "columns": list(one.columns),
                "paper": list(one.published),
                "scales": list(one.scales),
            }
            for one in found
        ]
        print_json(SCHEMA, experiments=listed, scales=shown)
        return
    print_table(
        ("experiment", "models", "what it shows", "published for", "scales"),
        [(e.name, len(e.rows), e.title, ", ".join(e.published), ", ".join(e.scales)) for e in found],
    )
    families = {scale: dict.fromkeys(name.partition("/")[0] for name in of) for scale, of in scales.items()}
    rows = [(name, ", ".join(sorted(of)), about) for (name, about), of in families.items()]
    print_table(("scale", "of", "meaning"), rows)


@app.command(
    "run",
    cls=SettingsCommand,
    help="Train and evaluate what a table needs and is not there yet; write it as Markdown, CSV and a picture.",
)
@app.command(
    "evaluate",
    cls=SettingsCommand,
    help="Evaluate again the models that `run` trained into the folder, train nothing, and write the table anew.",
)
def run_experiment(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT", help="Such as tega/table7; `peirce experiments list` shows them."
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            "--graph",
            "--data",
            metavar="DATA",
            help="What it learns from. A knowledge graph: a folder of train, valid and test files (.tsv, .txt, .nt, "
            "also .gz), one such file, or a data set of pykeen. For other tasks: the folder of their files.",
        ),
    ],
    scale: Annotated[
        str, typer.Option("--scale", help="How large everything is; the experiment's first if absent.")
    ] = "",
    directory: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Where models and results go; tables share what is trained there. Absent: runs/experiments, or a "
            "folder of the experiment's own.",
        ),
    ] = None,
    seeds: Annotated[
        str, typer.Option("--seeds", help="Seeds of the models, with commas between them.")
    ] = "0,1,2",
    only: Annotated[
        list[str] | None,
        typer.Option("--row", metavar="LABEL", help="Only this row of the table; repeatable."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting that differs from the scale's: model.KEY, task.KEY or train.KEY. One that is false by "
            "default may be a flag, as --strata of kgqa. Repeatable.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run an experiment."""
    from rich.console import Console

    from peirce.spec import parse_override
    from peirce_training.experiments.contract import ExperimentRequest
    from peirce_training.experiments.matrix import results_lock

    found = _experiments()
    check_known("experiment", name, found, TaskError)
    experiment = found[name]
    if scale and scale not in experiment.scales:
        raise TaskError(unknown("scale", scale, experiment.scales))
    rows = (*experiment.rows, *experiment.more)
    for label in only or ():
        if label not in rows:
            raise TaskError(f"--row: {unknown('row', label, rows)}")
    request = ExperimentRequest(
        data=data,
        directory=directory or Path(experiment.folder),
        scale=scale or next(iter(experiment.scales)),
        rows=tuple(only or ()),
        seeds=read_seeds(seeds),
        settings=dict(map(parse_override, settings or ())),
        command=shlex.join(["peirce", *sys.argv[1:]]),
        only_evaluate=context.info_name == "evaluate",
    )
    with results_lock(request.directory):
        report = experiment.run(request, Console(stderr=True))
    if json:
        files = list(map(str, report.files))
        print_json(SCHEMA, experiment=name, facts=report.facts, figures=report.figures, files=files)
        return
    console = Console()
    console.print(report.shown)
    console.print(", ".join(map(str, report.files)), highlight=False, soft_wrap=True)


def read_seeds(text: str) -> tuple[int, ...]:
    """Seeds of a command's option.

    Raises:
        TaskError: the text is something else, or names one twice.
    """
    seeds = [word.strip() for word in text.split(",")]
    if not all(map(str.isdecimal, seeds)) or len({*map(int, seeds)}) < len(seeds):
        raise TaskError(f"--seeds {text}: give whole numbers from 0 on with commas between, each once: 0,1,2")
    return tuple(map(int, seeds))


def _experiments() -> dict[str, Experiment]:
    """The experiments of the active plug-ins, without their parts, which would import torch."""
    entries = Registry.discover(kinds=(EXPERIMENTS,)).entries(EXPERIMENTS)
    return {entry.name: entry.part for entry in entries}
