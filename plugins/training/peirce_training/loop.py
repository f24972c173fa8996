"""The one training loop: any task, any model, on one process or several, resumable at every step."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve

from peirce.compose import build, resolve
from peirce.errors import BusyError, SpecError, TaskError
from peirce.files import clear_leftovers, disk_error, explain_disk_errors
from peirce.model import AnyTask
from peirce.parts import Plan
from peirce.registry import Registry, default_registry, load_spec
from peirce.spec import Spec
from peirce_training import randomness
from peirce_training.checkpoints import Checkpoints
from peirce_training.curves import EVENTS, LOGS, PICTURE
from peirce_training.inputs import check_inputs
from peirce_training.options import TrainingOptions, TrainResult
from peirce_training.processes import exclusive_lock, is_first_process, make_accelerator, torch_threads
from peirce_training.records import METRICS, REPORT, TRAINING
from peirce_training.trainable import ADAPTER
from peirce_training.training import TRAIN, Training
from peirce_training.warm_start import SavedModel, WarmStart, keep_vocabulary, saved_spec, with_tokenizer

if TYPE_CHECKING:
    from rich.console import Console

_TRAINING = threading.Lock()
"""Held by the thread that trains: torch's generators and threads and Accelerate's state belong to the whole process."""


def train(
    spec: Spec | str | Path | None,
    task: AnyTask,
    options: TrainingOptions,
    directory: str | Path,
    *,
    seed: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    registry: Registry | None = None,
    console: Console | None = None,
    data: Any = None,
    start: str | Path | None = None,
    watch: Callable[[float, float, Mapping[str, float]], None] | None = None,
) -> TrainResult:
    """Train a model of a spec on a task, and save it with its curves, metrics and checkpoints.

    Args:
        spec: the spec, its path or its ready name; what the task's data determine is set in it. None takes that of the
            model to start from.
        task: data, loss and metrics.
        options: how to train.
        directory: where the model goes: as `Model.save` writes it, with `training.json`, `metrics.json`,
            `learning-curves.png`, `tensorboard/` and `checkpoints/` beside it.
        seed: what the parameters, the order of the batches and the dropout depend on.
        resume: continue from the newest sound checkpoint; from the beginning if there is none.
        overwrite: replace a training that is already in the directory.
        registry: where parts are looked up; the default registry if None.
        console: where progress is shown; nowhere if None.
        data: what `task.prepare()` gave, for trainings that share it; prepared here if None.
        start: the directory of a saved model whose body the model begins with, and whose heads where they fit; an
            empty option `tokenizer` of the task becomes that model's. If None, what the spec's `from` names, or freshly
            initialised.
        watch: called after each evaluation, those before a resumption included, with the share of the steps that are
            done, the value of `train.monitor` and all metrics; what it raises ends the training.

    Raises:
        SpecError: the spec cannot be composed.
        ModelFileError: the model to start from is not complete.
        TaskError: a package is missing, the directory has another training, the model to start from does not suit
            the spec or the data, a loss is not finite, ...
        BusyError: another process trains into the directory, or another thread of this one trains.
        WriteError: the disk is full or read-only; the error says from where the training can go on.
    """
    registry = registry or default_registry()
    directory = Path(directory)
    if not isinstance(spec, Spec):
        if spec is None and start is None:
            raise TaskError("a training needs a spec, or a saved model to start from; give one of them")
        spec = load_spec(spec) if spec is not None else saved_spec(str(start))
    start, spec = spec.from_ if start is None else start, evolve(spec, from_=None)
    resolve(spec, registry)  # before data are read, which may take long
    if start is not None and Path(start).resolve() == directory.resolve():
        raise TaskError(
            f"{directory} has the model to start from, which the trained one would replace; give another directory"
        )
    if directory.exists() and not directory.is_dir():
        raise TaskError(f"{directory} is a file; give a directory for the trained model")
    if _TRAINING.locked():
        raise BusyError(
            "another thread of this process trains, and threads of a process share random generators and devices; "
            "wait until it ends, or train in another process"
        )
    checkpoints = Checkpoints(directory)
    with (
        _TRAINING,
        explain_disk_errors(f"the training in {directory}", lambda: _recovery_hint(checkpoints)),
        exclusive_lock(directory),
    ):
        if not (resume or overwrite) and ((directory / TRAINING).exists() or checkpoints.paths()):
            raise TaskError(
                f"{directory} already has a training; continue it with --resume, replace it with --overwrite, or "
                "give another directory"
            )
        try:
            saved = SavedModel.read(start, registry) if start is not None else None
            # The tokenizer's path is not an option of the training: the tokenizer is saved with the model.
            given = task.options
            task = with_tokenizer(task, start) if start is not None else task
            data = task.prepare() if data is None else data
            plan = _plan_for_data(spec, task, data, registry, saved)
            if console is not None and (left_out := _left_out_heads(spec, plan, task)):
                console.print(left_out, markup=False, highlight=False, soft_wrap=True)
            accelerator = make_accelerator(options)
            with randomness.isolated_generators(), torch_threads(options.threads):
                model = build(plan, seed=seed, registry=registry)
                task.check(model, data)
                check_inputs(model, task, data, TRAIN, seed)
                warm_start: WarmStart | None = None
                if saved is not None:
                    warm_start = saved.begin(model, task, task.assets(data))
                    del saved
                if accelerator.is_main_process:
                    _clear(directory, resume=resume, overwrite=overwrite)
                accelerator.wait_for_everyone()
                training = Training(
                    task, given, data, options, seed, directory, model, accelerator, console, warm_start
                )
                if warm_start is not None:
                    training.tell(str(warm_start))
                if resume:
                    training.resume()
                return training.run(watch)
        except BaseException as error:
            if is_first_process():
                checkpoints.sweep()
                # The curves of a training that failed by itself tell why; one that was interrupted leaves nothing.
                interrupted = not isinstance(error, Exception) or disk_error(error) is not None
                if interrupted and not checkpoints.paths() and not (directory / TRAINING).exists():
                    _remove_logs(directory)
            raise


def _plan_for_data(
    spec: Spec, task: AnyTask, data: Any, registry: Registry, saved: SavedModel | None
) -> Plan:
    """The plan of the spec with what the data determine; one that has no place for it does not suit the task."""
    overrides = task.overrides_for(spec, data)
    if saved is not None:
        overrides = keep_vocabulary(overrides, saved.model.spec)
    try:
        return resolve(spec.replace(overrides), registry)
    except SpecError as error:
        if not any(f"override {key}" in str(error) for key in overrides):
            raise  # what the spec itself says, at its line
        raise TaskError(
            f"spec {spec.name!r} does not suit the task {task.name!r}, whose data set {', '.join(overrides)}: {error}. "
            "Take a ready spec made for the task (`peirce spec list`), or give yours the parts that it needs"
        ) from error


def _left_out_heads(spec: Spec, plan: Plan, task: AnyTask) -> str:
    """What is said of the heads of a spec that its task leaves out, since it sets its own; empty if there are none."""
    kept = [head.prefix for head in plan.heads]
    if not (lost := [head.as_ for head in spec.heads if head.as_ not in kept]):
        return ""
    names = ", ".join(map(repr, lost))
    advice = f'; write as = "{kept[0]}" to train one of yours in its place' if kept else ""
    return f"heads left out of the training and of the saved model: {names}; {task.name} sets {kept}{advice}"


def _clear(directory: Path, *, resume: bool, overwrite: bool) -> None:
    """Make the directory, without what trainings left that ended early, or all of one that is to be replaced.

    Files that no training writes stay.
    """
    directory.mkdir(parents=True, exist_ok=True)
    clear_leftovers(directory)
    checkpoints = Checkpoints(directory)
    checkpoints.sweep()
    if resume:
        return
    _remove_logs(directory)
    if overwrite:
        checkpoints.remove()
        for name in (TRAINING, METRICS, PICTURE, REPORT):
            (directory / name).unlink(missing_ok=True)
        shutil.rmtree(directory / ADAPTER, ignore_errors=True)


def _remove_logs(directory: Path) -> None:
    folder = directory / EVENTS
    for path in folder.glob(LOGS):
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _recovery_hint(checkpoints: Checkpoints) -> str:
    """Where a training that ended early can be resumed from."""
    if paths := checkpoints.paths():
        return f"{paths[-1]} is whole, and --resume goes on from it"
    return "it had no checkpoint yet, so nothing of it is left"
