"""Trainings that diverge, are killed, or fill the disk, and optimisers beside those of published code."""

from __future__ import annotations

import math
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch
from attrs import field, frozen
from command_line import python_prints
from kills import forked, signal_at
from rich.console import Console
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from toy_tasks import TRANSFORMER, Marked, MarkedOptions

import peirce
from peirce.errors import TaskError, WriteError
from peirce.registry import Registry
from peirce.workers import write_parts
from peirce_training import TrainingOptions, TrainResult, loop, train
from peirce_training.experiments import Cell, ExperimentRequest, Matrix, ResultRow, identity
from peirce_training.optimizer import make_optimizer
from peirce_training.processes import make_accelerator

OPTIONS = TrainingOptions(steps=6, lr=1e-2, device="cpu", threads=1, log_every=10, test_split="")


@pytest.mark.report(
    "https://github.com/cybertronai/pytorch-lamb/issues/5",
    "an implementation of LAMB bounds a tensor's norm by 10, which the published algorithm does not",
    "LAMB is apex's FusedLAMB: a table of any norm moves by the learning rate times that norm",
)
def test_a_step_of_lamb_is_as_long_as_its_tensor_says() -> None:
    table = nn.Parameter(torch.full((100, 100), 3.0))
    scale = nn.Parameter(torch.full((4,), 3.0))
    options = attrs.evolve(OPTIONS, optimizer="lamb", lr=1e-3, epsilon=1e-6)
    optimizer = make_optimizer({"table": table, "scale": scale}, options)
    before = [p.detach().clone() for p in (table, scale)]
    for p in (table, scale):
        p.grad = torch.ones_like(p)
    optimizer.step()
    moved = [(p.detach() - q).norm().item() for p, q in zip((table, scale), before, strict=True)]
    # The norms are 300 and 6; a vector has no trust ratio, and its corrected first update is 1 everywhere.
    assert moved == pytest.approx([1e-3 * 300, 1e-3 * 2], rel=1e-3)


class Diverging(Marked):
    """Its loss, one of its terms, or its gradients alone are no longer finite at one step."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(MarkedOptions())
        self.what, self.at = what, at

    def terms(self, model: peirce.Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        terms = {"loss": self.loss(model, batch), "more": torch.zeros(())}
        if self.losses_asked == self.at:
            weight = next(model.parameters())
            flat = (weight - weight.detach()).pow(2).sum()
            terms = {
                "loss": {**terms, "loss": terms["loss"] * math.inf},
                "terms": {"loss": terms["loss"] * math.inf, "more": terms["more"] - math.inf},
                "gradients": {**terms, "more": flat.sqrt()},  # 0, with a slope that is 0 / 0
            }[self.what]
        return terms

    def metrics(self, model: peirce.Model, data: Any, split: str) -> Mapping[str, float]:
        return {"loss": float(self.losses_asked != 2)}


@pytest.mark.report(
    "https://github.com/Rikorose/DeepFilterNet/issues/30",
    "a loss becomes NaN, the checkpoint after it holds NaN, and resuming from it goes on with NaN",
    "the step is named, nothing that is not finite is evaluated or saved, and the last good model is kept",
)
@pytest.mark.parametrize(
    ("what", "at", "precision", "message"),
    [
        ("loss", 4, "bf16", "the loss of step 4 is inf"),
        ("terms", 4, "no", "the loss of step 4 is nan"),
        ("gradients", 6, "bf16", "step 6 left no finite numbers in network"),
        ("gradients", 4, "no", "step 4 left no finite numbers in network"),
    ],
)
def test_nothing_that_is_not_finite_is_saved(
    what: str, at: int, precision: str, message: str, parts: Registry, tmp_path: Path
) -> None:
    options = attrs.evolve(OPTIONS, precision=precision, save_every=2)
    with pytest.raises(TaskError, match=rf"{message}.*lower train\.lr.*--from"):
        train(TRANSFORMER, Diverging(what, at), options, tmp_path / "first", registry=parts)
    assert not (tmp_path / "first" / "training.json").exists()
    kept = peirce.load(tmp_path / "first", registry=parts)
    assert all(bool(p.isfinite().all()) for p in kept.parameters())
    more = train(
        None, Marked(MarkedOptions()), OPTIONS, tmp_path / "more", registry=parts, start=tmp_path / "first"
    )
    assert all(map(math.isfinite, more.losses))


@pytest.mark.report(
    "https://github.com/kr-colab/ReLERNN/issues/26",
    "a loss becomes NaN after many epochs, and it is not clear whether the best epoch's weights are those kept",
    "the model of the best evaluation is kept where patience watches, also without any checkpoint",
)
def test_the_best_model_outlives_a_training_that_diverges(parts: Registry, tmp_path: Path) -> None:
    options = attrs.evolve(OPTIONS, evaluate_every=1, monitor="loss", patience=5, save_minutes=0)
    with pytest.raises(TaskError, match=r"The model of step 2 is saved in .*first"):
        train(TRANSFORMER, Diverging("loss", 5), options, tmp_path / "first", registry=parts)
    two = attrs.evolve(OPTIONS, steps=6)
    with pytest.raises(TaskError):
        train(
            TRANSFORMER,
            Diverging("loss", 3),
            attrs.evolve(two, save_every=2),
            tmp_path / "same",
            registry=parts,
        )
    best, same = (peirce.load(tmp_path / name, registry=parts).state_dict() for name in ("first", "same"))
    assert all(torch.equal(best[name], same[name]) for name in best)


@pytest.mark.report(
    "https://github.com/facebookresearch/fairseq/issues/282",
    "in float16 the scale of the loss sinks at step after step, while the loss looks fine",
    "a training whose every step overflows ends, says so, and advises bf16",
)
def test_steps_that_all_overflow_are_said(
    parts: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Overflowing(Diverging):
        def terms(self, model: peirce.Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
            self.at = self.losses_asked + 1
            return super().terms(model, batch)

    def scaling(options: TrainingOptions) -> Any:
        accelerator = make_accelerator(options)
        accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=1e-3)  # Accelerate has none without a GPU
        return accelerator

    monkeypatch.setattr(loop, "make_accelerator", scaling)
    with pytest.raises(TaskError, match=r"overflow float16 at any scale.*train\.precision=bf16"):
        train(TRANSFORMER, Overflowing("gradients", 0), OPTIONS, tmp_path, registry=parts)


@frozen(kw_only=True)
class LossRow(ResultRow):
    """The last loss of a run."""

    loss: float = field(converter=float)


@frozen(kw_only=True, eq=False)
class Losses(Matrix[LossRow]):
    """One network with two seeds."""

    folder = "runs"
    row = LossRow

    def cells(self) -> Iterator[Cell]:
        training = attrs.evolve(OPTIONS, steps=2, save_every=1)
        for seed in (0, 1):
            run = identity(TRANSFORMER, {}, training, seed)
            task = Marked(MarkedOptions())
            yield Cell(label="one", seed=seed, spec=TRANSFORMER, task=task, training=training, run=run)

    def measure(
        self, cell: Cell, trained: TrainResult, data: Any, before: Sequence[LossRow]
    ) -> Iterator[LossRow]:
        yield LossRow(**self.facts(cell, trained), loss=trained.losses[-1])


@pytest.fixture
def matrix_in(parts: Registry) -> Callable[[Path], Losses]:
    return lambda folder: Losses(request=ExperimentRequest(data="", directory=folder), registry=parts)


def _left(folder: Path) -> tuple[list[Path], list[tuple[str, float]]]:
    """The files of a folder, but for TensorBoard's, whose names have the time, and its rows."""
    rows = [line.split(",") for line in (folder / "results.csv").read_text().splitlines()[1:]]
    files = (path.relative_to(folder) for path in folder.rglob("*") if "tfevents" not in path.name)
    return sorted(files), [(row[0], float(row[2])) for row in rows]


PLACES = (
    "step-00000001",
    "step-00000002",
    "weights.safetensors",
    "training.json",
    "origin.json",
    "results.csv",
)


@pytest.mark.skipif(sys.platform == "win32", reason="it forks")
@pytest.mark.report(
    "https://github.com/Lightning-AI/pytorch-lightning/issues/688",
    "a SIGKILL while a checkpoint is written leaves a part of it, which every later start falls over",
    "an experiment that is killed wherever it writes goes on, to the same rows and files as one that was not",
)
def test_an_experiment_that_is_killed_where_it_writes_goes_on(
    matrix_in: Callable[[Path], Losses], tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    matrix_in(whole).run(Console(quiet=True))
    for place in PLACES:

        def run(place: str = place) -> None:
            signal_at(
                signal.SIGKILL, 1, lambda event, given: event == "os.rename" and str(given[1]).endswith(place)
            )
            matrix_in(killed).run(Console(quiet=True))

        assert forked(run) == -signal.SIGKILL, place
        assert not (killed / "results.csv").exists()
    matrix_in(killed).run(Console(quiet=True))
    assert _left(killed) == _left(whole)


@pytest.mark.skipif(sys.platform == "win32", reason="it forks and limits")
@pytest.mark.report(
    "https://github.com/MrNeRF/LichtFeld-Studio/issues/717",
    "a disk fills while checkpoints are written; the training goes on, and a cut file is left without a word",
    "one sentence says what cannot be written and what is kept, and the same command goes on from there",
)
def test_a_full_disk_ends_an_experiment_with_a_sentence(
    matrix_in: Callable[[Path], Losses], tmp_path: Path
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    rows = matrix_in(whole).run(Console(quiet=True))
    for size in (0, 2000, 20000):

        def run(size: int = size) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            with pytest.raises(
                WriteError, match="what was done before is kept, and the same command goes on"
            ):
                matrix_in(cut).run(Console(quiet=True))

        assert forked(run) == 0, size
        assert not [path for path in cut.rglob(".*") if path.name != ".peirce-lock"]
    assert [row.loss for row in matrix_in(cut).run(Console(quiet=True))] == [row.loss for row in rows]
    assert _left(cut) == _left(whole)


class Spawned(Marked):
    """Its batches come from processes of their own, which are spawned."""

    def batches(self, data: Any, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        for ids, labels in DataLoader(
            TensorDataset(*data[split]), batch_size=16, num_workers=1, multiprocessing_context="spawn"
        ):
            yield {"input_ids": ids, "labels": labels}


@pytest.mark.report(
    "https://github.com/pytorch/pytorch/issues/22585",
    "a DataLoader whose workers are spawned dies of what it cannot hand over, where forked ones work",
    "a task's batches may come from spawned workers, and a training leaves none of them behind",
)
def test_batches_of_spawned_workers(parts: Registry, tmp_path: Path) -> None:
    result = train(
        TRANSFORMER, Spawned(MarkedOptions()), attrs.evolve(OPTIONS, steps=2), tmp_path, registry=parts
    )
    assert len(result.losses) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no process of it kills itself so")
@pytest.mark.report(
    "https://github.com/ratt-ru/CubiCal/issues/441",
    "a worker process is killed for want of memory, and all that is said is a cryptic BrokenProcessPool",
    "one sentence says that a worker was killed and what to do, and what other workers wrote is kept",
)
def test_a_killed_worker_is_said(tmp_path: Path) -> None:
    kill: Any = signal.raise_signal  # what each worker calls with the number of its part
    with pytest.raises(TaskError, match=r"a worker process was killed, .*; run it again, with fewer workers"):
        list(write_parts(tmp_path / "parts", [9, 9], kill, 2))
    assert not (tmp_path / "parts").exists()


@pytest.mark.report(
    "https://github.com/spinalcordtoolbox/spinalcordtoolbox/issues/4523",
    "commands that a notebook starts end where they draw: its backend of matplotlib is not installed beside them",
    "commands draw into files, and take no backend from a notebook",
)
def test_a_command_in_a_notebook_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "module://a_notebook.backend")
    draw = "atexit.register(lambda: print(__import__('matplotlib').get_backend()))"
    command = "from peirce.commands.main import main; main(['--version'])"
    assert python_prints(f"import atexit; {draw}; {command}") == "agg"
