from __future__ import annotations

import pytest

from peirce.errors import TaskError
from peirce_training import TrainingOptions, training_options
from peirce_training.optimizer import learning_rate, warmup_steps


def rates(**options: object) -> list[float]:
    made = TrainingOptions(steps=10, lr=1.0, **options)
    return [learning_rate(made, step, 10) for step in range(10)]


def test_rates_by_hand() -> None:
    assert rates(warmup=4, schedule="constant") == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert rates(schedule="linear") == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    assert rates(schedule="thirds") == pytest.approx([1.0] * 4 + [0.1] * 3 + [0.01] * 3)
    assert rates(warmup=5)[5:] == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])


def test_what_falls_ends_at_the_end() -> None:
    found = rates(schedule="cosine")
    assert (found[0], found[5]) == (1.0, pytest.approx(0.5))
    assert found == sorted(found, reverse=True)
    assert rates(schedule="poly", power=2.0, end_lr=0.2) == pytest.approx(
        [0.2 + 0.8 * (1 - step / 10) ** 2 for step in range(10)]
    )
    assert rates(schedule="poly") == rates(schedule="linear")
    for schedule in ("linear", "cosine", "poly"):
        made = TrainingOptions(steps=10, lr=1.0, end_lr=0.25, schedule=schedule)
        assert learning_rate(made, 10, 10) == pytest.approx(0.25)


def test_warm_up_may_be_a_part_of_all_steps() -> None:
    made = TrainingOptions(epochs=1, lr=1.0, warmup_ratio=0.06)
    assert warmup_steps(made, 1000) == 60
    assert learning_rate(made, 29, 1000) == 0.5
    assert learning_rate(made, 60, 1000) == 1.0
    assert warmup_steps(made, 5) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": None}, "neither is given"),
        ({"epochs": 1}, "both are given"),
        ({"patience": 1}, "patience counts evaluations"),
        ({"warmup": 11}, "warmup lasts 11 steps"),
        ({"threads": 10**11}, r": train.threads must be <= 1024"),
        ({"warmup": 2, "warmup_ratio": 0.1}, "say the same in two ways"),
        ({"end_lr": 2.0}, r"end_lr is 2.0, above the highest learning rate, train\.lr=1.0"),
        ({"power": 2.0}, r"power belongs to train\.schedule=poly"),
        ({"precision": "fp16", "parallel": "fsdp"}, "fp16 does not go with"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        training_options({"steps": 10, "lr": 1.0, **given})
