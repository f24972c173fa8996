from __future__ import annotations

import pytest
from peirce_plugins.tasks.options import TrainingOptions
from peirce_plugins.tasks.schedule import learning_rate


def rates(**options: object) -> list[float]:
    made = TrainingOptions(steps=10, lr=1.0, **options)
    return [learning_rate(made, step, 10) for step in range(10)]


def test_warms_up_linearly_to_the_highest_rate() -> None:
    assert rates(warmup=4, schedule="constant") == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_falls_linearly_to_zero_after_the_last_step() -> None:
    assert rates(schedule="linear") == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    assert rates(warmup=5)[5:] == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])


def test_falls_as_a_cosine() -> None:
    found = rates(schedule="cosine")
    assert found[0] == 1.0
    assert found[5] == pytest.approx(0.5)
    assert found == sorted(found, reverse=True)
    assert learning_rate(TrainingOptions(steps=10, lr=1.0, schedule="cosine"), 10, 10) == pytest.approx(0.0)


def test_warm_up_may_last_the_whole_training() -> None:
    assert rates(warmup=10)[-1] == 1.0
