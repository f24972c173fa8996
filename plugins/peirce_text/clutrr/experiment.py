"""Fig. 5 from scratch: `peirce experiments run clutrr --data FOLDER`, or `python -m peirce_text.clutrr.experiment`.

Trains networks of one size on stories of few facts, all with the same steps and batches, several seeds each, and tests
them on stories of more. The figure shows accuracy by number of facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from attrs import field, frozen
from peirce.experiments import FigureTable

from peirce_text.networks import FACTS, FLAGS, FromScratch, NetworkRow, Networks, run_command

if TYPE_CHECKING:
    from peirce.model import Model

    from peirce_text.clutrr.task import Clutrr, ClutrrData, ClutrrOptions


@frozen(kw_only=True)
class StoryRow(NetworkRow):
    """How a run does on the stories of one number of facts in one split."""

    train_hops: str
    hops: int = field(converter=int)
    stories: int = field(converter=int)

    group = "hops"
    count = "stories"


@frozen(kw_only=True, eq=False)
class ClutrrNetworks(Networks[StoryRow]):
    """The networks on CLUTRR."""

    row = StoryRow
    constant = "commonest relation"
    columns = (
        *("run", "arm", "seed", "train_hops", "split", "hops", "stories", "right", "accuracy"),
        *FACTS,
    )

    def counted(self, model: Model, data: ClutrrData) -> Iterator[dict[str, Any]]:
        """The stories of each split and number of facts."""
        task = cast("Clutrr", self.task)
        told = " ".join(map(str, task.options.train_hops))
        for split in ("valid", "test"):
            if not data.splits[split].rows:
                continue
            right, hops = task.right(model, data, split)
            for k in np.unique(hops):
                own = hops == k
                known, stories = int(right[own].sum()), int(own.sum())
                yield {
                    "train_hops": told, "split": split, "hops": int(k), "stories": stories, "right": known
                }  # fmt: skip

    def baseline(self, data: ClutrrData) -> dict[str, tuple[str, object, float]]:
        """Always naming the training stories' commonest relation, by number of facts."""
        part = data.splits["test"]
        guess = np.bincount(data.splits["train"].relations).argmax()
        return {
            str(k): ("test", int(k), float((part.relations[part.hops == k] == guess).mean()))
            for k in np.unique(part.hops)
        }

    def table(self, rows: Sequence[StoryRow]) -> FigureTable:
        """Test accuracy by network and number of facts."""
        options: ClutrrOptions = self.task.options
        trained = tuple(map(str, options.train_hops))
        title = f"CLUTRR ({options.text}) from scratch, trained on {', '.join(trained)} facts"
        across = "facts from one person to the other"
        return self.accuracies(rows, title, across=across, shaded=(trained, "trained on"))


CLUTRR = FromScratch(
    name="clutrr",
    folder="runs/clutrr",
    title="Fig. 5 of FOLNet from scratch: kinship from stories of more facts than were trained on",
    columns=tuple(map(str, range(2, 11))),
    networks=ClutrrNetworks,
    settings={"task.people": "roles", "task.batch_size": 32, "train.steps": 2000, "train.save_every": 500},
)

if __name__ == "__main__":
    run_command("clutrr", {**FLAGS, "--text": "task.text={}", "--train": "task.train_hops=[{}]"})
