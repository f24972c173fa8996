"""Experiments that plug-ins register."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from peirce import hookimpl
from peirce.registry import Registry
from peirce_training.experiments import Experiment


def plugin(name: str, experiments: Any) -> ModuleType:
    """A plug-in module whose hook returns the given value."""
    module = ModuleType(name)
    module.register_experiments = hookimpl(lambda: experiments)  # type: ignore[attr-defined]
    return module


def counted(name: str) -> Experiment:
    """An experiment that trains nothing."""
    made = type("Counted", (Experiment,), {"run": None})
    return made(name=name, title="One", rows=("a",), columns=("b",), scales={"small": "little"})


def test_experiments_are_found_by_name() -> None:
    first, second = counted("lab/two"), counted("lab/one")
    registry = Registry.of(plugin("lab", [first, second]))
    assert [(entry.name, entry.part) for entry in registry.entries("experiments")] == [
        ("lab/one", second),
        ("lab/two", first),
    ]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([Experiment], "which is not an Experiment; return instances, not classes"),
        ([counted("Table 7")], "an experiment named 'Table 7'; names match"),
        ([counted("one"), counted("one")], "it registers experiments.one twice"),
        (None, "register_experiments must return a list of experiments, not None"),
    ],
)
def test_what_is_no_experiment_quarantines_its_plugin(found: object, words: str) -> None:
    registry = Registry.of(plugin("good", [counted("good")]), plugin("bad", found))
    assert registry.names("experiments") == ("good",)
    assert [words in broken.cause for broken in registry.quarantined] == [True]
