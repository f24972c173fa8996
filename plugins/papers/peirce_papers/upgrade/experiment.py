"""`peirce experiments run upgrade/rules --data MODEL`: does a trained encoder reason deeper when it gains relations?

MODEL is an encoder that `peirce import transformers` has made. All rows but one begin with it, and all are trained with
the same problems, batches and steps: which conclusions follow from rules in words, up to three of them in a row. They
are tested on more, with words that no problem for training has, and on problems of a second sampler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen

from peirce.spec import PartSpec
from peirce_papers.upgrade.networks import (
    CONTROLS,
    DISTANCE,
    RELATIONS,
    TRAINING,
    UpgradeRow,
    Upgrades,
    upgrade_arms,
)
from peirce_papers.upgrade.rules import SAMPLERS
from peirce_training.experiments import FigureTable, Scale, TableExperiment

if TYPE_CHECKING:
    from peirce.model import Model
    from peirce_papers.upgrade.task import Rules, ShuffledRules

SHUFFLED = "jm.atp, same words, shuffled"
_SAME_WORDS = {**RELATIONS, "positions": [DISTANCE, PartSpec(use="edges", options={"relations": 2})]}
GAINS: Mapping[str, Mapping[str, Any]] = {
    "fine-tuned": {},
    "jm.atp": RELATIONS,
    "jm.atp, from attention": {**RELATIONS, "from_attention": True},
    "jm.atp, same words": _SAME_WORDS,
    "chain, from attention": {
        **RELATIONS, "operators": ("join", "mu", "assoc", "chain"), "from_attention": True
    },
    SHUFFLED: _SAME_WORDS,
    **CONTROLS,
}  # fmt: skip
FIRST, SECOND = SAMPLERS
SCALES = {
    "small": Scale(
        about="the upper half of the layers trained, 800 steps of 16 problems",
        settings={
            "train.steps": 800,
            "train.lr": 2e-4,
            "train.rates": {"new": 6e-4, "heads.*": 6e-4},
            **TRAINING,
        },
    )
}


@frozen(kw_only=True)
class RulesRow(UpgradeRow):
    """How a run does on the test problems of one sampler and one depth.

    Args:
        sampler: what drew them.
        depth: the rules in a row that lead to what is asked.
        problems: how many there are.
    """

    sampler: str
    depth: int = field(converter=int)
    problems: int = field(converter=int)

    count = "problems"
    groups = ("depth",)


class RulesUpgrades(Upgrades[RulesRow]):
    """A model and its upgrades on rules in words."""

    row = RulesRow
    learns = "rules"
    gains = GAINS
    shuffled = SHUFFLED
    arms = upgrade_arms(GAINS)
    constant = "always the same"

    def kinds(self) -> tuple[type[Rules], type[ShuffledRules]]:
        """The experiment's own task."""
        from peirce_papers.upgrade.task import Rules, ShuffledRules

        return Rules, ShuffledRules

    def count_right(self, model: Model, data: Any, task: Any = None) -> Iterator[dict[str, Any]]:
        """The test problems of each sampler and depth."""
        right = self.right(model, data, task)
        notes = data.splits["test"].notes
        for sampler, depth in dict.fromkeys(notes):
            here = np.array([note == (sampler, depth) for note in notes])
            counts = {"problems": int(here.sum()), "right": int(right[here].sum())}
            yield {"split": "test", "sampler": sampler, "depth": depth, **counts}

    def baseline(self, data: Any) -> dict[str, tuple[dict[str, object], float]]:
        """Always the same answer, which is right for half of the problems of each depth."""
        return {str(depth): ({"sampler": FIRST, "depth": depth}, 0.5) for depth in self.task.options.depths}

    def is_wanted(self, row: RulesRow) -> bool:
        """Whether a result is one that the first table shows."""
        return row.sampler == FIRST

    def table(self, rows: Sequence[RulesRow]) -> FigureTable:
        """Accuracy by row and depth, with the sampler that training has."""
        return self._by_depth(rows, FIRST, "accuracy")

    def tables(self, rows: Sequence[RulesRow]) -> Sequence[FigureTable]:
        """Accuracy with both samplers."""
        return (self.table(rows), self._by_depth(rows, SECOND, "labels-first"))

    def _by_depth(self, rows: Sequence[RulesRow], sampler: str, name: str) -> FigureTable:
        columns = {
            k: ({**where, "sampler": sampler}, share) for k, (where, share) in self.baseline(None).items()
        }
        trained = [str(depth) for depth in self.task.options.depths if depth <= self.task.options.trained]
        return self.accuracies(
            rows,
            f"Rules in words, {sampler}",
            f"{self.task.options.problems:,} problems for training; {Path(self.request.data).name} to begin with.",
            columns=columns,
            name=name,
            across="rules in a row",
            shaded=(trained, "trained on"),
        )


RULES = TableExperiment(
    name="upgrade/rules",
    title="Rules in words: an encoder that gains relations, with controls",
    rows=tuple(RulesUpgrades.arms),
    columns=tuple(map(str, (1, 2, 3, 4, 6, 8))),
    folder="runs/upgrade",
    matrix=RulesUpgrades,
    sizes=SCALES,
)
