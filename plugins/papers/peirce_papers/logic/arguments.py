"""`peirce experiments run logic/arguments`: does the structure that is told help where it decides, with new words?

A small encoder learns whether a conclusion follows, plain and with logical embeddings, from arguments that are made. It
is tested on longer ones, and on ones whose connectives are words that it has never read, though the lexicon has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import evolve, field, frozen

from peirce.files import write_whole
from peirce_papers.logic.grammar import LEXICON, OPEN, SEEN, UNSEEN, WORDS, Argument, arguments
from peirce_training.experiments import (
    Arm,
    Cell,
    FigureTable,
    NetworkRow,
    Networks,
    Scale,
    TableExperiment,
    identity,
)

if TYPE_CHECKING:
    from peirce.model import Model
    from peirce_logic.choices.task import ChoiceData

TESTS: Mapping[str, tuple[tuple[int, ...], int]] = {
    "trained": ((2, 3), SEEN), "longer": ((4, 5), SEEN), "new": ((2, 3), UNSEEN), "longer_new": ((4, 5), UNSEEN),
}  # fmt: skip
"""The numbers of premises, and the words, of the test arguments by their type; those with new words are the others'."""
TRAIN, LEXICON_FILE, VOCABULARY = "train.json", "lexicon.toml", "vocab.txt"
DEPTH = 3


def _arm(name: str, depth: int = DEPTH, **more: Any) -> Arm:
    augmenters = [{"use": "logical", "depth": depth, **more}] if depth else []
    changes = {
        "model.dims": {"layers": 2, "unary": 64, "heads": 4, "feedforward": 128},
        "model.positions": [{"use": "shaw", "clip": 8}],
        "model.augmenters": augmenters,
    }
    return Arm(name=name, spec="bert-base", changes=changes)


PLAIN, OTHERS = "plain", "ids of other arguments"
ARMS = (
    _arm(PLAIN, 0),
    _arm("logical, K = 3"),
    _arm("logical, K = 3, gate from zero", gate=True),
    _arm(OTHERS),
    _arm("logical, K = 1", 1),
)
SCALES = {
    "small": Scale(
        about="2 layers of 64, 16,000 arguments, 600 steps of 32",
        settings={
            "train.steps": 600,
            "train.lr": 3e-3,
            "train.schedule": "linear",
            "model.regularisation.init_std": 0.1,
            "model.regularisation.dropout": 0.0,
            "task.batch_size": 32,
            "task.length": 128,
        },
    )
}


@frozen(kw_only=True)
class ArgumentRow(NetworkRow):
    """How a run does on the test arguments of one type."""

    type: str
    arguments: int = field(converter=int)

    count = "arguments"
    groups = ("type",)


class Arguments(Networks[ArgumentRow]):
    """The encoders on arguments, which are made in the folder of the results when they are not there."""

    row = ArgumentRow
    learns = "multiple_choice"
    arms: ClassVar[Mapping[str, Arm]] = {arm.name: arm for arm in ARMS}
    constant = "always the same"
    aside: ClassVar[Mapping[str, Any]] = {
        "folder": "", "cache": "", "processes": 1, "tokenizer": "", "lexicon": LEXICON_FILE,
    }  # fmt: skip
    twos: ClassVar[tuple[int, int]] = (8000, 500)
    """How many arguments of each answer are made for training, and for each type of test."""

    def places(self) -> Mapping[str, Any]:
        """The arguments, the vocabulary and the lexicon."""
        folder = self.request.directory / "arguments"
        if not (folder / TRAIN).exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / LEXICON_FILE, LEXICON)
            write_whole(folder / VOCABULARY, "\n".join(WORDS))
            for type, (sizes, words) in TESTS.items():
                twos = islice(arguments(sizes, Random(1)), self.twos[1])
                write_whole(folder / f"test_{type}.json", _questions(twos, words))
            write_whole(folder / TRAIN, _questions(islice(arguments((2, 3), Random(0)), self.twos[0]), SEEN))
        return {
            "task.folder": str(folder),
            "task.tokenizer": str(folder / VOCABULARY),
            "task.lexicon": str(folder / LEXICON_FILE),
            "task.cache": str(folder / "relations.sqlite"),
            "task.parser": "clauses",
            "task.depth": DEPTH,
        }

    def cells(self) -> Iterator[Cell]:
        """The trainings, those of one row after another; a task gives as many levels as its model reads."""
        from peirce_papers.logic.control import OtherIds

        cells = sorted(super().cells(), key=lambda cell: self.labels.index(cell.label))
        for cell in cells:
            levels = [each["depth"] for each in self.arms[cell.label].changes["model.augmenters"]]
            kind = OtherIds if cell.label == OTHERS else type(self.task)
            task = kind(evolve(self.task.options, depth=(*levels, DEPTH)[0]))
            run = identity(cell.spec, self.task_identity("", task), cell.training, cell.seed)
            yield evolve(cell, task=task, run=run)

    def count_right(self, model: Model, data: ChoiceData) -> Iterator[dict[str, Any]]:
        """The test arguments of each type."""
        right, types = self.task.right(model, data, "test"), data.splits["test"].types
        for name in TESTS:
            here = np.array([name in each for each in types])
            yield {
                "split": "test", "type": name, "arguments": int(here.sum()), "right": int(right[here].sum())
            }  # fmt: skip

    def baseline(self, data: ChoiceData) -> dict[str, tuple[dict[str, object], float]]:
        """Always the same answer, which is right for half of the arguments of each type."""
        return {name.replace("_", ", "): ({"type": name}, 0.5) for name in TESTS}

    def table(self, rows: Sequence[ArgumentRow]) -> FigureTable:
        """Accuracy by network and type of arguments."""
        about = f"{2 * self.twos[0]:,} arguments of 2 and 3 premises for training; longer ones have 4 and 5."
        return self.accuracies(rows, "Arguments that turn on a connective", about, digits=1)


def _questions(twos: Iterator[tuple[Argument, Argument]], words: int) -> str:
    """Arguments as questions with two options, a JSON list."""
    rows = [
        {"context": each.text(words), "question": "so", "answers": [each.conclusion, OPEN], "label": label}
        for two in twos
        for label, each in enumerate(two)
    ]
    return json.dumps(rows, indent=0)


ARGUMENTS = TableExperiment(
    name="logic/arguments",
    title="Arguments that turn on a connective, plain and with logical embeddings, with new words",
    rows=tuple(arm.name for arm in ARMS),
    columns=tuple(name.replace("_", ", ") for name in TESTS),
    folder="runs/arguments",
    matrix=Arguments,
    sizes=SCALES,
)
