"""Fig. 5 from scratch: `peirce experiments run clutrr --data FOLDER`.

Trains networks of one size on stories of few facts, all with the same steps and batches, several seeds each, and tests
them on stories of more. The figure shows accuracy by number of facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen

from peirce_papers.text.networks import FromScratch, from_scratch
from peirce_training.experiments import FigureTable, NetworkRow

if TYPE_CHECKING:
    from peirce.model import Model
    from peirce_text.tasks import TextClassData


@frozen(kw_only=True)
class StoryRow(NetworkRow):
    """How a run does on the stories of one number of facts in one split."""

    train_hops: str
    hops: int = field(converter=int)
    stories: int = field(converter=int)

    count = "stories"
    groups = ("split", "hops")


class ClutrrNetworks(FromScratch[StoryRow]):
    """The networks on CLUTRR."""

    row = StoryRow
    learns = "clutrr"
    constant = "commonest relation"

    def count_right(self, model: Model, data: TextClassData) -> Iterator[dict[str, Any]]:
        """The stories of each split and number of facts."""
        trained = " ".join(map(str, self.task.options.train_hops))
        for split in ("valid", "test"):
            if split not in data.splits:
                continue
            right, hops = self.task.right(model, data, split), np.asarray(data.splits[split].notes)
            for k in np.unique(hops):
                here = hops == k
                known, stories = int(right[here].sum()), int(here.sum())
                yield {
                    "train_hops": trained, "split": split, "hops": int(k), "stories": stories, "right": known
                }  # fmt: skip

    def baseline(self, data: TextClassData) -> dict[str, tuple[dict[str, object], float]]:
        """Always naming the training stories' commonest relation, by number of facts."""
        labels, hops = data.splits["test"].labels, np.asarray(data.splits["test"].notes)
        guess = np.bincount(data.splits["train"].labels).argmax()
        return {
            str(k): ({"split": "test", "hops": int(k)}, float((labels[hops == k] == guess).mean()))
            for k in np.unique(hops)
        }

    def table(self, rows: Sequence[StoryRow]) -> FigureTable:
        """Test accuracy by network and number of facts."""
        options = self.task.options
        trained = tuple(map(str, options.train_hops))
        title = f"CLUTRR ({options.text}) from scratch, trained on {', '.join(trained)} facts"
        across = "facts from one person to the other"
        return self.accuracy_table(rows, title, across=across, shaded=(trained, "trained on"))


CLUTRR = from_scratch(
    ClutrrNetworks,
    {"task.people": "roles", "task.batch_size": 32, "train.steps": 2000, "train.save_every": 500},
    name="clutrr",
    title="Fig. 5 of FOLNet from scratch: kinship from stories of more facts than were trained on",
    columns=tuple(map(str, range(2, 11))),
)
