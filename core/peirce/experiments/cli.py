"""`peirce experiments`: do again what the tables of a paper show, at a scale of one's own."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from peirce_kg.graphs.commands import GRAPH_HELP

from peirce.commands import Json, as_json, as_table
from peirce.errors import TaskError

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True
)
SCHEMA = "peirce.experiments/1"


@app.callback()
def experiments() -> None:
    """Do again what the tables of a paper show, at a scale of one's own."""


@app.command("list")
def list_experiments(json: Json = False) -> None:
    """List the experiments and the scales."""
    from peirce_kg.experiments.tables import PREFIX, definitions

    found = definitions()
    if json:
        tables = [
            {
                "name": PREFIX + table.name,
                "title": table.title,
                "rows": [row.label for row in table.rows],
                "columns": list(table.columns),
                "paper": list(table.graphs),
            }
            for table in found.tables.values()
        ]
        scales = [{"name": scale.name, "about": scale.about} for scale in found.scales.values()]
        as_json(SCHEMA, experiments=tables, scales=scales)
        return
    as_table(
        ("experiment", "models", "what it shows", "graphs of the paper"),
        [
            (PREFIX + table.name, str(len(table.rows)), table.title, ", ".join(table.graphs))
            for table in found.tables.values()
        ],
    )
    as_table(("scale", "meaning"), [(scale.name, scale.about) for scale in found.scales.values()])


@app.command("run")
def run_experiment(
    name: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT", help="Such as tega/table7; `peirce experiments list` shows them."
        ),
    ],
    graph: Annotated[
        str,
        typer.Option("--graph", metavar="GRAPH", help=GRAPH_HELP),
    ],
    scale: Annotated[str, typer.Option("--scale", help="How large everything is: small or paper.")] = "small",
    directory: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Where models and results go; tables share what is trained there.",
        ),
    ] = Path("runs/experiments"),
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
            help="A setting that differs from the scale's: model.KEY, task.KEY or train.KEY. Repeatable.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train and evaluate what a table needs and is not there yet; write it as Markdown, CSV and a picture."""
    import attrs
    from rich.console import Console

    from peirce.extras import require_training

    require_training()
    from peirce_kg.experiments.report import Outcome
    from peirce_kg.experiments.running import Plan, run
    from peirce_kg.experiments.tables import definitions

    from peirce.spec import parse_override

    found = definitions()
    plan = Plan(
        table=found.table(name).only(only or ()),
        scale=found.scale(scale),
        definitions=found,
        graph=graph,
        directory=directory,
        seeds=_seeds(seeds),
        settings=dict(map(parse_override, settings or ())),
        command=shlex.join(["peirce", *sys.argv[1:]]),
    )
    results = run(plan, Console(stderr=True))
    outcome = Outcome(plan, results)
    paths = outcome.write()
    if json:
        figures = [attrs.asdict(figure) for figures in outcome.figures.values() for figure in figures]
        as_json(SCHEMA, experiment=name, facts=outcome.facts(), figures=figures, files=list(map(str, paths)))
        return
    console = Console()
    console.print(outcome.shown())
    console.print(", ".join(map(str, paths)), highlight=False, soft_wrap=True)


def _seeds(text: str) -> tuple[int, ...]:
    try:
        seeds = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise TaskError(
            f"--seeds takes whole numbers with commas between them, such as 0,1,2; not {text!r}"
        ) from None
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise TaskError(f"--seeds {text}: seeds are 0 or more, and each stands once")
    return seeds
