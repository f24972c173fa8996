"""Running a search: one training for each point and seed, none of them twice."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from attrs import frozen

from peirce.errors import TaskError
from peirce.experiments.finetune.grid import Case, Point, Settings
from peirce.experiments.finetune.recipe import Recipe
from peirce.experiments.finetune.results import Results, Run, shown
from peirce.model import WEIGHTS, Task
from peirce.registry import Registry, default_registry
from peirce.training import (
    FOLDER,
    HARMLESS,
    Checkpoints,
    TrainingOptions,
    is_first_process,
    make_task,
    plain,
    read_training,
    saved_spec,
    train,
    training_options,
    with_tokenizer,
)

if TYPE_CHECKING:
    from rich.console import Console

UNREAD = frozenset({"batch_size", "predictions"})
"""Options of tasks that what they read does not depend on, so that runs which differ in them share it."""


@frozen(kw_only=True, eq=False)
class Search:
    """What is to be run.

    Args:
        model: the directory of the model that every run starts from.
        recipe: how.
        recipe_name: its name; empty without one.
        cases: the points of each case.
        seeds: the seeds of each point.
        directory: where the runs and the results go.
        registry: where parts are looked up.
    """

    model: Path
    recipe: Recipe
    recipe_name: str
    cases: tuple[Case, ...]
    seeds: tuple[int, ...]
    directory: Path
    registry: Registry

    def run(self, console: Console | None = None) -> Results:
        """Run what has not been run, and write the results after each run.

        Raises:
            TaskError: the settings do not suit the task or the model, or a directory holds another training.
        """
        digest = _digest(self.model / WEIGHTS)
        planned = [self._plan(case, point) for case in self.cases for point in case.points]
        total, runs, last = len(planned) * len(self.seeds), [], _Prepared()
        for plan in planned:
            for seed in self.seeds:
                run = self._finished(plan, seed, digest)
                known = run is not None
                if run is None:
                    last = last.of(plan, self.model)
                    run = self._train(plan, seed, last.data, console)
                runs.append(run)
                facts: dict[str, Any] = {"model": str(self.model), "digest": digest, "seeds": self.seeds}
                metric = self.recipe.metric or next(iter(run.metrics), "")
                recipe = attrs.evolve(self.recipe, metric=metric)
                results = Results.of(self.cases, runs, recipe=recipe, recipe_name=self.recipe_name, **facts)
                if is_first_process():
                    results.write(self.directory)
                if console is not None:
                    value = run.metrics.get(metric)
                    said = run.error or (
                        f"{metric} {value:.4f}" if value is not None else f"no metric {metric}"
                    )
                    again = " (run before)" if known else f" in {run.seconds:.0f} s"
                    where = " ".join(filter(None, (plan.case, shown(plan.point.values))))
                    console.print(
                        f"{len(runs)}/{total} {where} seed {seed}: {said}{again}",
                        markup=False,
                        highlight=False,
                        soft_wrap=True,
                    )
        return results

    def _plan(self, case: Case, point: Point) -> _Plan:
        """The settings of a point, checked."""
        task, training, model = (_under(prefix, point.settings) for prefix in ("task", "train", "model"))
        split = self.recipe.split
        training = {"valid_split": split, "test_split": split, **training}
        return _Plan(
            case=case.name,
            point=point,
            task=make_task(self.recipe.task, task, self.registry),
            training=training_options(training),
            model={f"model.{key}": value for key, value in model.items()},
        )

    def _path(self, plan: _Plan, seed: int) -> Path:
        return self.directory / plan.case / plan.point.name / f"seed-{seed}"

    def _finished(self, plan: _Plan, seed: int, digest: str) -> Run | None:
        """The run that is already there; None if there is none, or it was interrupted."""
        path = self._path(plan, seed)
        record = read_training(path)
        if record is None:
            return None
        ours = {
            "task": {"name": self.recipe.task, "options": _as_json(plain(plan.task.options))},
            "training": _but_harmless(_as_json(plain(plan.training))),
            "seed": seed,
            "model": digest,
        }
        theirs = {
            "task": record["task"],
            "training": _but_harmless(record["training"]),
            "seed": record["seed"],
            "model": (record.get("start") or {}).get("digest"),
        }
        if differing := [key for key, value in ours.items() if value != theirs[key]]:
            raise TaskError(
                f"{path} holds a run with another {' and another '.join(differing)}; give another directory, or remove "
                "that one"
            )
        split = plan.training.test_split
        metrics = {name: float(v) for name, v in record["metrics"].get(split, {}).items() if v is not None}
        return self._result(plan, seed, metrics, float(record["seconds"]))

    def _train(self, plan: _Plan, seed: int, data: Any, console: Console | None) -> Run:
        path = self._path(plan, seed)
        try:
            result = train(
                saved_spec(self.model, plan.model),
                plan.task,
                plan.training,
                path,
                seed=seed,
                resume=bool(Checkpoints(path, 1).paths()),
                registry=self.registry,
                console=console if console is not None and console.is_terminal else None,
                data=data,
                start=self.model,
            )
        except TaskError as error:
            if not path.is_dir():
                raise  # it did not begin, and neither would any other
            return self._result(plan, seed, {}, 0.0, str(error))
        # The trained model is saved; checkpoints hold it again, with twice its size in moments.
        shutil.rmtree(path / FOLDER, ignore_errors=True)
        return self._result(plan, seed, result.metrics, result.seconds)

    def _result(
        self, plan: _Plan, seed: int, metrics: Mapping[str, float], seconds: float, error: str = ""
    ) -> Run:
        where = str(self._path(plan, seed).relative_to(self.directory))
        return Run(
            case=plan.case,
            point=plan.point,
            seed=seed,
            directory=where,
            metrics=dict(metrics),
            seconds=seconds,
            error=error,
        )


@frozen(kw_only=True, eq=False)
class _Plan:
    """A point as a training takes it."""

    case: str
    point: Point
    task: Task
    training: TrainingOptions
    model: Settings


@frozen(eq=False)
class _Prepared:
    """The data of the last run, and what they were read for."""

    key: str = ""
    data: Any = None

    def of(self, plan: _Plan, model: Path) -> _Prepared:
        """The data of a plan: the same if it reads the same."""
        task = with_tokenizer(plan.task, model)
        options = {name: value for name, value in plain(task.options).items() if name not in UNREAD}
        key = json.dumps([task.name, options], sort_keys=True, default=str)
        return self if key == self.key else _Prepared(key, task.prepare())


def search(
    model: Path,
    recipe: Recipe,
    cases: tuple[Case, ...],
    directory: Path,
    *,
    recipe_name: str = "",
    seeds: tuple[int, ...] = (),
    registry: Registry | None = None,
) -> Search:
    """A search, checked as far as can be before anything is read.

    Raises:
        TaskError: there is no saved model, or its directory is the search's own.
    """
    saved_spec(model)
    if not (model / WEIGHTS).is_file():
        raise TaskError(
            f"there are no weights in {model}; give the directory of a trained or an imported model"
        )
    if model.resolve() == directory.resolve():
        raise TaskError(f"{directory} holds the model to start from; give another directory for the runs")
    return Search(
        model=model,
        recipe=recipe,
        recipe_name=recipe_name,
        cases=cases,
        seeds=seeds or recipe.seeds,
        directory=directory,
        registry=registry or default_registry(),
    )


def _under(prefix: str, settings: Settings) -> dict[str, Any]:
    return {key[len(prefix) + 1 :]: v for key, v in settings.items() if key.startswith(f"{prefix}.")}


def _but_harmless(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key not in HARMLESS}


def _as_json(value: Any) -> Any:
    """As it comes back from a file."""
    return json.loads(json.dumps(value))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
