"""The check `experiment` finds what is wrong with an experiment."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from peirce.registry import Registered, Registry
from peirce_testing import BrokenError, Case
from peirce_training.checks import experiment
from peirce_training.experiments import Experiment, ExperimentReport, ExperimentRequest


@frozen(kw_only=True, eq=False)
class Nothing(Experiment):
    """Trains nothing."""

    def run(self, request: ExperimentRequest, console: Any = None) -> ExperimentReport:
        raise NotImplementedError


RIGHT: dict[str, Any] = {
    "name": "lab/nothing", "title": "What nothing teaches.", "rows": ("a", "b"), "columns": ("valid",),
    "scales": {"small": "no steps"}, "folder": "runs/nothing",
}  # fmt: skip


def check(**changes: Any) -> None:
    part: Any = Nothing(**RIGHT | changes)
    experiment.run(Case(Registered(part, "experiments", "lab/nothing", "lab", None, None), Registry.of()))


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": ("a", "a")},
        {"columns": ("",)},
        {"title": "two\nlines"},
        {"scales": {}},
        {"folder": "../elsewhere"},
    ],
)
def test_a_flaw_is_found(changes: dict[str, Any]) -> None:
    with pytest.raises(BrokenError):
        check(**changes)


def test_a_right_experiment_passes() -> None:
    check()
