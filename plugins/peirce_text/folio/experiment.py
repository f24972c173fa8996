"""FOLIO from scratch: `peirce experiments run folio --data FOLDER`, or `python -m peirce_text.folio.experiment`.

Trains networks of one size on the training problems, all with the same steps and batches, several seeds each, and shows
how many validation problems they label right, beside always giving the commonest label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from attrs import field, frozen
from peirce.experiments import FigureTable

from peirce_text.folio.problems import LABELS
from peirce_text.networks import FACTS, FLAGS, FromScratch, NetworkRow, Networks, run_command

if TYPE_CHECKING:
    from peirce.model import Model

    from peirce_text.folio.task import Folio, FolioData

SHOWN = ("train", "valid")


@frozen(kw_only=True)
class ProblemRow(NetworkRow):
    """How a run does on the problems of one label in one split."""

    label: str
    problems: int = field(converter=int)

    group = "label"
    count = "problems"


@frozen(kw_only=True, eq=False)
class FolioNetworks(Networks[ProblemRow]):
    """The networks on FOLIO."""

    row = ProblemRow
    constant = "the commonest label"
    columns = (*("run", "arm", "seed", "split", "label", "problems", "right", "accuracy"), *FACTS)

    def counted(self, model: Model, data: FolioData) -> Iterator[dict[str, Any]]:
        """The problems of each split and label."""
        for split in SHOWN:
            right, given = cast("Folio", self.task).labelled(model, data, split)
            for number, label in enumerate(LABELS):
                own = right == number
                known = int((given[own] == number).sum())
                yield {"split": split, "label": label, "problems": int(own.sum()), "right": known}

    def baseline(self, data: FolioData) -> dict[str, tuple[str, object, float]]:
        """Always giving the training problems' commonest label."""
        guess = np.bincount(data.labels["train"]).argmax()
        return {split: (split, None, float((data.labels[split] == guess).mean())) for split in SHOWN}

    def table(self, rows: Sequence[ProblemRow]) -> FigureTable:
        """Accuracy by network and split."""
        return self.accuracies(rows, "FOLIO from scratch")


FOLIO = FromScratch(
    name="folio",
    folder="runs/folio",
    title="Does a conclusion follow? The networks of Fig. 5 from scratch",
    columns=SHOWN,
    networks=FolioNetworks,
    settings={"task.vocabulary": 4000, "task.batch_size": 16, "train.steps": 600, "train.save_every": 200},
)

if __name__ == "__main__":
    run_command("folio", FLAGS)
