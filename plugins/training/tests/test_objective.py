"""How much the batches of a step count."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest
import torch
from torch import Tensor
from toy_tasks import FOLNET, Filled, FilledOptions, Marked, MarkedOptions

import peirce
from peirce.errors import TaskError
from peirce.registry import Registry
from peirce_training import Checkpoints, TrainingOptions, train
from peirce_training.batches import Objective, Share, step_batches
from peirce_training.evaluation import mean_loss

PLAIN = FOLNET.replace(
    {"model.regularisation.dropout": 0.0, "model.heads": [{"use": "mlm"}, {"use": "classification"}]}
)
OPTIONS = TrainingOptions(steps=6, lr=1e-2, epsilon=1e-3, save_every=3, device="cpu", threads=1)


class Counting(Filled):
    """Counts as many targets as a batch says."""

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        return {"filled": int(batch["count"])} if "count" in batch else {}


def _shares(counts: list[int | None], process: int = 0, processes: int = 1) -> list[tuple[int, float, float]]:
    batches = [
        {"index": torch.tensor(i), **({} if n is None else {"count": torch.tensor(n)})}
        for i, n in enumerate(counts)
    ]
    given = list(step_batches(Counting(FilledOptions()), batches, len(counts), process, processes))
    assert [last for _, _, last in given] == [False] * (len(given) - 1) + [True]
    return [(int(batch["index"]), share.weight("filled"), share.weight("upper")) for batch, share, _ in given]


def test_batches_count_by_their_targets() -> None:
    assert _shares([3, 0, 1]) == [(0, 0.75, 1 / 3), (1, 0.0, 1 / 3), (2, 0.25, 1 / 3)]
    assert _shares([0, 0]) == [(0, 0.0, 0.5), (1, 0.0, 0.5)]
    assert _shares([5]) == [(0, 1.0, 1.0)]
    assert _shares([None] * 4) == [(i, 0.25, 0.25) for i in range(4)]


@pytest.mark.parametrize("counts", [[1, 2, 3, 4], [None] * 4])
def test_processes_take_turns(counts: list[int | None]) -> None:
    whole = _shares(counts)
    assert _shares(counts, 0, 2) == whole[::2]
    assert _shares(counts, 1, 2) == whole[1::2]


class Batch(dict[str, Tensor]):
    """One that can be watched."""


def test_a_step_of_131072_sequences_holds_one_batch_at_a_time() -> None:
    """4096 batches of 32 sequences of 128 tokens, streamed."""
    alive: weakref.WeakSet[Batch] = weakref.WeakSet()
    most = rows = 0

    def batches() -> Iterator[Batch]:
        for _ in range(4096):
            batch = Batch(input_ids=torch.empty(32, 128, dtype=torch.int64))
            alive.add(batch)
            yield batch
            del batch

    Batch.__hash__ = object.__hash__  # type: ignore[assignment]
    for batch, share, _ in step_batches(Marked(MarkedOptions()), batches(), 4096):
        most, rows = max(most, len(alive)), rows + len(batch["input_ids"])
        assert share.weight("loss") == 1 / 4096
    assert rows == 131_072
    assert most <= 2


def test_terms_without_targets_do_no_harm(parts: Registry) -> None:
    model = peirce.build(PLAIN.replace({"model.input.vocabulary": 10}), registry=parts)
    task = Filled(FilledOptions())
    batch = dict(next(task.batches(task.prepare(), "train", 0, 0)))
    batch["labels"] = torch.full_like(batch["labels"], -100)
    loss, terms = Objective(task, model, 2)(batch, Share(0.5, {"filled": 0.0}))
    loss.backward()
    assert float(terms["filled"]) == 0
    assert float(loss.detach()) == float(terms["upper"]) > 0
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())
    assert model.heads["mlm"].dense.weight.grad.abs().max() == 0


def test_accumulated_batches_are_one_large_batch(parts: Registry, tmp_path: Path) -> None:
    results = {
        count: train(
            PLAIN,
            Filled(FilledOptions(batch=16 // count)),
            attrs.evolve(OPTIONS, accumulate=count),
            tmp_path / str(count),
            registry=parts,
        )
        for count in (1, 2, 8)
    }
    for result in results.values():
        assert result.losses == pytest.approx(results[1].losses, rel=1e-5)
        sums = [sum(pair) for pair in zip(*result.terms.values(), strict=True)]
        assert list(result.losses) == pytest.approx(sums, rel=1e-6)
        for name, values in result.terms.items():
            assert values == pytest.approx(results[1].terms[name], rel=1e-5)


def test_terms_are_kept_in_curves_and_checkpoints(parts: Registry, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    options = attrs.evolve(OPTIONS, log_every=2)
    whole = train(PLAIN, Filled(FilledOptions()), options, tmp_path / "model", registry=parts)
    events = EventAccumulator(str(tmp_path / "model" / "tensorboard"))
    events.Reload()
    points = {e.step: e.value for e in events.Scalars("train/upper")}
    upper = whole.terms["upper"]
    assert points == pytest.approx({k: (upper[k - 2] + upper[k - 1]) / 2 for k in (2, 4, 6)})
    for path in Checkpoints(tmp_path / "model", 1).paths()[-1:]:
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    again = train(PLAIN, Filled(FilledOptions()), options, tmp_path / "model", registry=parts, resume=True)
    assert again.terms == whole.terms


def test_other_terms_than_before_are_refused(parts: Registry, tmp_path: Path) -> None:
    class Changing(Filled):
        def terms(self, model: peirce.Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
            return dict(itertools.islice(super().terms(model, batch).items(), 1 + (self.losses_asked < 3)))

    with pytest.raises(
        TaskError, match=r"gives the terms filled of its loss where it gave filled, upper before"
    ):
        train(PLAIN, Changing(FilledOptions()), OPTIONS, tmp_path, registry=parts)


def test_the_loss_of_a_split_is_that_of_one_batch(parts: Registry) -> None:
    model = peirce.build(PLAIN.replace({"model.input.vocabulary": 10}), registry=parts)
    losses = [
        mean_loss(model, task, task.prepare(), "valid")
        for task in (Filled(FilledOptions(batch=count)) for count in (48, 7, 1))
    ]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
