"""`peirce finetune`: a search for the best way to train a saved model on a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peirce.commands import Json, as_json, as_table
from peirce.errors import TaskError
from peirce.experiments.cli import read_seeds

if TYPE_CHECKING:
    from peirce.experiments.finetune.grid import Case
    from peirce.experiments.finetune.results import Results


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
    import attrs

    from peirce.experiments.finetune.grid import cases
    from peirce.experiments.finetune.recipe import load_recipe, recipe_of
    from peirce.extras import require_training
    from peirce.registry import default_registry

    part = default_registry().get("tasks", task)
    name, found = recipe_of(part.name) if recipe is None else (recipe, load_recipe(recipe))
    if found.task != part.name:
        raise TaskError(
            f"recipe {recipe} is for the task {found.task}, not for {part.name}; give --task {found.task}"
        )
    if metric is not None:
        found = attrs.evolve(found, metric=metric)
    chosen = read_seeds(seeds) if seeds is not None else found.seeds
    given, values = _settings(settings or (), part), _each(each, part)
    _check(part, given, values)
    listed = cases(found, given, values, part.Options)
    if plan:
        _show_plan(listed, chosen, json)
        return
    require_training()
    from rich.console import Console

    from peirce.experiments.finetune.runs import search_of
    from peirce.training import is_first_process

    made = search_of(model, found, tuple(listed), directory, recipe_name=name, seeds=chosen)
    results = made.results(made.run(Console(stderr=True)))
    if not is_first_process():
        return
    if json:
        from peirce.experiments.finetune.results import SCHEMA

        as_json(SCHEMA, directory=str(directory), **results.plain())
    else:
        _show(results, directory)
    if any(run.error for run in results.runs):
        raise typer.Exit(1)


def _settings(texts: Sequence[str], part: type[Any]) -> dict[str, Any]:
    """`--set` by dotted key, with its prefix."""
    from peirce.training import read_settings

    read = read_settings(texts, part)
    own = {"task": read.task, "train": read.train}
    return {f"{prefix}.{key}": value for prefix, found in own.items() for key, value in found.items()} | dict(
        read.spec
    )


def _each(text: str | None, part: type[Any]) -> tuple[str, list[Any]] | None:
    """`task=cola,rte` as a setting and its values."""
    if text is None:
        return None
    from peirce.spec import parse_override

    key, equals, values = text.partition("=")
    listed = [value.strip() for value in values.split(",") if value.strip()]
    if not equals or not listed:
        raise TaskError(f"--each {text}: give an option of the task and its values, such as task=cola,mrpc")
    (full,) = _settings([f"{key}=0"], part)
    if not full.startswith("task."):
        raise TaskError(
            f"--each {text}: {key} is no option of the task {part.name!r}; --set searches other settings"
        )
    return full, [parse_override(f"{key}={value}")[1] for value in listed]


def _check(part: type[Any], given: Mapping[str, Any], each: tuple[str, list[Any]] | None) -> None:
    """Refuse options that the task does not take, before a grid is looked for; lists are checked point by point."""
    from peirce.training import make_task

    single = {key: value for key, value in given.items() if not isinstance(value, list)}
    for settings in [{**single, each[0]: value} for value in each[1]] if each else [single]:
        make_task(part.name, {key[5:]: v for key, v in settings.items() if key.startswith("task.")})


def _show_plan(cases: Sequence[Case], seeds: Sequence[int], json: bool) -> None:
    from peirce.experiments.finetune.grid import shown

    points = [(case.name, point) for case in cases for point in case.points]
    if json:
        listed = [
            {"case": name or None, "point": point.name, "settings": dict(point.settings)}
            for name, point in points
        ]
        as_json("peirce.finetune-plan/1", seeds=list(seeds), points=listed)
        return
    rows = [(name, point.name, shown(point.settings)) for name, point in points]
    as_table(("case", "point", "settings"), rows, title=f"{len(rows)} points, {len(seeds)} seeds each")


def _show(results: Results, directory: Path) -> None:
    """The best point of each case, with the medians of its metrics."""
    from peirce.experiments.finetune.grid import shown
    from peirce.experiments.finetune.results import best

    metric, split, rows = results.recipe.metric, results.recipe.split, []
    for name, outcomes in results.cases.items():
        found = best(outcomes, results.recipe)
        if found is None:
            rows.append((name, "every run failed", "", "", ""))
            continue
        others = [f"{key} {value:.4f}" for key, value in found.medians.items() if key != metric]
        more = ", ".join(others[:8]) + (" ..." if others[8:] else "")
        where = found.typical.directory if found.typical else ""
        rows.append((name, shown(found.point.values) or "as given", f"{found.median:.4f}", more, where))
    if results.average is not None:
        out = [name for name in results.cases if name in results.recipe.unaveraged]
        without = f" without {', '.join(out)}" if out else ""
        rows.append((f"average{without}", "", f"{results.average:.4f}", "", ""))
    count = len(results.seeds)
    title = (
        f"medians over {count} seed{'s' if count > 1 else ''} on split {split}; the best point is chosen by {metric} "
        "on the same split"
    )
    as_table(("case", "best point", metric, "other metrics", "typical run"), rows, title=title)
    for run in results.runs:
        if run.error:
            typer.echo(f"failed: {run.directory}: {run.error}", err=True)
    typer.echo(f"all {len(results.runs)} runs are in {directory}; results.json and results.csv list them")
