"""Settings, `KEY=VALUE`: parsed, split by part, turned into the options of a training and a task, and listed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import attrs

from peirce.errors import SpecError, TaskError, unknown
from peirce.model import AnyTask
from peirce.registry import Registry, default_registry, fields, no_recipe
from peirce.spec import is_path, parse_override, read_document, structure, to_plain
from peirce_training.options import TrainingOptions

T = TypeVar("T")
RECIPE_FORMAT = 1
"""The newest format of recipes that this version reads."""
_EXCLUSIVE = tuple(
    frozenset({f"train.{one}", f"train.{other}"})
    for one, other in (("steps", "epochs"), ("warmup", "warmup_ratio"), ("evaluate_every", "evaluate_epochs"))
)
"""Settings that say the same in two ways, so that one replaces the other."""


def read_settings(texts: Sequence[str] | None, task: type[AnyTask]) -> dict[str, Any]:
    """Settings of a command by dotted key: `model.KEY`, `task.KEY` or `train.KEY`.

    Args:
        texts: each `KEY=VALUE`; a key without a prefix is an option of the task. The value of an option that is a text
            is taken as it is written, so that a column may be called 2.
        task: the task's class.

    Raises:
        TaskError: a key that nothing has, with the nearest valid ones.
    """
    classes = {"task": attrs.resolve_types(task.Options), "train": attrs.resolve_types(TrainingOptions)}
    names = {prefix: attrs.fields_dict(options) for prefix, options in classes.items()}
    dotted = [f"{prefix}.{name}" for prefix, options in names.items() for name in options]
    found: dict[str, Any] = {}
    for text in texts or ():
        key, value = parse_override(text)
        prefix, _, rest = key.partition(".")
        if not rest or prefix not in ("model", *names):
            prefix, rest = "task", key
        option = names.get(prefix, {}).get(rest.partition(".")[0])
        if prefix != "model" and option is None:
            known = [*names["task"], *dotted, "model.dims", "model.*"]
            raise TaskError(f"--set {text}: {unknown('setting', key, known)}")
        kinds = {*(get_args(option.type) or (option.type,))} if option else {Any}
        if kinds <= {str, type(None)} and not isinstance(value, str | Mapping):
            value = text.partition("=")[2].strip()
        found[f"{prefix}.{rest}"] = value
    return found


def settings_by_part(*layers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Settings of the model, with whole keys, and tables of those of the task and of the training.

    Args:
        layers: settings by dotted key. Later ones replace earlier ones, and those that exclude them, such as steps
            epochs.

    Raises:
        TaskError: a key does not begin with `model.`, `task.` or `train.`, or leads into a plain value.
    """
    settings: dict[str, Any] = {}
    for layer in layers:
        replaced = {key for pair in _EXCLUSIVE if pair & layer.keys() for key in pair}
        settings = {key: value for key, value in settings.items() if key not in replaced} | dict(layer)
    model: dict[str, Any] = {}
    tables: dict[str, Any] = {"task": {}, "train": {}}
    for key, value in settings.items():
        *way, last = key.split(".")
        if way[:1] == ["model"]:
            model[key] = value
            continue
        if not way or way[0] not in tables:
            raise TaskError(f"the setting {key!r} does not begin with model., task. or train.")
        table = tables
        for name in way:
            inner = table.get(name, {})
            if not isinstance(inner, Mapping):
                raise TaskError(
                    f"setting {key}: {name} was set to {inner!r} before, which has no keys; leave one out"
                )
            table[name] = table = dict(inner)
        table[last] = value
    return model, tables["task"], tables["train"]


def training_options(settings: Mapping[str, Any]) -> TrainingOptions:
    """The training's options from plain settings.

    Raises:
        TaskError: an unknown or impossible one, with the nearest valid name.
    """
    return _structure_options(TrainingOptions, settings, "train", "option of training")


def read_recipe(cls: type[T], name: str, ready: Mapping[str, Path]) -> T:
    """Read a recipe, a TOML file.

    Args:
        cls: the attrs class of such recipes, which has a `format`.
        name: a path if it ends in `.toml` or has a separator, else the name of a ready recipe.
        ready: the ready recipes by name.

    Raises:
        TaskError: there is no such recipe, it is a spec, or its format is newer.
        SpecError: it is not valid.
    """
    if not is_path(name) and name not in ready:
        raise TaskError(no_recipe(name) or unknown("recipe", name, ready))
    document = read_document(ready.get(name, Path(name)), "recipe")
    if message := no_recipe(name, document.data):
        raise TaskError(message)
    found = document.data.get("format")
    if isinstance(found, int) and found > RECIPE_FORMAT:
        raise TaskError(
            f"recipe {name}: format {found} is newer than {RECIPE_FORMAT}, the newest that this version of Peirce "
            "reads; upgrade peirce"
        )
    return structure(cls, document.data, where=document.at, label="key of a recipe")


def make_task(
    name: str, settings: Mapping[str, Any] | None = None, registry: Registry | None = None
) -> AnyTask:
    """A registered task with its options from plain settings.

    Raises:
        RegistryError: there is no such task.
        TaskError: an unknown or impossible option, with the nearest valid name.
    """
    part: type[AnyTask] = (registry or default_registry()).get("tasks", name)
    return part(_structure_options(part.Options, settings or {}, "task", f"option of task {part.name!r}"))


def task_for(data: str, registry: Registry | None = None) -> str:
    """The only task whose columns a file or a data set of the user has.

    Raises:
        TaskError: it cannot be read, or it suits no task, or several.
    """
    registry = registry or default_registry()
    tasks = {name: registry.get("tasks", name) for name in registry.names("tasks")}
    found = [name for name, task in tasks.items() if task.suits(data)]
    if len(found) == 1:
        return found[0]
    names = next(filter(None, (task.columns_of(data) for task in tasks.values())), ())
    columns = f"its columns {', '.join(names)}".strip()
    why = f"{columns} are those of {' and of '.join(found)}" if found else f"{columns} tell no task"
    raise TaskError(
        f"{data}: {why}; name the task with --task, and the columns with --set; `peirce list tasks` shows the tasks, "
        "and `peirce train --settings --task NAME` what one takes. A .csv or .tsv begins with the names of its columns"
    )


def data_setting(data: str | None, task: type[AnyTask]) -> dict[str, str]:
    """The setting that `--data` stands for, if it is given.

    Raises:
        TaskError: the task takes no file of the user's own.
    """
    if data is not None and "data" not in attrs.fields_dict(task.Options):
        raise TaskError(
            f"the task {task.name!r} has no option data, which --data sets; `peirce train --settings --task "
            f"{task.name}` lists what it takes"
        )
    return {} if data is None else {"task.data": data}


def _structure_options(cls: type[Any], settings: Mapping[str, Any], prefix: str, label: str) -> Any:
    try:
        return structure(cls, settings, where=lambda key: "settings", path=prefix, label=label)
    except SpecError as error:
        cause = error.__cause__
        while cause is not None and not isinstance(cause, TaskError):
            cause = cause.__cause__
        raise cause or TaskError(str(error)) from error


def plain_options(options: Any) -> dict[str, Any]:
    """The options as plain values for JSON, without those that are None; the inverse of reading them from settings."""
    values = attrs.asdict(options, recurse=False, filter=lambda _, value: value is not None)
    return {
        name: plain_options(value) if attrs.has(type(value)) else to_plain(value)
        for name, value in values.items()
    }


def all_settings(task: type[AnyTask] | None = None) -> list[dict[str, Any]]:
    """What `--set` takes for a training and a task: `name`, `type`, `meaning`, and `default` where there is one."""
    classes: dict[str, type[Any]] = {"train": TrainingOptions, **({"task": task.Options} if task else {})}
    return [
        {**one, "name": f"{prefix}.{one['name']}"} for prefix, cls in classes.items() for one in fields(cls)
    ]


def setting_rows(task: type[AnyTask] | None = None) -> list[tuple[str, str, str]]:
    """The settings as rows of text: name, default as `--set` takes it, meaning."""

    def shown(default: Any) -> str:
        if default is None or isinstance(default, str):
            return default or ""
        return str(default) if isinstance(default, float) else json.dumps(to_plain(default), default=str)

    return [
        (one["name"], "required" if one["required"] else shown(one["default"]), one["meaning"])
        for one in all_settings(task)
    ]
