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
from peirce_text.networks import FACTS, FLAGS, FromScratch, NetworkRow, Networks, figures, run_command

if TYPE_CHECKING:
    from peirce.model import Model

    from peirce_text.folio.task import Folio, FolioData, FolioOptions

SHOWN = ("train", "valid")
BASELINE = "the commonest label"


@frozen(kw_only=True)
class ProblemRow(NetworkRow):
    """How a run does on the problems of one label in one split."""

    label: str
    problems: int = field(converter=int)

    @property
    def of(self) -> int:
        """The problems."""
        return self.problems

    @property
    def group(self) -> str:
        """The label."""
        return self.label


@frozen(kw_only=True, eq=False)
class FolioNetworks(Networks[ProblemRow]):
    """The networks on FOLIO."""

    row = ProblemRow
    columns = (*("run", "arm", "seed", "split", "label", "problems", "right", "accuracy"), *FACTS)

    def counted(self, model: Model, data: FolioData) -> Iterator[dict[str, Any]]:
        """The problems of each split and label."""
        for split in SHOWN:
            right, given = cast("Folio", self.task).labelled(model, data, split)
            for number, label in enumerate(LABELS):
                own = right == number
                known = int((given[own] == number).sum())
                yield {"split": split, "label": label, "problems": int(own.sum()), "right": known}

    def table(self, rows: Sequence[ProblemRow]) -> FigureTable:
        """Mean accuracy in percent by network and split, beside the training problems' commonest label."""
        options: FolioOptions = self.task.options
        guess = commonest(self.prepared.of(self.task))
        return FigureTable(
            name="accuracy",
            title="FOLIO from scratch",
            about=f"folio on {options.folder or options.dataset}.",
            columns=SHOWN,
            figures=figures(rows, {split: (split, None) for split in SHOWN}, {BASELINE: guess}),
            facts=[f"Accuracy in %, mean (lowest to highest) over {len(self.seeds)} seeds."],
            sources=self.sources(rows, "arm"),
            unit="accuracy (%)",
            digits=0,
        )


def commonest(data: FolioData) -> list[float]:
    """For each split, the accuracy of always giving the training problems' commonest label."""
    guess = np.bincount(data.labels["train"]).argmax()
    return [float((data.labels[split] == guess).mean()) for split in SHOWN]


FOLIO = FromScratch(
    name="folio",
    folder="runs/folio",
    title="Does a conclusion follow? The networks of Fig. 5 from scratch",
    columns=SHOWN,
    networks=FolioNetworks,
    settings={
        "task.vocabulary": 4000,
        "task.batch_size": 16,
        "train.steps": 600,
        "train.lr": 1e-3,
        "train.beta2": 0.98,
        "train.warmup_ratio": 0.05,
        "train.save_every": 200,
        "train.keep": 1,
    },
)

if __name__ == "__main__":
    run_command("folio", FLAGS)
