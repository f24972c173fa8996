"""`peirce experiments run upgrade/clutrr --data MODEL --set task.folder=FOLDER`: does it compose more facts?

All rows learn how two people of a family are related, from texts of up to four facts, and are tested on up to ten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import field, frozen

from peirce.spec import PartSpec
from peirce_papers.upgrade.kinship_words import UNKNOWN
from peirce_papers.upgrade.networks import (
    CONTROLS,
    DISTANCE,
    RELATIONS,
    TRAINING,
    UpgradeRow,
    Upgrades,
    upgrade_arms,
)
from peirce_training.experiments import FigureTable, Scale, TableExperiment

if TYPE_CHECKING:
    from peirce.model import Model
    from peirce_papers.upgrade.kinship_task import Kinship, ShuffledKinship
    from peirce_text.tasks import TextClassData

TOLD, SHUFFLED = "jm.atp, told the facts", "jm.atp, told the facts, shuffled"
_TOLD = {**RELATIONS, "positions": [DISTANCE, PartSpec(use="edges", options={"relations": UNKNOWN})]}
GAINS: Mapping[str, Mapping[str, Any]] = {
    "fine-tuned": {},
    "jm.atp": RELATIONS,
    TOLD: _TOLD,
    SHUFFLED: _TOLD,
    "relation attention, told the facts": {**_TOLD, "operators": ("relation_attention",)},
    **CONTROLS,
}


@frozen(kw_only=True)
class KinshipRow(UpgradeRow):
    """How a run does on the test texts of one number of facts.

    Args:
        hops: the facts from one person to the other.
        stories: how many texts there are.
    """

    hops: int = field(converter=int)
    stories: int = field(converter=int)

    count = "stories"
    groups = ("hops",)


class KinshipUpgrades(Upgrades[KinshipRow]):
    """A model and its upgrades on CLUTRR."""

    row = KinshipRow
    learns = "kinship"
    gains = GAINS
    shuffled = SHUFFLED
    arms = upgrade_arms(GAINS)
    constant = "commonest relation"
    aside: ClassVar[Mapping[str, Any]] = {"tokenizer": "", "folder": ""}

    def kinds(self) -> tuple[type[Kinship], type[ShuffledKinship]]:
        """The experiment's own task."""
        from peirce_papers.upgrade.kinship_task import Kinship, ShuffledKinship

        return Kinship, ShuffledKinship

    def count_right(self, model: Model, data: TextClassData, task: Any = None) -> Iterator[dict[str, Any]]:
        """The test texts of each number of facts."""
        right = self.right(model, data, task)
        hops = np.asarray(data.splits["test"].notes)
        for k in np.unique(hops):
            here = hops == k
            yield {
                "split": "test",
                "hops": int(k),
                "stories": int(here.sum()),
                "right": int(right[here].sum()),
            }

    def baseline(self, data: TextClassData) -> dict[str, tuple[dict[str, object], float]]:
        """Always naming the training texts' commonest relation, by number of facts."""
        labels, hops = data.splits["test"].labels, np.asarray(data.splits["test"].notes)
        guess = np.bincount(data.splits["train"].labels).argmax()
        return {
            str(k): ({"hops": int(k)}, float((labels[hops == k] == guess).mean())) for k in np.unique(hops)
        }

    def table(self, rows: Sequence[KinshipRow]) -> FigureTable:
        """Accuracy by row and number of facts."""
        options = self.task.options
        trained = tuple(map(str, options.train_hops))
        return self.accuracies(
            rows,
            f"CLUTRR ({options.text}), trained on {', '.join(trained)} facts",
            f"{Path(self.request.data).name} to begin with.",
            across="facts from one person to the other",
            shaded=(trained, "trained on"),
        )


KINSHIP = TableExperiment(
    name="upgrade/clutrr",
    title="Kinship from more facts than were trained on: an encoder that gains relations, with controls",
    rows=tuple(KinshipUpgrades.arms),
    columns=tuple(map(str, range(2, 11))),
    folder="runs/upgrade-clutrr",
    matrix=KinshipUpgrades,
    sizes={
        "small": Scale(
            about="the upper half of the layers trained, 1,200 steps of 32 texts",
            settings={
                "task.text": "facts",
                "task.people": "roles",
                "task.first": "query",
                "task.train_hops": (2, 3, 4),
                "task.batch_size": 32,
                "train.steps": 1200,
                "train.lr": 1e-4,
                "train.rates": {"new": 1e-3, "heads.*": 1e-3},
                **TRAINING,
            },
        )
    },
)
