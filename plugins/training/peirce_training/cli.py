"""`peirce train` and `peirce evaluate`: any task, any spec, one loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from peirce.commands import Json, application, print_json, print_table
from peirce.errors import PeirceError, TaskError, are_close, nearest, unknown
from peirce.registry import default_registry, load_spec, ready_specs

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce_training.options import TrainResult

SetOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting: an option of the task (graph=umls or task.graph=umls), of the training (train.steps=1000), "
        "or a key of the spec (model.dims.layers=2). Values are TOML, or else text. One that is false by default "
        "may be a flag, as --strata of kgqa. Repeatable. `peirce train --settings --task NAME` lists them.",
    ),
]
Task = Annotated[
    str | None,
    typer.Option("--task", metavar="NAME", help="A registered task; `peirce list tasks` shows them."),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="FILE",
        help="A file of your own, or a data set, as `--set data=FILE`; without --task, its columns tell the task.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="What all that is random depends on.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the newest checkpoint in DIR.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the training in DIR.")]


def train(
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="SPEC",
            help="A spec file, or the name of a ready spec. If absent, the saved model's own with --from; of a "
            "table of texts, the best start that is there.",
        ),
    ] = None,
    task: Task = None,
    data: Data = None,
    directory: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where the trained model goes.")
    ] = None,
    settings: SetOptions = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="A saved model to start from: its body is taken whole, and each of its heads that still fits.",
        ),
    ] = None,
    seed: Seed = 0,
    resume: Resume = False,
    overwrite: Overwrite = False,
    list_settings: Annotated[
        bool,
        typer.Option(
            "--settings",
            help="List what --set takes for the training, and for the task that --task names, and do nothing else.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Train a model of a spec on a task, and save it in DIR with its curves, metrics and checkpoints."""
    if list_settings:
        _list_settings(task, json=json)
        return
    if directory is None:
        raise TaskError(
            "give a directory for the trained model with -o, as in `peirce train --data my.csv -o model`"
        )
    check_fresh(resume=resume, overwrite=overwrite)
    from rich.console import Console

    from peirce.model import Start
    from peirce_training.loop import train as run
    from peirce_training.settings import (
        data_setting,
        make_task,
        plain_options,
        read_settings,
        settings_by_part,
        training_options,
    )
    from peirce_training.warm_start import saved_spec

    if spec is not None and data is None and Path(spec).is_file() and Path(spec).suffix != ".toml":
        raise TaskError(
            f"{spec} is no spec, which ends in .toml; a table is learned from as `peirce train --data {spec} -o DIR`"
        )
    part = chosen_task(task, data)
    chosen = part.start() if spec is None and start is None else Start(why="")
    if chosen is None:
        raise TaskError("give a spec, or a saved model to start from with --from")
    if chosen.why:
        typer.echo(chosen.why, err=True)
    spec, start = spec or chosen.spec, start or chosen.model
    layers = part.settings, chosen.settings, data_setting(data, part), read_settings(settings, part)
    of_model, of_task, of_training = settings_by_part(*layers)
    task_instance, options = make_task(part.name, of_task), training_options(of_training)
    result = run(
        load_spec(spec, of_model) if spec is not None else saved_spec(str(start), of_model),
        task_instance,
        options,
        directory,
        seed=seed,
        resume=resume,
        overwrite=overwrite,
        console=Console(stderr=True),
        start=start,
    )
    facts = {"directory": str(directory), "task": part.name, "seed": seed}
    also = {"remarks": result.remarks, "start": result.start and plain_options(result.start)}
    show_result(result, options.test_split, "peirce.train/1" if json else None, facts, also)


def chosen_task(task: str | None, data: str | None) -> type[AnyTask]:
    """The task of a name, or else the one whose columns a file of the user's has, which is said.

    Raises:
        TaskError: neither is given, or the columns tell no task.
    """
    from peirce_training.settings import task_for

    if task is None:
        if data is None:
            raise TaskError(
                "give a task with --task, such as --task kgqa; `peirce list tasks` shows them. Or give a file of your "
                "own with --data, whose columns tell the task"
            )
        task = task_for(data)
        typer.echo(f"the columns of {data} are those of the task {task}", err=True)
    part: type[AnyTask] = default_registry().get("tasks", task)
    return part


def check_fresh(*, resume: bool, overwrite: bool) -> None:
    """Refuse a training that is both continued and replaced.

    Raises:
        TaskError: both are asked for.
    """
    if resume and overwrite:
        raise TaskError("--resume continues a training and --overwrite replaces it; give one of them")


def show_result(
    result: TrainResult,
    split: str,
    schema: str | None,
    facts: Mapping[str, Any],
    also: Mapping[str, Any] | None = None,
) -> None:
    """Print the result of a training, in the first process of several.

    Args:
        result: what it gave.
        split: what its metrics were measured on; empty for nothing.
        schema: the schema of a JSON object; a table for people if None.
        facts: what the object says first; its `directory` is shown to people too.
        also: what it says last.
    """
    from peirce_training.processes import is_first_process

    if not is_first_process():
        return
    tested = {split: dict(result.metrics)} if split else {}
    loss = result.losses[-1]
    if schema is not None:
        numbers = {"steps": result.steps, "seconds": result.seconds, "loss": loss, "metrics": tested}
        print_json(schema, **facts, **numbers, **(also or {}))
        return
    _table(tested, f"{result.steps} steps in {result.seconds:.0f} s, last loss {loss:.4f}", result.remarks)
    typer.echo(f"saved in {facts['directory']}")


def evaluate(
    directory: Annotated[Path, typer.Argument(metavar="MODEL", help="A trained model's folder.")],
    task: Annotated[
        str | None,
        typer.Option(
            "--task", metavar="NAME", help="A registered task; the one the model was trained on if absent."
        ),
    ] = None,
    split: Annotated[
        str, typer.Option("--split", metavar="NAME", help="The part of the data to evaluate on.")
    ] = "test",
    settings: SetOptions = None,
    device: Annotated[str | None, typer.Option("--device", help="Such as cpu or cuda:0.")] = None,
    json: Json = False,
) -> None:
    """Evaluate a trained model on a task, with the options that it was trained with unless others are set."""
    from peirce.compose import load
    from peirce.model import ASSETS, SPEC
    from peirce_training.evaluation import check_data
    from peirce_training.evaluation import evaluate as run
    from peirce_training.records import read_training
    from peirce_training.settings import make_task, read_settings, settings_by_part
    from peirce_training.warm_start import TOKENIZER, TOKENIZER_FILE, with_tokenizer

    if not (directory / SPEC).is_file():
        if directory.suffix == ".toml" or str(directory) in ready_specs():
            raise TaskError(
                f"{directory} is a spec, which has no weights to evaluate; `peirce train {directory} --task NAME -o "
                "DIR` trains it, and `peirce evaluate DIR` evaluates what came of it"
            )
        raise TaskError(
            f"there is no trained model at {directory}: no {directory / SPEC} is there; give the folder that `peirce "
            "train` or `peirce import` wrote, or go on with --resume where a training was interrupted"
        )
    record = read_training(directory) or {"task": {"name": None, "options": {}}, "seed": 0}
    name = task or record["task"]["name"]
    if name is None:
        raise TaskError(f"{directory} has no training.json, which would name its task; name one with --task")
    part = default_registry().get("tasks", name)
    given = read_settings(settings, part)
    if others := ", ".join(key for key in given if not key.startswith("task.")):
        raise TaskError(f"a trained model is evaluated as it is; leave out the settings {others}")
    before = dict(record["task"]["options"]) if part.name == record["task"]["name"] else {}
    model = load(directory, device=device)
    if (directory / ASSETS / TOKENIZER_FILE).is_file():
        before.pop(TOKENIZER, None)  # its path at training time; the model has a copy
    task_instance = with_tokenizer(make_task(name, {**before, **settings_by_part(given)[1]}), directory)
    data = task_instance.prepare()
    check_data(model, directory, task_instance, data)
    metrics = run(model, task_instance, data, split, seed=record["seed"])
    remarks = task_instance.remarks(model, data, split)
    if json:
        where = {"directory": str(directory), "task": part.name, "split": split}
        print_json("peirce.evaluate/1", **where, metrics=metrics, remarks=remarks)
    else:
        _table({split: metrics}, f"{directory} on {part.name}", remarks)


class SettingsCommand(TyperCommand):
    """A command that takes a setting which is false by default as a flag: `--strata` is `--set task.strata=true`.

    Other settings that are written as flags are refused with what to write.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if type(error).__name__ != "NoSuchOption":  # of a library that typer keeps to itself
                raise
            flag: str = vars(error)["option_name"]
            if not flag.startswith("--"):  # of -data, it names -d
                flag = next(word for word in words if word.startswith(flag))
            flag = flag.partition("=")[0]
            options = [name for each in self.params for name in each.opts if name.startswith("--")]
            settings = {} if f"-{flag}" in options else _settings(words)
            name = flag.lstrip("-").replace("-", "_")
            key, default = settings.get(name, (None, None))
            if default is False and flag in words:
                at = words.index(flag)
                return self.parse_args(ctx, [*words[:at], "--set", f"{key}=true", *words[at + 1 :]])
            meant = next((each for each in nearest(name, settings) if are_close(name, each)), None)
            if key is None and meant and not any(are_close(flag, each) for each in options):
                key = settings[meant][0]
                message = f"unknown option {flag!r}; the nearest is the setting {key}; write"
            elif key is None:
                message = f"{unknown('option', flag, options)}. Settings are written"
            else:
                message = f"{flag} is a setting; write"
            more = "; `peirce train --settings --task NAME` lists them" * (key is None)
            vars(error).update(message=f"{message} --set {key or 'KEY'}=VALUE{more}.", possibilities=None)
            raise


def _settings(words: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """By name, key and default of each setting of the training and of the task that is named, or else of any task."""
    from peirce_training.settings import all_settings

    registry = default_registry()
    named = [other for word, other in pairwise(words) if word == "--task"]
    with suppress(PeirceError):
        parts = [registry.get("tasks", each) for each in named or registry.names("tasks")]
        known = sorted(
            ((one["name"], one.get("default")) for part in parts for one in all_settings(part)),
            key=lambda one: not one[0].startswith("train."),  # a name that both have is the task's
        )
        return {key.partition(".")[2]: (key, default) for key, default in known}
    return {}


training, evaluation = application(), application()
training.command("train", cls=SettingsCommand)(train)
evaluation.command("evaluate", cls=SettingsCommand)(evaluate)


def _list_settings(task: str | None, *, json: bool) -> None:
    from peirce_training.settings import all_settings, setting_rows

    part = default_registry().get("tasks", task) if task is not None else None
    if json:
        print_json("peirce.settings/1", task=task, settings=all_settings(part))
        return
    print_table(("setting", "default", "meaning"), setting_rows(part), title="--set KEY=VALUE")
    if part is None:
        typer.echo("With --task NAME, those of the task too; keys of the spec begin with model.")


def _table(metrics: Mapping[str, Mapping[str, float]], title: str, remarks: Sequence[str]) -> None:
    rows = [
        (split, name, f"{value:.4f}") for split, values in metrics.items() for name, value in values.items()
    ]
    if rows:
        print_table(("split", "metric", "value"), rows, title=title)
    else:
        typer.echo(title)
    for remark in remarks:
        typer.echo(remark)
