"""FOLIO from scratch: `peirce experiments run folio --data FOLDER`.

Trains networks of one size on the training problems, all with the same steps and batches, several seeds each, and shows
how many validation problems they label right, beside always giving the commonest label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen

from peirce_papers.text.networks import FromScratch, from_scratch
from peirce_text.folio.problems import LABELS
from peirce_training.experiments import FigureTable, NetworkRow

if TYPE_CHECKING:
    from peirce.model import Model
    from peirce_text.tasks import TextClassData

SHOWN = ("train", "valid")


@frozen(kw_only=True)
class ProblemRow(NetworkRow):
    """How a run does on the problems of one label in one split."""

    label: str
    problems: int = field(converter=int)

    count = "problems"
    groups = ("split", "label")


class FolioNetworks(FromScratch[ProblemRow]):
    """The networks on FOLIO."""

    row = ProblemRow
    learns = "folio"
    constant = "the commonest label"

    def count_right(self, model: Model, data: TextClassData) -> Iterator[dict[str, Any]]:
        """The problems of each split and label."""
        for split in SHOWN:
            labels = data.splits[split].labels
            given = self.task.predict(model, data, split)
            for number, label in enumerate(LABELS):
                here = labels == number
                known = int((given[here] == number).sum())
                yield {"split": split, "label": label, "problems": int(here.sum()), "right": known}

    def baseline(self, data: TextClassData) -> dict[str, tuple[dict[str, object], float]]:
        """Always giving the training problems' commonest label."""
        guess = np.bincount(data.splits["train"].labels).argmax()
        return {
            split: ({"split": split}, float((data.splits[split].labels == guess).mean())) for split in SHOWN
        }

    def table(self, rows: Sequence[ProblemRow]) -> FigureTable:
        """Accuracy by network and split."""
        return self.accuracy_table(rows, "FOLIO from scratch")


FOLIO = from_scratch(
    FolioNetworks,
    {"task.vocabulary": 4000, "task.batch_size": 16, "train.steps": 600, "train.save_every": 200},
    name="folio",
    title="Does a conclusion follow? The networks of Fig. 5 from scratch",
    columns=SHOWN,
)
