"""One run of a training, from where it starts to its end: steps, evaluations, checkpoints.

What a step gives depends on the parameters, the optimiser, the batch and the random generators alone. A checkpoint
holds all of them, so a training that is killed and resumed gives the same losses as one that was not: to the bit on
a CPU with the same number of threads.
"""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, final

import torch
from attrs import asdict, define, field, fields_dict
from torch import Tensor

from peirce.errors import TaskError
from peirce.files import explain_disk_errors, write_json
from peirce.model import AnyTask, Model
from peirce.progress import format_duration, progress_bars
from peirce.spec import to_plain
from peirce_training import randomness
from peirce_training.batches import Feed, Objective, step_batches
from peirce_training.checkpoints import Checkpoints, CheckpointWarning
from peirce_training.curves import PICTURE, Curves, curve_lines, draw, interval_means
from peirce_training.evaluation import evaluate, evaluate_monitor
from peirce_training.layers import wrap_layers
from peirce_training.optimizer import learning_rate, make_optimizer, optimizer_tensors, restore_optimizer
from peirce_training.options import HARMLESS, TrainingOptions, TrainResult
from peirce_training.processes import thread_advice
from peirce_training.records import METRICS, METRICS_SCHEMA, TRAINING, TRAINING_SCHEMA, differences
from peirce_training.settings import plain_options
from peirce_training.sharding import (
    load_whole_tensors,
    set_synchronisation,
    shard,
    whole_tensor,
    whole_tensors,
)
from peirce_training.trainable import ADAPTER, add_low_rank, freeze_others
from peirce_training.warm_start import WarmStart, flatten

if TYPE_CHECKING:
    from rich.console import Console

TRAIN = "train"
"""The split that every task trains on."""
_LOSSES, _TERM = "losses", "term/"
_STEPS, _SECONDS, _LEAST_ESTIMATE = 3, 20.0, 60.0
"""The fewest steps to estimate from, the seconds after which to estimate, and the shortest estimate to print."""
_LEAST_SCALE = 1e-4
"""The least scale of a loss in float16, as fairseq has it; it is halved at each step that overflows."""
LENGTHS = ("train.steps", "train.epochs", "steps in all")
"""What of a training's identity says how long it lasts, which a resumed one may change."""
_ADVICE = "lower train.lr, lengthen train.warmup or set train.clip_norm, and look at the batch"


@define
class _Progress:
    """Where a training is; a checkpoint holds it, the losses as tensors and the rest as numbers and names.

    `losses` has the loss of each step, and each term of it, by the names that they have in checkpoints.
    """

    losses: dict[str, list[float]] = field(factory=lambda: {_LOSSES: []})
    step: int = 0
    seconds: float = 0.0
    evaluations: list[dict[str, Any]] = field(factory=list)
    best: float | None = None
    best_step: int = 0
    worse: int = 0
    stopped: bool = False

    @property
    def terms(self) -> dict[str, list[float]]:
        """The terms of the loss by name."""
        return {
            key.removeprefix(_TERM): values for key, values in self.losses.items() if key.startswith(_TERM)
        }


@final
class Training:
    """One run of a training: from where it starts to its end."""

    def __init__(
        self,
        task: AnyTask,
        given: Any,
        data: Any,
        options: TrainingOptions,
        seed: int,
        directory: Path,
        model: Model,
        accelerator: Any,
        console: Console | None,
        start: WarmStart | None,
    ) -> None:
        self.task, self.given, self.data, self.options, self.seed = task, given, data, options, seed
        self.start, self.directory, self.accelerator = start, directory, accelerator
        self.is_main = accelerator.is_main_process
        self.console = console if self.is_main else None
        self.model = model.to(accelerator.device)
        self.parameter_count = sum(p.numel() for p in self.model.parameters())
        self.sharded = options.parallel == "fsdp" and accelerator.num_processes > 1
        if options.save == "trained" and self.model.base is None:
            raise TaskError(
                "train.save=trained saves what differs from the model to start from, and there is none; give one with "
                "--from, or leave it out"
            )
        self.learnable = [each for each in self.model.parameters() if each.requires_grad]
        self.frozen = freeze_others(self.model, options)
        self.adapted: Any = None
        if options.rank:
            self.adapted = add_low_rank(self.model, options.rank, self.frozen, start and start.directory)
            named = self.model.named_parameters(remove_duplicate=False)
            self.frozen = frozenset(name for name, each in named if not each.requires_grad)
        self.objective: Any = Objective(task, self.model, accelerator.num_processes)
        if self.sharded:
            shard(self.objective, accelerator.num_processes)
        self.parameters = dict(self.model.named_parameters())
        self.raw_optimizer = make_optimizer(self.parameters, options, self.model.gained)
        if self.sharded:
            self.optimizer = accelerator.prepare(self.raw_optimizer)
        else:
            self.objective, self.optimizer = accelerator.prepare(self.objective, self.raw_optimizer)
        self.per_step = options.accumulate * accelerator.num_processes
        self.total = options.steps or self._steps(options.epochs or 1)
        self.evaluate_every = options.evaluate_every
        if options.evaluate_epochs and self._has_split(options.valid_split):
            self.evaluate_every = self._steps(options.evaluate_epochs)
        self.checkpoints = Checkpoints(directory, options.keep)
        self.progress = _Progress()
        self.best: dict[str, Tensor] = {}
        self.pending: list[dict[str, Tensor]] = []
        self.first: tuple[int, float] | None = None
        self.estimated = False
        randomness.seed_all(seed, accelerator.process_index)
        self.feed = Feed(task, data, TRAIN, seed)

    def _steps(self, epochs: int) -> int:
        """The steps of some passes over the data, by the length of the first; the last step is filled."""
        batches = sum(1 for _ in self.task.batches(self.data, TRAIN, self.seed, 0))
        return max(1, math.ceil(batches * epochs / self.per_step))

    def _has_split(self, split: str) -> bool:
        try:
            return next(iter(self.task.batches(self.data, split, self.seed, 0)), None) is not None
        except TaskError:
            return False

    def run(self, watch: Callable[[float, float, Mapping[str, float]], None] | None = None) -> TrainResult:
        """Train to the end, evaluate, save; `watch` is called with each evaluation, the earlier ones first."""
        self.watch = watch or (lambda share, value, metrics: None)
        for each in self.progress.evaluations:
            self.watch(each["step"] / self.total, each["value"], each["metrics"])
        self.since = self.saved = time.monotonic()
        options, progress = self.options, self.progress
        self.curves = Curves(self.directory if self.is_main else None, progress.step)
        self.bars = progress_bars(self.console, kept=True)
        self.bar = self.bars.add_task("training", total=self.total, completed=progress.step, shown="")
        self.objective.train()
        self.tell(thread_advice() or "")
        with (
            self.bars,
            wrap_layers(self.model, compiling=options.compile, recomputing=options.checkpointing),
        ):
            if not (progress.step or self.sharded):
                self._begin()
            while progress.step < self.total and not progress.stopped:
                self._step()
                self._estimate()
                done = progress.step == self.total
                if done or _is_due(progress.step, options.log_every):
                    self._log()
                if _is_due(progress.step, self.evaluate_every) or (
                    done and options.evaluate_epochs and self.evaluate_every
                ):
                    self._evaluate()
                due = _is_due(progress.step, options.save_every) or self._minutes_due()
                if done or progress.stopped or due:
                    self._save()
        return self._finish()

    def _begin(self) -> None:
        """Begin with what the data tell in closed form, which training keeps unless it finds better."""
        begun = time.monotonic()
        if first := self.task.begin(self.model, self.data):
            self.tell(f"begun with {first}, in {format_duration(time.monotonic() - begun)}")
            if self.evaluate_every:
                self._evaluate()

    def _estimate(self) -> None:
        """Print once how long the training will take, by the steps after the first, which is slower than others."""
        step, now = self.progress.step, time.monotonic()
        self.first = self.first or (step, now)
        done, spent = step - self.first[0], now - self.first[1]
        if self.estimated or done < _STEPS or (spent < _SECONDS and step % self.options.log_every):
            return
        self.estimated, left = True, spent / done * (self.total - step)
        if left >= _LEAST_ESTIMATE:
            minutes = self.options.save_minutes
            often = f"; a checkpoint every {minutes:g} minutes" if minutes else ""
            steps = f"{self.total - step:,} steps to come, at {spent / done:.2g} s each"
            self.tell(f"about {format_duration(left)} for the {steps}{often}")

    def _minutes_due(self) -> bool:
        """Whether the last checkpoint is too old; of several processes the first decides."""
        options, several = self.options, self.accelerator.num_processes > 1
        if not options.save_minutes or (several and self.progress.step % options.log_every):
            return False
        due = time.monotonic() - self.saved >= 60 * options.save_minutes
        if several:
            from accelerate.utils import broadcast

            due = bool(broadcast(torch.tensor([due], device=self.accelerator.device)).item())
        return due

    def _step(self) -> None:
        """One update of the parameters, from as many batches as a step has."""
        options, accelerator, progress = self.options, self.accelerator, self.progress
        for group in self.raw_optimizer.param_groups:
            rate = learning_rate(options, progress.step, self.total, group["warmup"])
            group["lr"] = rate * group["scale"]
        sums: dict[str, Tensor] = {}
        batches = self.feed.take(self.per_step)
        for batch, share, last in step_batches(
            self.task, batches, self.per_step, accelerator.process_index, accelerator.num_processes
        ):
            # Gradients are summed over processes after the last batch of a step alone.
            if self.sharded:
                set_synchronisation(self.objective, now=last)
            with nullcontext() if last or self.sharded else accelerator.no_sync(self.objective):
                with accelerator.autocast():
                    inputs = {name: t.to(accelerator.device) for name, t in batch.items()}
                    loss, terms = self.objective(inputs, share)
                accelerator.backward(loss)
            for name, term in terms.items():
                sums[name] = sums[name] + term if name in sums else term
        if options.clip_norm:
            accelerator.clip_grad_norm_(list(self.parameters.values()), options.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.pending.append(sums)
        progress.step += 1

    def _fetch_losses(self) -> None:
        """Fetch the losses of the last steps from the device, averaged over processes, and end at NaN and infinity.

        Fetched together, they do not hold up an accelerator at each step. What is evaluated or saved next has finite
        parameters: gradients may overflow where the loss did not.
        """
        if not self.pending:
            return
        losses = self.progress.losses
        names = list(self.progress.terms or self.pending[0])
        for sums in self.pending:
            if sums.keys() != set(names):
                raise TaskError(
                    f"task {self.task.name!r} gives the terms {', '.join(sums)} of its loss where it gave "
                    f"{', '.join(names)} before; they must be the same for every batch"
                )
        rows = torch.stack([torch.stack([sums[name] for name in names]) for sums in self.pending])
        self.pending.clear()
        for row in self.accelerator.reduce(rows, reduction="mean").tolist():
            if not all(map(math.isfinite, row)):
                self._end(f"the loss of step {len(losses[_LOSSES]) + 1} is {sum(row)}")
            loss = math.fsum(row)
            for key, value in zip([_LOSSES, *(_TERM + name for name in names)], [loss, *row], strict=True):
                losses.setdefault(key, []).append(value)

        named = {name: p.detach() for name, p in self.parameters.items() if p.requires_grad}
        norms = torch.stack([whole_tensor(torch.linalg.vector_norm(p)) for p in named.values()])
        if lost := [name for name, there in zip(named, norms.isfinite().tolist(), strict=True) if not there]:
            self._end(f"step {self.progress.step} left no finite numbers in {', '.join(lost[:3])}")
        scaler = self.accelerator.scaler
        if scaler is not None and scaler.get_scale() < _LEAST_SCALE:
            self._end(
                "the gradients overflow float16 at any scale, and no step is made", "set train.precision=bf16"
            )

    def _end(self, reason: str, advice: str = _ADVICE) -> NoReturn:
        """End a training that can't go on, once the best model so far, or the last checkpoint's, is saved.

        Raises:
            TaskError: in any case.
        """
        model, kept = self._whole_model(), ""
        found = None if self.best else self.checkpoints.newest()[0]
        if state := self.best or (found and found.tensors["model"]):
            step = found.state["step"] if found else self.progress.best_step
            kept = f". The model of step {step} is saved in {self.directory}; start another training from it (--from)"
            if self.is_main:
                load_whole_tensors(model, state, self.frozen)
                self._save_model(model)
        raise TaskError(f"{reason}; {advice}{kept}")

    def _log(self) -> None:
        self._fetch_losses()
        progress, terms = self.progress, self.progress.terms
        curves = {"loss": progress.losses[_LOSSES], **(terms if len(terms) > 1 else {})}
        recent = {name: values[-self.options.log_every :] for name, values in curves.items()}
        means = {name: math.fsum(values) / len(values) for name, values in recent.items()}
        rate = learning_rate(self.options, progress.step - 1, self.total)
        self.curves.add(progress.step, {**means, "learning_rate": rate}, TRAIN)
        shown = f"loss {means['loss']:.4f}  rate {rate:.2e}"
        self.bars.update(self.bar, completed=progress.step, shown=shown)

    @contextmanager
    def _bars_paused(self) -> Iterator[None]:
        """Within it another bar may be shown; this one is wiped away, and drawn again below what is printed."""
        if self.console is None or not self.console.is_terminal:  # where a stopped bar leaves an empty line
            yield
            return
        self.bars.live.transient = True
        self.bars.stop()
        try:
            yield
        finally:
            self.bars.live.transient = False
            self.bars.start()

    def _evaluate(self) -> None:
        """Evaluate on the validation split; remember the best parameters and count how long ago they were."""
        self._fetch_losses()
        options, progress, step = self.options, self.progress, self.progress.step
        with self._bars_paused():
            value, metrics = evaluate_monitor(self._whole_model(), self.task, self.data, options, self.seed)
            self.curves.add(step, metrics, options.valid_split)
            progress.evaluations.append(
                {"step": step, "monitor": options.monitor, "value": value, "metrics": metrics}
            )
            best = progress.best
            better = math.isfinite(value) and (
                best is None or (value < best if options.lower_is_better else value > best)
            )
            if better:
                progress.best, progress.best_step, progress.worse = value, step, 0
                if options.patience or options.evaluate_epochs:
                    self.best = {
                        name: t.cpu().clone() for name, t in whole_tensors(self.model, self.frozen).items()
                    }
            else:
                progress.worse += 1
                progress.stopped = bool(options.patience) and progress.worse >= options.patience
            mark = " (best so far)" if better else ""
            what = f"step {step}: {options.valid_split} {options.monitor} {value:.4f}"
            if options.evaluate_epochs:
                count = sum(each["step"] > 0 for each in progress.evaluations)
                loss = interval_means(progress.losses[_LOSSES], progress.evaluations)[-1]
                found = ", ".join(f"{name} {each:.4f}" for name, each in metrics.items())
                when = (
                    f"epoch {count * options.evaluate_epochs}: loss {loss:.4f}" if step else "before training"
                )
                what = f"{when}; {options.valid_split} {found}"
            self.tell(what + mark)
        self.objective.train()
        self.watch(step / self.total, value, metrics)

    def _save(self) -> None:
        """Write a checkpoint; every process adds its own random generators."""
        self._fetch_losses()
        self.saved = time.monotonic()
        accelerator, step, add = self.accelerator, self.progress.step, self.checkpoints.add
        with explain_disk_errors(
            f"the checkpoint of step {step} in {self.directory}", "those before it are whole"
        ):
            if self.is_main:
                self.checkpoints.begin(step)
            accelerator.wait_for_everyone()
            add(step, f"random-{accelerator.process_index}", randomness.capture())
            accelerator.wait_for_everyone()
            tensors = {
                "model": whole_tensors(self.model, self.frozen),
                "optimizer": optimizer_tensors(self.raw_optimizer, self.parameters),
            }
            if self.is_main:
                losses = self.progress.losses.items()
                tensors["losses"] = {key: torch.tensor(values, dtype=torch.float64) for key, values in losses}
                if self.best:
                    tensors["best"] = self.best
                for name, group in tensors.items():
                    add(step, name, group)
                state = {
                    "epoch": self.feed.epoch,
                    "batch": self.feed.batch,
                    "total": self.total,
                    "threads": torch.get_num_threads(),
                    "scaler": accelerator.scaler.state_dict() if accelerator.scaler is not None else None,
                    "identity": self._identity(),
                    **asdict(self.progress, filter=lambda each, _: each.name != "losses"),
                    "seconds": self._seconds(),
                }
                self.checkpoints.commit(step, state)
            accelerator.wait_for_everyone()

    def _seconds(self) -> float:
        return self.progress.seconds + time.monotonic() - self.since

    def resume(self) -> None:
        """Continue from the newest sound checkpoint, also for more steps than the training was begun with.

        Raises:
            TaskError: it is one of a training with other settings, or of more steps, or none is sound.
        """
        found, damaged = self.checkpoints.newest()
        if found is None:
            self._warn(f"{self.directory} has no checkpoint; training starts from the beginning")
            return
        for sentence in damaged:
            self._warn(f"{sentence}; resuming from {found.path} instead")
        state, tensors = found.state, found.tensors
        ours, theirs = (
            {key: value for key, value in identity.items() if key not in LENGTHS}
            for identity in (self._identity(), state["identity"])
        )
        if differing := differences(ours, theirs):
            start = "weights to start from"
            chosen = "; without a spec that start is taken which is there today, so name it (SPEC, or --from MODEL)"
            raise TaskError(
                f"{found.path} belongs to another training: {differing}. Resume with the settings and the files it was "
                f"started with{chosen * (ours.get(start) != theirs.get(start))}, or start again in another directory"
            )
        load_whole_tensors(self.model, tensors["model"], self.frozen)
        restore_optimizer(self.raw_optimizer, self.parameters, tensors["optimizer"])
        if self.accelerator.scaler is not None and state["scaler"] is not None:
            self.accelerator.scaler.load_state_dict(state["scaler"])
        self.best = dict(tensors.get("best", {}))
        losses = {key: values.tolist() for key, values in tensors["losses"].items()}
        known = {key: state[key] for key in fields_dict(_Progress) if key in state}
        self.progress = _Progress(**known, losses=losses)
        if self.total != state["total"]:
            self._lengthen(state["total"], found.path)
        self.feed = Feed(self.task, self.data, TRAIN, self.seed, state["epoch"], state["batch"])
        if self.is_main and not damaged:
            self.checkpoints.prune()
        if state["threads"] != torch.get_num_threads():
            self._warn(
                f"{found.path} was written with {state['threads']} threads and this run has {torch.get_num_threads()}: "
                "its losses are close to an uninterrupted training's, but not equal to the bit"
            )
        # Last, because making the used batches again may have drawn from the generators.
        randomness.restore(tensors[f"random-{self.accelerator.process_index}"])

    def _lengthen(self, before: int, path: Path) -> None:
        """Go on for another number of steps than the training was begun with, also where patience had ended it."""
        progress = self.progress
        if self.total < progress.step:
            raise TaskError(
                f"{path} is {progress.step} steps far, and {self.total} are asked for; raise train.epochs or "
                "train.steps, or start again in another directory"
            )
        progress.stopped, progress.worse = False, 0
        rates = [learning_rate(self.options, progress.step, total) for total in (before, self.total)]
        self.tell(
            f"{self.total} steps in place of {before}, on from step {progress.step}; the learning rate there is "
            f"{rates[1]:.2e}, and was {rates[0]:.2e} in the shorter training"
        )

    def _identity(self) -> dict[str, Any]:
        """All that the parameters depend on, as plain values."""
        assets = self.task.assets(self.data)
        return {
            **{f"{TRAIN}.{k}": v for k, v in plain_options(self.options).items() if k not in HARMLESS},
            **{f"task.{k}": v for k, v in plain_options(self.given).items()},
            **flatten("model", to_plain(self.model.spec)),
            **{f"assets/{name}": hashlib.sha256(content).hexdigest() for name, content in assets.items()},
            "task": self.task.name,
            "seed": self.seed,
            "processes": self.accelerator.num_processes,
            "steps in all": self.total,
            "weights to start from": self.start.digest if self.start is not None else None,
            # Another form, without correction of the bias, had this name before 1.0.
            **({"form of LAMB": "apex's FusedLAMB"} if self.options.optimizer == "lamb" else {}),
        }

    def _finish(self) -> TrainResult:
        """Evaluate the trained model and write everything that a reader of the directory needs."""
        options, progress, model = self.options, self.progress, self._whole_model()
        if self.best:
            load_whole_tensors(model, self.best, self.frozen)
        model.eval()
        metrics: dict[str, float] = {}
        remarks: tuple[str, ...] = ()
        if options.test_split:
            metrics = evaluate(model, self.task, self.data, options.test_split, self.seed)
            remarks = self.task.remarks(model, self.data, options.test_split)
            self.curves.add(progress.step, metrics, options.test_split)
        result = TrainResult(
            model=model,
            losses=tuple(progress.losses[_LOSSES]),
            metrics=metrics,
            remarks=remarks,
            seconds=self._seconds(),
            steps=progress.step,
            evaluations=tuple(progress.evaluations),
            start=self.start,
            terms={name: tuple(values) for name, values in progress.terms.items()},
        )
        if self.is_main:
            self._save_model(model)
            rates = [learning_rate(options, step, self.total) for step in range(progress.step)]
            title = f"{model.spec.name} on {self.task.name}, seed {self.seed}"
            draw(
                self.directory / PICTURE,
                result.losses,
                rates,
                progress.evaluations,
                title,
                progress.best_step,
            )
            self._record(result)
            for line in curve_lines(
                result.losses, progress.evaluations, progress.best_step if self.best else None
            ):
                self.tell(line)
            self.task.write_report(model, self.data, self.directory)
        elif self.adapted is not None:
            self.adapted.merge_and_unload()
        for parameter in self.learnable:
            parameter.requires_grad_(True)
        self.accelerator.wait_for_everyone()
        return result

    def _record(self, result: TrainResult) -> None:
        """Write `metrics.json`, and then `training.json`, which says that the training has ended."""
        options, progress, losses = self.options, self.progress, result.losses
        last = losses[-options.log_every :]
        tested = {options.test_split: dict(result.metrics)} if options.test_split else {}
        measured = {**tested, "remarks": result.remarks, "during_training": result.evaluations}
        write_json(self.directory / METRICS, {"schema": METRICS_SCHEMA, **measured})
        record = {
            "schema": TRAINING_SCHEMA,
            "task": {"name": self.task.name, "options": plain_options(self.given)},
            "training": plain_options(options),
            "seed": self.seed,
            "steps": result.steps,
            "losses": {"first": losses[0], "last": losses[-1], "final_mean": math.fsum(last) / len(last)},
            "metrics": tested,
            "remarks": result.remarks,
            "best": {"step": progress.best_step, options.monitor: progress.best} if self.best else None,
            "stopped_early": progress.stopped,
            "threads": torch.get_num_threads(),
            "processes": self.accelerator.num_processes,
            "device": str(self.accelerator.device),
            "parameters": self.parameter_count,
            "seconds": result.seconds,
            "start": result.start and plain_options(result.start),
        }
        write_json(self.directory / TRAINING, record)

    def _save_model(self, model: Model) -> None:
        if self.adapted is not None:
            self.adapted.save_pretrained(self.directory / ADAPTER, save_embedding_layers=False)
            self.adapted.merge_and_unload()
        only: Literal["trained"] | None = "trained" if self.options.save == "trained" else None
        model.save(self.directory, self.task.assets(self.data), only=only)

    def _whole_model(self) -> Model:
        """The model with whole tensors, one of its own where processes hold parts of it."""
        if not self.sharded:
            return self.model
        with randomness.isolated_generators():  # what it is initialised with is overwritten
            whole = Model(self.model.plan, self.model.provenance)
        whole.load_state_dict(whole_tensors(self.model))
        whole.base, whole.gained = self.model.base, self.model.gained
        return whole.to(self.accelerator.device)

    def tell(self, text: str) -> None:
        """Print a text that is not empty, if there is a console."""
        if self.console is not None and text:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _warn(self, text: str) -> None:
        if self.console is None and self.is_main:
            warnings.warn(text, CheckpointWarning, stacklevel=4)
        self.tell(text)


def _is_due(step: int, every: int) -> bool:
    return bool(every) and step % every == 0
