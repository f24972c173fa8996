"""`peirce finetune`: a search for the best way to train a saved model on a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peirce.commands import Json, print_json, print_table
from peirce.errors import TaskError
from peirce.registry import default_registry
from peirce_training.experiments.cli import read_seeds

if TYPE_CHECKING:
    from peirce_training.finetune.recipe import Cases


def finetune(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A saved model: pretrained, trained or imported.")
    ],
    task: Annotated[
        str, typer.Option("--task", metavar="NAME", help="A registered task; `peirce list tasks` shows them.")
    ],
    directory: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the runs and the results go.")
    ],
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            metavar="RECIPE",
            help="A recipe file, or the name of a ready one; the task's own if absent.",
        ),
    ] = None,
    each: Annotated[
        str | None,
        typer.Option(
            "--each",
            metavar="KEY=VALUE",
            help="An option of the task and several values with a comma between them, each a search of its own: "
            "task=cola,mrpc,rte.",
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", help="Such as 0,1,2; the recipe's if absent. The median counts."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting as of `peirce train`; a list such as train.lr=[1e-5,2e-5] is searched. Repeatable.",
        ),
    ] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="What points are compared by.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show the runs, and run none.")] = False,
    json: Json = False,
) -> None:
    """Train a saved model on a task at each point of a grid and with several seeds; continue if it was interrupted."""
    from attrs import evolve
    from rich.console import Console

    from peirce.files import digest_of
    from peirce.model import WEIGHTS, saved_files
    from peirce_training import is_first_process, read_settings
    from peirce_training.experiments.contract import ExperimentRequest
    from peirce_training.finetune.recipe import cases, load_recipe, recipe_of
    from peirce_training.finetune.search import Search

    part = default_registry().get("tasks", task)
    name, found = recipe_of(part.name) if recipe is None else (recipe, load_recipe(recipe))
    if found.task != part.name:
        raise TaskError(
            f"recipe {recipe} is for the task {found.task}, not for {part.name}; give --task {found.task}"
        )
    if metric is not None:
        found = evolve(found, metric=metric)
    chosen = read_seeds(seeds) if seeds is not None else found.seeds
    listed = cases(found, read_settings(settings, part), _each(each, part))
    if plan:
        _print_plan(listed, chosen, json)
        return
    if model.resolve() == directory.resolve():
        raise TaskError(f"{directory} has the model to start from; give another directory for the runs")
    with saved_files(model, digests=False) as files:
        digest = digest_of(files.path(WEIGHTS))
    request = ExperimentRequest(data=str(model), directory=directory, seeds=chosen)
    search = Search(request=request, digest=digest, recipe=found, recipe_name=name, cases=listed)
    runs = search.run(Console(stderr=True))
    if not is_first_process():
        return
    search.write(runs)  # also where none was left to do: other seeds and points may have been asked for
    results = search.results(runs)
    if json:
        print_json("peirce.finetune/1", directory=str(directory), **results)
    else:
        _print_results(results, directory)
    if any(run.error for run in runs):
        raise typer.Exit(1)


def _each(text: str | None, part: type[Any]) -> tuple[str, list[Any]] | None:
    """`task=cola,rte` as a setting and its values."""
    if text is None:
        return None
    from peirce.spec import parse_override
    from peirce_training import read_settings

    key, equals, values = text.partition("=")
    listed = [value.strip() for value in values.split(",") if value.strip()]
    if not equals or not listed:
        raise TaskError(f"--each {text}: give an option of the task and its values, such as task=cola,mrpc")
    (full,) = read_settings([f"{key}=0"], part)
    if not full.startswith("task."):
        raise TaskError(
            f"--each {text}: {key} is not an option of the task {part.name!r}; --set searches other settings"
        )
    return full, [parse_override(f"{key}={value}")[1] for value in listed]


def _print_plan(cases: Cases, seeds: Sequence[int], json: bool) -> None:
    from peirce_training.finetune.recipe import settings_text

    points = [(case, point) for case, listed in cases.items() for point in listed]
    if json:
        listed = [
            {"case": case or None, "point": point.name, "settings": dict(point.settings)}
            for case, point in points
        ]
        print_json("peirce.finetune-plan/1", seeds=list(seeds), points=listed)
        return
    rows = [(case, point.name, settings_text(point.settings)) for case, point in points]
    print_table(("case", "point", "settings"), rows, title=f"{len(rows)} points, {len(seeds)} seeds each")


def _print_results(results: Mapping[str, Any], directory: Path) -> None:
    """The best point of each case, with the medians of its metrics."""
    from peirce_training.finetune.recipe import settings_text
    from peirce_training.finetune.search import all_runs

    metric, rows = results["metric"], []
    for case in results["cases"]:
        if (best := case["best"]) is None:
            rows.append((case["case"], "every run failed", "", "", ""))
            continue
        others = [f"{key} {value:.4f}" for key, value in best["medians"].items() if key != metric]
        more = ", ".join(others[:8]) + (" ..." if others[8:] else "")
        point = settings_text(best["values"]) or "as given"
        rows.append((case["case"], point, f"{best['median']:.4f}", more, best["directory"]))
    if results["average"] is not None:
        without = f" without {', '.join(results['unaveraged'])}" if results["unaveraged"] else ""
        rows.append((f"average{without}", "", f"{results['average']:.4f}", "", ""))
    count = len(results["seeds"])
    title = (
        f"medians over {count} seed{'s' if count > 1 else ''} on split {results['split']}; the best point is chosen by "
        f"{metric} on the same split"
    )
    print_table(("case", "best point", metric, "other metrics", "typical run"), rows, title=title)
    runs = [run for _, _, run in all_runs(results)]
    for run in runs:
        if run["error"]:
            typer.echo(f"failed: {run['directory']}: {run['error']}", err=True)
    typer.echo(f"all {len(runs)} runs are in {directory}; results.json and results.csv list them")
