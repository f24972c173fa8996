"""A search by optuna: one training after another, each stored as it goes, so that a killed search goes on."""

from __future__ import annotations

import itertools
import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, frozen

from peirce.errors import TaskError
from peirce.extras import require
from peirce.files import digest_of, write_json, write_whole
from peirce.model import PROVENANCE
from peirce.registry import load_spec
from peirce.spec import Spec, to_plain
from peirce_training import (
    HARMLESS,
    Checkpoints,
    TrainingOptions,
    TrainResult,
    differences,
    flatten,
    make_task,
    plain_options,
    read_training,
    saved_spec,
    settings_by_part,
    train,
    training_options,
)
from peirce_training.experiments.matrix import PreparedData, results_lock
from peirce_training.finetune.recipe import settings_text
from peirce_training.tuning.axes import Axis
from peirce_training.tuning.picture import draw

if TYPE_CHECKING:
    import optuna
    from rich.console import Console

    from peirce.model import AnyTask

SCHEMA = "peirce.tune/1"
STUDY, RESULTS, PICTURE, BEST = "study.db", "results.json", "tuning.png", "best.toml"
LOOKS = 10
"""Evaluations of a training of so many steps, where nothing says when it is evaluated."""
PRUNE_AFTER = {"n_startup_trials": 5, "n_warmup_steps": 2}
"""No training is ended early before five have been whole, nor at its first evaluation, which warmup lowers."""
GIVE_UP = 3
"""Trainings that fail before one has not, after which the search ends."""


@frozen(kw_only=True)
class Search:
    """What is searched.

    Args:
        spec: a spec file or the name of a ready spec; that of the start if None.
        start: the saved model that every training begins with, if any.
        task: the name of the task.
        settings: layers of settings by dotted key, those of every training, the task's own first.
        axes: what is searched.
        directory: where the trainings and the results go.
        seed: of every training, and of what is drawn.
        trials: how many trainings.
    """

    spec: str | None
    start: Path | None
    task: str
    settings: Sequence[Mapping[str, Any]]
    axes: Sequence[Axis]
    directory: Path
    seed: int
    trials: int

    def parts(self, point: Mapping[str, Any]) -> tuple[Spec, AnyTask, TrainingOptions]:
        """The spec, the task and the options of the training at a point."""
        model, task, training = settings_by_part(*self.settings, point, self._looks(point))
        options = evolve(training_options(training), test_split="")
        spec = load_spec(self.spec, model) if self.spec is not None else saved_spec(str(self.start), model)
        return spec, make_task(self.task, task), options

    def _looks(self, point: Mapping[str, Any]) -> dict[str, int]:
        """When a training is evaluated, where nothing else says it."""
        options = training_options(settings_by_part(*self.settings, point)[2])
        if options.evaluate_every or options.evaluate_epochs:
            return {}
        if options.steps is None:
            return {"train.evaluate_epochs": 1}
        return {"train.evaluate_every": -(-options.steps // LOOKS)}

    @property
    def points(self) -> list[dict[str, Any]]:
        """All points, if they are no more than there are trainings; else none."""
        counts = [len(axis.values) for axis in self.axes]
        if not 0 < math.prod(counts) <= self.trials:
            return []
        points = itertools.product(*(axis.values for axis in self.axes))
        return [{axis.key: value for axis, value in zip(self.axes, each, strict=True)} for each in points]

    def run(self, console: Console) -> dict[str, Any]:
        """Train at as many points as are asked for, those of earlier runs included.

        Returns:
            What `results` gives.

        Raises:
            TaskError: optuna is missing; the directory has another search; nothing can be trained.
            BusyError: another process searches there.
        """
        require("peirce tune", "optuna", extra="peirce-training[tune]")
        import optuna

        if os.environ.get("WORLD_SIZE", "1") != "1":
            raise TaskError(
                "a search trains in one process; start it without `accelerate launch` or `torchrun`"
            )

        def say(text: str) -> None:
            console.print(text, markup=False, highlight=False, soft_wrap=True)

        shown = console if console.is_terminal else None
        prepared = PreparedData()
        with results_lock(self.directory):
            study = self._open()
            states = optuna.trial.TrialState
            for killed in study.get_trials(states=[states.RUNNING]):
                study.tell(killed.number, state=states.FAIL)
                if len(killed.params) == len(self.axes):  # else nothing was trained, and it is drawn again
                    study.enqueue_trial(killed.params, {"run": _run(killed)})
            for one in outcomes(study):  # a kill between the end of a training and this leaves them
                Checkpoints(self.directory / one["run"]).remove()
            there = study.get_trials(states=[states.WAITING, states.COMPLETE, states.PRUNED])
            known = [each.system_attrs.get("fixed_params", each.params) for each in there]
            for point in self.points:
                if point not in known:
                    study.enqueue_trial(point)
            while study.get_trials(states=[states.WAITING]) or (
                not self.points and len(outcomes(study)) < self.trials
            ):
                # By the number of the training, so that a killed search draws what a whole one draws.
                drawn = np.random.SeedSequence([self.seed, len(outcomes(study))]).generate_state(1)
                study.sampler = optuna.samplers.TPESampler(seed=int(drawn[0]))
                trial = study.ask()
                point = {axis.key: axis.suggest(trial) for axis in self.axes}
                wanted = len(self.points) or self.trials
                title = f"{len(outcomes(study)) + 1}/{wanted} {settings_text(short(point))}"
                if shown is not None:
                    shown.rule(title)
                self._do(study, trial, point, prepared, shown)
                self._write(study)
                done = outcomes(study)
                best = " (best so far)" if done[-1]["run"] == (best_of(study) or {}).get("run") else ""
                say(f"{title}: {_line(done[-1], study)}{best}")
            results = self._write(study)
            draw(
                self.directory / PICTURE,
                self.axes,
                results["trials"],
                results["metric"],
                maximize=results["goal"] == "maximize",
            )
            return results

    def _open(self) -> optuna.Study:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        path = self.directory / STUDY
        for axis in self.axes:
            for value in axis.ends:  # before anything is trained
                options = self.parts({**self._any_point(), axis.key: value})[2]
        try:
            study = optuna.create_study(
                storage=f"sqlite:///{path}",
                study_name="peirce tune",
                direction="minimize" if options.lower_is_better else "maximize",
                pruner=optuna.pruners.MedianPruner(**PRUNE_AFTER),
                load_if_exists=True,
            )
        except Exception as error:  # whatever optuna and its database raise
            cause = str(error).partition("\n")[0]
            raise TaskError(
                f"{path} cannot be read as a search: {cause}; give another directory with -o"
            ) from error
        ours = json.loads(json.dumps(self._identity()))
        theirs = study.user_attrs.get("identity", ours)
        if differing := differences(ours, theirs):
            raise TaskError(
                f"{self.directory} has a search of other settings: {differing}. Give the same ones to go on with it, "
                "or another directory with -o"
            )
        study.set_user_attr("identity", ours)
        study.set_user_attr("metric", options.monitor)
        return study

    def _any_point(self) -> dict[str, Any]:
        return {axis.key: axis.ends[0] for axis in self.axes}

    def _identity(self) -> dict[str, Any]:
        """All that a search shares with one that it goes on with."""
        spec, task, options = self.parts(self._any_point())
        data = Path(str(getattr(task.options, "data", "")))
        searched = {axis.key for axis in self.axes}
        same = {
            **flatten("model", to_plain(spec)),
            **{f"task.{k}": v for k, v in plain_options(task.options).items()},
            **{f"train.{k}": v for k, v in plain_options(options).items() if k not in HARMLESS},
        }
        return {
            "--over": [axis.text for axis in self.axes],
            "--seed": self.seed,
            "task": self.task,
            "content of the data": digest_of(data) if data.is_file() else None,
            "weights to start from": None if self.start is None else digest_of(self.start / PROVENANCE),
            **{key: value for key, value in same.items() if key not in searched},
        }

    def _do(
        self,
        study: optuna.Study,
        trial: optuna.Trial,
        point: Mapping[str, Any],
        prepared: PreparedData,
        console: Console | None,
    ) -> None:
        """Train at a point, and store what came of it."""
        import optuna

        complete, pruned = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED
        for other in study.get_trials(states=[complete, pruned]):
            if other.params == trial.params:  # which one seed trains to the same
                for name, value in {**other.user_attrs, "run": _run(other)}.items():
                    trial.set_user_attr(name, value)
                study.tell(trial, other.value if other.state == complete else None, other.state)
                return
        spec, task, options = self.parts(point)
        path = self.directory / trial.user_attrs.get("run", _run(trial))
        looks: list[float] = []

        def watch(share: float, value: float, metrics: Mapping[str, float]) -> None:
            looks.append(value)
            trial.report(value, len(looks))
            if share < 1 and trial.should_prune():
                raise optuna.TrialPruned

        try:
            result = train(
                spec,
                task,
                options,
                path,
                seed=self.seed,
                resume=bool(Checkpoints(path).paths()) or read_training(path) is not None,
                console=console,
                data=prepared.get(task, self.start),
                start=self.start,
                watch=watch,
            )
            kept = _kept_evaluation(result, options)
        except optuna.TrialPruned:
            study.tell(trial, state=pruned)
        except TaskError as error:
            trial.set_user_attr("error", str(error))
            study.tell(trial, state=pruned)  # which optuna takes for the worst, and learns from
            done = outcomes(study)
            if len(done) >= GIVE_UP and all(one["error"] for one in done):
                raise TaskError(f"the first {len(done)} trainings failed, the last one: {error}") from error
        else:
            trial.set_user_attr("metrics", dict(kept["metrics"]))
            trial.set_user_attr("steps", result.steps)
            study.tell(trial, kept["value"])
        Checkpoints(path).remove()

    def _write(self, study: optuna.Study) -> dict[str, Any]:
        """Write the results and the best spec, and give the results."""
        found, metric, best = outcomes(study), study.user_attrs["metric"], best_of(study)
        results = {
            "task": self.task,
            "metric": metric,
            "goal": study.direction.name.lower(),
            "over": [axis.text for axis in self.axes],
            "seed": self.seed,
            "trials": found,
            "best": best
            and {**best, "spec": str(self.directory / BEST), "command": self._command(best["settings"])},
        }
        if best is not None:
            write_whole(self.directory / BEST, self.parts(best["settings"])[0].to_toml())
        write_json(self.directory / RESULTS, {"schema": SCHEMA, **results})
        return results

    def _command(self, point: Mapping[str, Any]) -> str:
        """The line that trains at a point, from the spec in `BEST`."""
        given = {key: value for layer in self.settings[1:] for key, value in layer.items()}
        words = ["peirce", "train", str(self.directory / BEST), "--task", self.task]
        words += [] if self.start is None else ["--from", str(self.start)]
        for name, value in {**given, **point, **self._looks(point)}.items():
            if not name.startswith("model."):
                words += ["--set", f"{name}={value if isinstance(value, str) else _toml(value)}"]
        return shlex.join([*words, "--seed", str(self.seed), "-o", str(self.directory / "best")])


def _toml(value: Any) -> str:
    """A plain value as TOML, in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


def _run(trial: optuna.Trial | optuna.trial.FrozenTrial) -> str:
    """The folder of a trial; one that begins again what was killed has the folder of that."""
    return str(trial.user_attrs.get("run", f"trial-{trial.number:03}"))


def _kept_evaluation(result: TrainResult, options: TrainingOptions) -> Mapping[str, Any]:
    """The evaluation of the model that a training kept.

    Raises:
        TaskError: there is none that gave a number.
    """
    found = [each for each in result.evaluations if math.isfinite(each["value"])]
    if not found:
        raise TaskError(
            f"the training was never evaluated on the split {options.valid_split!r}, by which a search chooses; name "
            "another with train.valid_split"
        )
    if options.patience or options.evaluate_epochs:
        return (min if options.lower_is_better else max)(found, key=lambda each: float(each["value"]))
    return found[-1]


def outcomes(study: optuna.Study) -> list[dict[str, Any]]:
    """What came of each training, in their order, without those that were killed."""
    import optuna

    states = {optuna.trial.TrialState.COMPLETE: "whole", optuna.trial.TrialState.PRUNED: "ended early"}
    trials = study.get_trials(states=list(states))
    return [
        {
            "run": _run(trial),
            "settings": dict(trial.params),
            "state": "failed" if "error" in trial.user_attrs else states[trial.state],
            "value": trial.value if trial.value is not None else _last(trial.intermediate_values),
            "metrics": trial.user_attrs.get("metrics", {}),
            "evaluations": len(trial.intermediate_values),
            "seconds": trial.duration.total_seconds() if trial.duration else 0.0,
            "error": trial.user_attrs.get("error"),
        }
        for trial in trials
    ]


def _last(values: Mapping[int, float]) -> float | None:
    return values[max(values)] if values else None


def best_of(study: optuna.Study) -> dict[str, Any] | None:
    """The best of the trainings that are whole, of equals the first; None where there is none."""
    whole = [each for each in outcomes(study) if each["state"] == "whole"]
    choose = min if study.direction.name == "MINIMIZE" else max
    return choose(whole, key=lambda each: float(each["value"]), default=None)


def short(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings whose numbers have four digits, for people."""
    return {key: f"{each:.4g}" if isinstance(each, float) else each for key, each in settings.items()}


def _line(outcome: Mapping[str, Any], study: optuna.Study) -> str:
    """What is said of a training."""
    if outcome["state"] == "failed":
        return f"failed: {outcome['error']}"
    early = f", ended early after {outcome['evaluations']} evaluations" * (outcome["state"] != "whole")
    return f"{study.user_attrs['metric']} {outcome['value']:.4f} in {outcome['seconds']:.0f} s{early}"
