"""`peirce tune`: a few settings of a training, searched by optuna."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from peirce.commands import Json, print_json, print_table
from peirce.errors import TaskError
from peirce_training.cli import Data, Seed, SetOptions, Task, chosen_task


def tune(
    directory: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Where the trainings and the results go."),
    ],
    over: Annotated[
        list[str],
        typer.Option(
            "--over",
            metavar="KEY=SPACE",
            help="A setting that is searched: between two numbers, train.lr=1e-5..1e-3:log, with :log by factors; or "
            "among values, batch_size=16,32,64. Repeatable.",
        ),
    ],
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="SPEC",
            help="A spec file, or the name of a ready spec; with --from, the saved model's own if absent.",
        ),
    ] = None,
    task: Task = None,
    data: Data = None,
    trials: Annotated[
        int, typer.Option("--trials", min=1, help="Trainings in all, those of earlier runs too.")
    ] = 20,
    settings: SetOptions = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="What trainings are compared by, on the validation split, as `--set train.monitor=NAME`; if absent "
            "what the task is judged by, which is the loss unless it says otherwise.",
        ),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="MODEL", help="A saved model that every training starts from."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Search a few settings of a training, and write the best spec; continue if the search was interrupted.

    Trainings that do worse than half of the others did at the same evaluation are ended early. Where all values can be
    tried within --trials, each is.
    """
    from rich.console import Console

    from peirce_training.settings import data_setting, read_settings
    from peirce_training.tuning.axes import Axis
    from peirce_training.tuning.study import Search

    if spec is None and start is None:
        raise TaskError("give a spec, or a saved model to start from with --from")
    part = chosen_task(task, data)
    axes = [Axis.parse(text, part) for text in over]
    given = read_settings(settings, part) | ({"train.monitor": metric} if metric is not None else {})
    keys = [axis.key for axis in axes]
    if twice := [key for key in keys if keys.count(key) > 1 or key in given]:
        raise TaskError(f"{twice[0]} is given twice, with --over and --over or --set; leave one out")
    search = Search(
        spec=spec,
        start=start,
        task=part.name,
        settings=(part.settings, data_setting(data, part), given),
        axes=axes,
        directory=directory,
        seed=seed,
        trials=trials,
    )
    results = search.run(Console(stderr=True))
    if json:
        print_json("peirce.tune/1", directory=str(directory), **results)
    else:
        _print(results, directory)
    if results["best"] is None:
        raise typer.Exit(1)


def _print(results: dict[str, Any], directory: Path) -> None:
    from peirce_training.tuning.study import PICTURE, RESULTS, short

    metric, best = results["metric"], results["best"]
    worst_last = sorted(
        results["trials"],
        key=lambda one: (
            one["state"] != "whole",
            one["value"] is None,
            (one["value"] or 0) * (1 if results["goal"] == "minimize" else -1),
        ),
    )
    keys = list(dict.fromkeys(key for one in worst_last for key in one["settings"]))
    others = list(dict.fromkeys(name for one in worst_last for name in one["metrics"] if name != metric))[:4]
    rows = [
        (
            one["run"],
            *(str(short(one["settings"])[key]) for key in keys),
            "" if one["value"] is None else f"{one['value']:.4f}",
            *(f"{one['metrics'][name]:.4f}" if name in one["metrics"] else "" for name in others),
            one["state"],
            f"{one['seconds']:.0f}",
        )
        for one in worst_last
    ]
    names = [key.rpartition(".")[2] for key in keys]
    title = f"{len(rows)} trainings, by {metric} on the validation split, the best first"
    print_table(("training", *names, metric, *others, "", "seconds"), rows, title=title)
    for one in results["trials"]:
        if one["error"]:
            typer.echo(f"failed: {one['run']}: {one['error']}", err=True)
    typer.echo(f"{directory / RESULTS} lists them, and {directory / PICTURE} draws them")
    if best is not None:
        typer.echo(
            f"the best model is in {directory / best['run']}, its spec in {best['spec']}; to train it again:"
        )
        typer.echo(best["command"])
