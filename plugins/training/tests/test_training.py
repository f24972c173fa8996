from __future__ import annotations

import json
import math
import random
import re
from io import StringIO
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from rich.console import Console
from toy_tasks import FOLNET, TRANSFORMER, Marked, MarkedOptions

import peirce
from peirce.errors import BusyError, SpecError, TaskError
from peirce.model import Task
from peirce.registry import Registry
from peirce_training import TrainingOptions, TrainResult, plain_options, train, training_options
from peirce_training.curves import curve_lines
from peirce_training.evaluation import check_data, evaluate, mean_loss

SPECS = {"folnet": FOLNET, "transformer": TRANSFORMER}
SHORT = TrainingOptions(steps=6, lr=1e-2, save_every=0, device="cpu")


def marked(**options: int) -> Marked:
    return Marked(MarkedOptions(**options))


def run(
    directory: Path,
    parts: Registry,
    options: TrainingOptions = SHORT,
    task: Task | None = None,
    **more: object,
) -> TrainResult:
    return train(more.pop("spec", TRANSFORMER), task or marked(), options, directory, registry=parts, **more)


@pytest.mark.parametrize("name", SPECS)
def test_a_model_learns_and_is_saved_with_all_that_belongs_to_it(
    name: str, parts: Registry, tmp_path: Path
) -> None:
    options = TrainingOptions(
        steps=150, lr=1e-2, warmup=10, evaluate_every=50, monitor="accuracy", device="cpu"
    )
    task, directory = marked(tokens=4, length=4, examples=256, batch=32), tmp_path / "model"
    result = run(directory, parts, options, task, spec=SPECS[name])

    assert result.steps == len(result.losses) == 150
    assert math.fsum(result.losses[-20:]) < 0.5 * math.fsum(result.losses[:20])
    assert result.metrics["accuracy"] > 0.9
    assert [e["step"] for e in result.evaluations] == [50, 100, 150]
    assert not result.model.training
    assert task.prepared == 1

    loaded = peirce.load(directory, registry=parts)
    assert loaded.spec.input.vocabulary == 6
    for each in (loaded, torch.optim.swa_utils.AveragedModel(loaded)):
        assert evaluate(each, task, task.prepare(), "test") == result.metrics
        assert mean_loss(each, task, task.prepare(), "test") > 0
    assert (directory / "assets" / "tokens.txt").read_bytes() == task.assets(None)["tokens.txt"]
    record = json.loads((directory / "training.json").read_text())
    assert record["schema"] == "peirce.training/1"
    assert record["task"] == {"name": "marked", "options": attrs.asdict(task.options)}
    assert record["steps"] == 150
    assert record["losses"]["last"] == result.losses[-1]
    assert record["metrics"] == {"test": result.metrics}
    metrics = json.loads((directory / "metrics.json").read_text())
    assert metrics["during_training"] == [dict(e) for e in result.evaluations]


def test_curves_are_written_to_tensorboard_and_drawn_and_progress_is_shown(
    parts: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from matplotlib.image import imread
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    options = attrs.evolve(SHORT, log_every=2, evaluate_every=3, warmup=2)
    result = run(tmp_path, parts, options, console=Console(width=120))
    shown = capsys.readouterr().out
    assert "step 3: valid loss" in shown
    assert "6/6" in shown
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    losses = {e.step: e.value for e in events.Scalars("train/loss")}
    assert losses == pytest.approx({k: (result.losses[k - 2] + result.losses[k - 1]) / 2 for k in (2, 4, 6)})
    assert [e.step for e in events.Scalars("train/learning_rate")] == [2, 4, 6]
    assert [e.step for e in events.Scalars("valid/accuracy")] == [3, 6]
    assert [e.step for e in events.Scalars("test/accuracy")] == [6]
    picture = imread(tmp_path / "learning-curves.png")
    assert picture.shape[:2] == (720, 960)
    assert picture[..., :3].std() > 0.05


def test_checkpoints_come_by_time_and_the_time_to_come_is_said(
    parts: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peirce_training.training._LEAST_ESTIMATE", 0.0)
    said = StringIO()
    options = attrs.evolve(SHORT, save_minutes=1e-9, log_every=1, keep=9)
    run(tmp_path, parts, options=options, console=Console(file=said, width=200))
    assert len([*(tmp_path / "checkpoints").iterdir()]) == 6
    found = re.findall(
        r"about \d+ s for the 2 steps to come, at .* s each; a checkpoint every", said.getvalue()
    )
    assert len(found) == 1


def test_a_seed_determines_everything(parts: Registry, tmp_path: Path) -> None:
    first = run(tmp_path / "a", parts, seed=3)
    torch.rand(5), random.random(), np.random.rand()  # what was drawn before does not matter
    second = run(tmp_path / "b", parts, seed=3)
    other = run(tmp_path / "c", parts, seed=4)
    assert first.losses == second.losses
    assert first.losses != other.losses
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in "abc"]
    assert weights[0] == weights[1] != weights[2]


def test_training_leaves_generators_and_threads_as_they_were(parts: Registry, tmp_path: Path) -> None:
    def state() -> tuple[object, ...]:
        drawn = torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()
        return *drawn, torch.get_num_threads()

    before = state()
    run(tmp_path, parts, attrs.evolve(SHORT, threads=2))
    assert state() == before


def test_evaluations_change_nothing_of_a_training(parts: Registry, tmp_path: Path) -> None:
    class Drawing(Marked):
        """Its metric draws at random from every generator."""

        def metrics(self, model: object, data: object, split: str) -> dict[str, float]:
            return {"drawn": random.random() + float(np.random.rand()) + float(torch.rand(()))}

    quiet = run(tmp_path / "a", parts, task=Drawing(MarkedOptions()))
    busy = run(tmp_path / "b", parts, attrs.evolve(SHORT, evaluate_every=1), Drawing(MarkedOptions()))
    assert busy.losses == quiet.losses
    assert len({e["metrics"]["drawn"] for e in busy.evaluations}) == 1


def test_epochs_are_as_many_steps_as_they_need(parts: Registry, tmp_path: Path) -> None:
    # 48 examples in batches of 10 are 5 batches; two passes are 10, which fill 4 steps of 3 batches.
    options = TrainingOptions(epochs=2, accumulate=3, save_every=0, device="cpu")
    assert run(tmp_path, parts, options, marked(batch=10)).steps == 4


def test_gradients_are_clipped(parts: Registry, tmp_path: Path) -> None:
    loose, tight = (
        run(tmp_path / str(norm), parts, attrs.evolve(SHORT, clip_norm=norm, epsilon=1.0))
        for norm in (0.0, 1e-6)
    )
    assert tight.losses[0] == loose.losses[0]
    assert tight.losses[-1] != loose.losses[-1]


def test_patience_stops_and_gives_the_best_model(parts: Registry, tmp_path: Path) -> None:
    class Worsening(Marked):
        """Its metric is no number at first and best at the second evaluation; it knows the parameters it saw."""

        seen: tuple[torch.Tensor, ...] = ()

        def metrics(self, model: peirce.Model, data: object, split: str) -> dict[str, float]:
            if split == "valid":
                self.seen += (model.heads["classification"].dense.weight.clone(),)
            return {"score": [math.inf, 0.9, 0.5, 0.9, 0.2][len(self.seen) - 1]}

    task = Worsening(MarkedOptions())
    options = TrainingOptions(steps=60, lr=1e-2, evaluate_every=2, monitor="score", patience=2, device="cpu")
    result = run(tmp_path, parts, options, task)
    assert result.steps == 8  # the third and the fourth evaluation are no better than the second
    assert torch.equal(result.model.heads["classification"].dense.weight, task.seen[1])
    saved = peirce.load(tmp_path, registry=parts)
    assert torch.equal(saved.heads["classification"].dense.weight, task.seen[1])
    record = json.loads((tmp_path / "training.json").read_text())
    assert record["stopped_early"] is True
    assert record["best"] == {"step": 4, "score": 0.9}


def test_each_epoch_is_evaluated_and_the_best_one_kept(parts: Registry, tmp_path: Path) -> None:
    class Worsening(Marked):
        """Its metric is best at the second evaluation; it has no split but that."""

        def metrics(self, model: peirce.Model, data: object, split: str) -> dict[str, float]:
            self.weights = (*getattr(self, "weights", ()), model.heads["classification"].dense.weight.clone())
            return {"score": [0.5, 0.9, 0.2][len(self.weights) - 1]}

    task = Worsening(MarkedOptions(examples=40, batch=8))
    options = TrainingOptions(epochs=3, evaluate_epochs=1, monitor="score", test_split="", device="cpu")
    console = Console(file=StringIO(), width=200)
    result = run(tmp_path / "a", parts, options, task, console=console)
    assert [each["step"] for each in result.evaluations] == [5, 10, 15]
    assert torch.equal(result.model.heads["classification"].dense.weight, task.weights[1])
    said = console.file.getvalue()
    assert "epoch 2: loss " in said
    assert ", score 0.9000 (best so far)" in said
    assert "validation loss  " in said, "it is shown whatever judges"
    assert "validation score  ▄█▁  0.5000 to 0.2000" in said
    assert "evaluation 2 of 3, the best one, is kept (step 10)" in said

    class Unmeasured(Marked):
        def batches(self, data: object, split: str, seed: int, epoch: int) -> Any:
            if split == "valid":
                raise TaskError("there is no such split")
            return super().batches(data, split, seed, epoch)

    last = run(tmp_path / "b", parts, options, Unmeasured(MarkedOptions(examples=40, batch=8)))
    assert (last.steps, last.evaluations) == (15, ())
    with pytest.raises(TaskError, match=r"counts steps and .* passes over the data; leave one out"):
        attrs.evolve(options, evaluate_every=3)


def test_curves_in_a_terminal_leave_out_what_is_no_number() -> None:
    evaluations = [{"step": i, "metrics": {"loss": [3.0, math.nan, 1.0][i - 1]}} for i in (1, 2, 3)]
    assert list(curve_lines([3.0, 2.0, 1.0], evaluations)) == [
        "training loss    █▅▁  3.0000 to 1.0000",
        "validation loss  █ ▁  3.0000 to 1.0000",
    ]
    assert list(curve_lines([1.0], evaluations[:1])) == []


def test_mixed_precision_trains_and_keeps_float32_parameters(parts: Registry, tmp_path: Path) -> None:
    exact = run(tmp_path / "a", parts, spec=FOLNET)
    mixed = run(tmp_path / "b", parts, attrs.evolve(SHORT, precision="bf16"), spec=FOLNET)
    assert mixed.losses != exact.losses
    assert mixed.losses == pytest.approx(exact.losses, rel=0.05)
    assert mixed.model.dtype == torch.float32


class Exploding(Marked):
    def loss(self, model: peirce.Model, batch: object) -> torch.Tensor:
        return super().loss(model, batch) * (math.nan if self.losses_asked == 3 else 1)


class Vector(Marked):
    def loss(self, model: peirce.Model, batch: object) -> torch.Tensor:
        return super().loss(model, batch).expand(2)


class Empty(Marked):
    def batches(self, data: object, split: str, seed: int, epoch: int) -> object:
        return iter(())


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        (Marked, {"precision": "fp16"}, r"train\.precision=fp16 needs a GPU"),
        (Exploding, {"save_every": 2}, r"the loss of step 3 is nan; lower train\.lr.*The model of step 2 is saved in"),
        (Vector, {}, r"'marked' has the shape \[2\]; it must be a scalar"),
        (Empty, {}, "'marked' gives no batches of split 'train' in epoch 0"),
        (Marked, {"evaluate_every": 1, "monitor": "acuracy"}, r"train\.monitor: unknown metric 'acuracy'"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_refused(
    task: type[Marked], change: dict[str, Any], message: str, parts: Registry, tmp_path: Path
) -> None:
    with pytest.raises(TaskError, match=message):
        run(tmp_path, parts, attrs.evolve(SHORT, **change), task(MarkedOptions()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model.architecture": "folnett"}, "unknown architecture 'folnett'. Did you mean 'folnet'"),
        ({"model.heads.0.clases": 3}, "unknown option 'clases' of head 'classification'. Did you mean 'classes'"),
        ({"model.dims.layer": 3}, "unknown dimension 'layer' of architecture 'transformer'. Did you mean 'layers'"),
        ({"model.positions.0.use": "shw"}, "unknown position 'shw'. Did you mean 'shaw'"),
    ],
)  # fmt: skip
def test_mistakes_in_the_spec_are_found_before_the_data_are_prepared(
    change: dict[str, object], message: str, parts: Registry, tmp_path: Path
) -> None:
    task = marked()
    with pytest.raises(SpecError) as raised:
        run(tmp_path / "model", parts, task=task, spec=TRANSFORMER.replace(change))
    assert message in str(raised.value)
    assert task.prepared == 0
    assert not (tmp_path / "model").exists()


def test_another_training_in_the_directory_is_not_overwritten_unasked(
    parts: Registry, tmp_path: Path
) -> None:
    run(tmp_path, parts)
    task = marked()
    with pytest.raises(TaskError, match="already has a training; continue it with --resume"):
        run(tmp_path, parts, task=task)
    assert task.prepared == 0
    again = run(tmp_path, parts, attrs.evolve(SHORT, steps=2), overwrite=True)
    assert again.steps == 2
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-00000002"]
    with pytest.raises(TaskError, match="is a file; give a directory"):
        run(tmp_path / "training.json", parts)


def test_one_thread_of_a_process_trains(parts: Registry, tmp_path: Path) -> None:
    class Patient(Marked):
        def prepare(self) -> Any:
            with pytest.raises(BusyError, match="another thread of this process trains"):
                run(tmp_path / "other", parts)
            return super().prepare()

    run(tmp_path / "one", parts, task=Patient(MarkedOptions()))
    assert not (tmp_path / "other").exists()
    run(tmp_path / "other", parts)


def test_other_data_than_those_of_the_training_are_refused(
    parts: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = run(tmp_path, parts).model
    check_data(model, tmp_path, marked(), None)
    with pytest.raises(TaskError, match=r"model\.input\.vocabulary, assets/tokens\.txt would differ"):
        check_data(model, tmp_path, marked(tokens=9), None)
    other = marked(tokens=9)
    trained_on = other.name
    monkeypatch.setattr(type(other), "name", "other")
    with pytest.raises(TaskError, match=f"give its own task, '{trained_on}'"):
        check_data(model, tmp_path, other, None)


def test_options_survive_being_written_as_plain_values() -> None:
    options = TrainingOptions(steps=5, lr=1, monitor="mrr", goal="max")
    assert training_options(json.loads(json.dumps(plain_options(options)))) == options
