"""The settings and the result of a training: `TrainingOptions` and `TrainResult`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from attrs import field, frozen
from attrs.validators import ge, gt, le, lt, optional

from peirce.errors import TaskError
from peirce.parts import one_of
from peirce.spec import FrozenDict

if TYPE_CHECKING:
    from peirce.model import Model
    from peirce_training.warm_start import WarmStart


SCHEDULES = ("linear", "constant", "cosine", "poly", "thirds")
MOST_THREADS = 1024
"""More threads are not faster, and torch would start every one."""


@frozen(kw_only=True)
class TrainingOptions:
    """How a model is trained.

    Args:
        steps: updates of the parameters; either this or `epochs` is given.
        epochs: passes over the data: as many steps as they need, by the length of the first.
        lr: the highest learning rate.
        warmup: steps over which the learning rate rises linearly to `lr`.
        warmup_ratio: the same as a part of all steps, such as 0.01; either this or `warmup` is given.
        schedule: what the learning rate does afterwards: stays, or falls to `end_lr` at the last step, along a line,
            half a cosine, or the line to the power of `power`; or, as a step decay, is divided by ten after each third
            of the steps.
        power: the power of the schedule `poly`; 1 falls along a line.
        end_lr: where a learning rate that falls ends.
        trainable: what is trained: `all`, `new` for what the model to start from lacks, or patterns of the names of
            parameters, such as `heads.*`; one of them or a list. The others stay, and take no memory of the optimiser.
        rates: learning rates of their own by such a word or pattern, in place of `lr`; the first that fits counts.
        warmups: steps of their own over which learning rates rise, likewise.
        rank: of low-rank updates, by peft, of the linear maps that are not trained themselves; 0 for none. They are
            merged into the saved model; `adapter/` beside it has them in peft's own format.
        save: whether the saved model has `all` weights, or only what was `trained` beside the model to start from.
        optimizer: `adamw`; `adam_uncorrected`, which is the same without correction of the moments' bias; or `lamb`,
            as apex's `FusedLAMB`, for batches of many thousands.
        weight_decay: how much parameters shrink in each step, as a part of the learning rate.
        decay: what shrinks: `matrices`, which is all that has more than one axis, or `all`. Under LAMB, what does not
            shrink has no trust ratio.
        beta1: decay of the optimiser's first moment.
        beta2: decay of the optimiser's second moment.
        epsilon: what the optimiser adds to the root of the second moment.
        clip_norm: gradients are scaled down to this norm; 0 leaves them.
        accumulate: batches of the task in one step, for each process. They count as one large batch would, also where
            they have different numbers of targets.
        checkpointing: whether layers are recomputed in the backward pass, which takes a third to a half more time and
            keeps no activations but the layers' inputs.
        compile: whether `torch.compile` runs each layer, with one graph for every length. The first steps take longer.
        parallel: what several processes do: `ddp` keeps the whole model in each of them, `fsdp` a part of every tensor.
        precision: `bf16` and `fp16` compute in mixed precision; parameters stay float32. `fp16` needs a GPU.
        device: `auto` takes an accelerator where there is one; `cuda` insists on an NVIDIA GPU.
        threads: torch's threads; 0 leaves what is set. A resumed training is equal to the bit at one number only.
        log_every: steps between points of the learning curves.
        save_every: steps between checkpoints; 0 leaves them to `save_minutes`.
        save_minutes: minutes between checkpoints; 0 leaves them to `save_every`. There is one at the end in any case.
        keep: how many checkpoints are kept, the newest ones.
        evaluate_every: steps between evaluations on `valid_split`; 0 for none.
        evaluate_epochs: passes over the data between evaluations, where there is a `valid_split`; the model is then
            the best one evaluated. 0 for none.
        monitor: what an evaluation is judged by: `loss`, or one of the task's metrics.
        goal: whether that should fall or rise; `auto` lets a loss, a perplexity and an error (`mae`, `rmse`) fall and
            all else rise.
        patience: evaluations without a better value after which training stops; the model is then the best one
            evaluated. 0 trains to the end and, but for `evaluate_epochs`, keeps the last.
        valid_split: what evaluations during training use.
        test_split: what the trained model is evaluated on; empty for nothing.
    """

    steps: int | None = field(default=None, validator=optional(ge(1)))
    epochs: int | None = field(default=None, validator=optional(ge(1)))
    lr: float = field(default=5e-4, validator=gt(0))
    warmup: int = field(default=0, validator=ge(0))
    warmup_ratio: float = field(default=0.0, validator=[ge(0), le(1)])
    schedule: Literal["linear", "constant", "cosine", "poly", "thirds"] = one_of(*SCHEDULES)
    power: float = field(default=1.0, validator=gt(0))
    end_lr: float = field(default=0.0, validator=ge(0))
    trainable: str | tuple[str, ...] = "all"
    rates: Mapping[str, float] = field(factory=FrozenDict, converter=FrozenDict)
    warmups: Mapping[str, int] = field(factory=FrozenDict, converter=FrozenDict)
    rank: int = field(default=0, validator=ge(0))
    save: Literal["all", "trained"] = one_of("all", "trained")
    optimizer: Literal["adamw", "adam_uncorrected", "lamb"] = one_of("adamw", "adam_uncorrected", "lamb")
    weight_decay: float = field(default=0.01, validator=ge(0))
    decay: Literal["matrices", "all"] = one_of("matrices", "all")
    beta1: float = field(default=0.9, validator=[ge(0), lt(1)])
    beta2: float = field(default=0.999, validator=[ge(0), lt(1)])
    epsilon: float = field(default=1e-8, validator=gt(0))
    clip_norm: float = field(default=1.0, validator=ge(0))
    accumulate: int = field(default=1, validator=ge(1))
    checkpointing: bool = False
    compile: bool = False
    parallel: Literal["ddp", "fsdp"] = one_of("ddp", "fsdp")
    precision: Literal["no", "bf16", "fp16"] = one_of("no", "bf16", "fp16")
    device: Literal["auto", "cpu", "cuda"] = one_of("auto", "cpu", "cuda")
    threads: int = field(default=0, validator=[ge(0), le(MOST_THREADS)])
    log_every: int = field(default=10, validator=ge(1))
    save_every: int = field(default=0, validator=ge(0))
    save_minutes: float = field(default=5.0, validator=ge(0))
    keep: int = field(default=2, validator=ge(1))
    evaluate_every: int = field(default=0, validator=ge(0))
    evaluate_epochs: int = field(default=0, validator=ge(0))
    monitor: str = "loss"
    goal: Literal["auto", "min", "max"] = one_of("auto", "min", "max")
    patience: int = field(default=0, validator=ge(0))
    valid_split: str = "valid"
    test_split: str = "test"

    def __attrs_post_init__(self) -> None:
        given = "both are" if self.steps is not None else "neither is"
        refused = {
            f"training needs either steps or epochs, and {given} given; set one, such as train.steps=1000": (
                (self.steps is None) == (self.epochs is None)
            ),
            "patience counts evaluations, and there are none; set train.evaluate_epochs=1, or train.evaluate_every": (
                self.patience and not (self.evaluate_every or self.evaluate_epochs)
            ),
            "train.evaluate_every counts steps and train.evaluate_epochs passes over the data; leave one out": (
                self.evaluate_every and self.evaluate_epochs
            ),
            f"warmup lasts {self.warmup} steps, longer than the training's {self.steps}; lower train.warmup": (
                self.steps is not None and self.warmup > self.steps
            ),
            "train.warmup and train.warmup_ratio say the same in two ways; leave one out": (
                self.warmup and self.warmup_ratio
            ),
            f"train.rates has {dict(self.rates)}, and learning rates are above 0": (
                min(self.rates.values(), default=1) <= 0
            ),
            f"train.warmups has {dict(self.warmups)}, and no steps are below 0": (
                min(self.warmups.values(), default=0) < 0
            ),
            f"train.end_lr is {self.end_lr}, above the highest learning rate, train.lr={self.lr}; lower it": (
                self.end_lr > self.lr
            ),
            "train.power belongs to train.schedule=poly; set that, or leave the power out": (
                self.power != 1 and self.schedule != "poly"
            ),
            "train.rank does not go with train.parallel=fsdp; use ddp": self.rank and self.parallel == "fsdp",
            "train.precision=fp16 does not go with train.parallel=fsdp; use bf16, which needs no scaling": (
                self.precision == "fp16" and self.parallel == "fsdp"
            ),
        }
        for message, wrong in refused.items():
            if wrong:
                raise TaskError(message)

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value of `monitor` is a better one."""
        return lower_is_better(self.monitor) if self.goal == "auto" else self.goal == "min"


def lower_is_better(metric: str) -> bool:
    """Whether a lower value of a metric is a better one: of a loss, a perplexity and an error."""
    return metric.endswith(("loss", "perplexity", "mae", "rmse"))


HARMLESS = frozenset({"log_every", "save", "save_every", "save_minutes", "keep", "threads", "test_split"})
"""Training options that a resumed run may change: no parameter depends on them."""


@frozen(kw_only=True, eq=False)
class TrainResult:
    """A trained model.

    Args:
        model: the model, in evaluation mode; also saved in the training's directory.
        losses: the loss of each step, from the first; a resumed training's include those before it.
        terms: the same for each term of the task's loss, by name.
        metrics: the metrics of the test split, empty without one.
        remarks: what a reader of the metrics must know.
        seconds: the time spent in steps and evaluations, all runs together.
        steps: how many steps there were; fewer than asked for if patience ended.
        evaluations: what each evaluation during training gave: `step`, `monitor`'s value, and the metrics.
        start: what was taken from a saved model, None without one.
    """

    model: Model
    losses: tuple[float, ...]
    metrics: Mapping[str, float]
    seconds: float
    steps: int
    evaluations: tuple[Mapping[str, Any], ...] = ()
    start: WarmStart | None = None
    terms: Mapping[str, tuple[float, ...]] = field(factory=dict)
    remarks: tuple[str, ...] = ()
