"""Networks of one size that are trained alike on a task, from scratch: what FOLNet's Fig. 5 compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from attrs import evolve

from peirce_training.experiments import Arm, FigureTable, NetworkRow, Networks, Scale, TableExperiment

_SMALL = {"model.regularisation.dropout": 0.0, "model.regularisation.init_std": 0.1}
_FOLNET = {
    "model.dims": {  # in this order, which is the spec's: a run is known by the spec's text
        "layers": 4,
        "unary": 64,
        "binary": 8,
        "heads": 4,
        "head_size": 16,
        "feedforward_unary": 256,
        "feedforward_binary": 16,
    },
    "model.positions": [{"use": "distance", "clip": 32, "cls": True}],
    **_SMALL,
}


ARMS = (
    Arm(name="FOLNet (jmc.atp)", spec="folnet-base", changes={**_FOLNET, "model.operators.layer": "jmc.atp"}),
    Arm(
        name="FOLNet (j.a)",
        spec="folnet-base",
        changes={**_FOLNET, "model.operators.layer": "j.a"},
        width="model.dims.feedforward_unary",
    ),
    Arm(
        name="BERT",
        spec="bert-base",
        changes={"model.dims": {"layers": 4, "unary": 64, "heads": 4, "feedforward": 256}, **_SMALL},
        width="model.dims.feedforward",
    ),
)
LONGER = evolve(ARMS[2], name="BERT, 4 times the steps", longer=4.0)
"""About the time that FOLNet takes, in place of the same steps; only on demand."""

R = TypeVar("R", bound=NetworkRow)


class FromScratch(Networks[R]):
    """The networks on a task on texts."""

    arms: ClassVar[Mapping[str, Arm]] = {arm.name: arm for arm in (*ARMS, LONGER)}

    def accuracy_table(self, rows: Sequence[R], title: str, **more: Any) -> FigureTable:
        """Accuracy in percent by network and column, and what it was measured on."""
        options = self.task.options
        return self.accuracies(
            rows, title, f"{self.task.name} on {options.folder or options.dataset}.", **more
        )


def from_scratch(
    matrix: type[FromScratch[Any]], settings: Mapping[str, Any], **options: Any
) -> TableExperiment:
    """The networks on a task, as an experiment.

    Args:
        matrix: of the task.
        settings: the task's and the training's, by dotted key.
        options: the experiment's name, title and columns.
    """
    return TableExperiment(
        **options,
        folder=f"runs/{options['name']}",
        rows=tuple(arm.name for arm in ARMS),
        more=(LONGER.name,),
        matrix=matrix,
        sizes={"scratch": Scale(about="4 layers of 64, on the task's data alone", settings=settings)},
    )
