"""The hook `register_experiments`, which `peirce_training` adds to those of the core."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from peirce.registry import Kind, Read, hookspec

if TYPE_CHECKING:
    from peirce_training.experiments.contract import Experiment

EXPERIMENTS = "experiments"
"""The kind of experiments in a registry."""
_NAME = re.compile(r"[a-z][a-z0-9_]*(/[a-z0-9_]+)*")


@hookspec
def register_experiments() -> Iterable[Experiment]:
    """Add experiments, each many trainings and their results as one table."""


def read_experiments(result: object) -> Read:
    """Read the result of `register_experiments`: the experiments by name, and why the other items cannot be used."""
    from peirce_training.experiments.contract import Experiment

    if isinstance(result, str | type) or not isinstance(result, Iterable):
        return [], [f"must return a list of experiments, not {result!r}"]
    experiments, reasons = [], []
    for item in result:
        if not isinstance(item, Experiment):
            reasons.append(f"returns {item!r}, which is not an Experiment; return instances, not classes")
        elif not _NAME.fullmatch(item.name):
            reasons.append(f"returns an experiment named {item.name!r}; names match {_NAME.pattern}")
        else:
            experiments.append((item.name, item))
    return experiments, reasons


KINDS = (Kind(name=EXPERIMENTS, read=read_experiments, announced=False),)
