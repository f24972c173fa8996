"""The task `multiple_choice`: which of several options answers a question about a text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray
from torch import Tensor

from peirce.errors import TaskError
from peirce.model import Model, PlainRows
from peirce_logic.choices.questions import Question, read_folder, read_questions
from peirce_logic.input_texts import TextRow, assets_of, batch_of, row_of
from peirce_logic.tasks import RelationOptions, check_levels, relations_of
from peirce_text import (
    FolderOptions,
    Ints,
    TextData,
    TextTask,
    Tokenizer,
    at_least,
    print_line,
    read_splits,
    tensors,
    vocabulary_settings,
)
from peirce_text.plain import plain_accuracy, plain_ids

HEAD = "multiple_choice"
SPLITS = ("train", "valid", "test")


@frozen(kw_only=True)
class MultipleChoiceOptions(RelationOptions, FolderOptions):
    """What is read, and how it is put to the model.

    Args:
        folder: holds the published files of ReClor, LogiQA, DREAM or LSAT, gzipped or not.
        dataset: in place of a folder, a data set of the library `datasets`, such as `tasksource/lsat-ar`.
        limit: how many questions of each split are taken, from the first on; all if 0.
        part: of a folder with several files of a split, those whose names have this beside the split, such as `ar`.
        length: the most tokens of context, question and an option; longer contexts lose their middle.
        batch_size: how many questions are in a batch; each is a row for every option.
        relations: whether there are `logical_relations` too, for a model with the position `logic_relations`.
    """

    limit: int = at_least(0, 0)
    part: str = ""
    vocabulary: int = at_least(1, 8000)
    length: int = at_least(8, 256)
    batch_size: int = at_least(1, 8)
    relations: bool = False

    @property
    def parsed(self) -> bool:
        """Whether relations are found."""
        return self.depth > 0 or self.relations


@frozen(eq=False)
class Questions:
    """The questions of a split.

    Args:
        rows: of each question, a row for each of its options: context, question and option.
        answers: int64 [questions], which option is right.
        types: of each question.
        pad_id: what fills shorter rows.
        cut: how many questions fill the length.
    """

    rows: Sequence[Sequence[TextRow]]
    answers: Ints
    types: Sequence[Sequence[str]]
    pad_id: int
    cut: int

    @property
    def choices(self) -> int:
        """How many options every question has."""
        return len(self.rows[0])

    @property
    def lengths(self) -> Ints:
        """int64 [questions], the tokens of the longest row of each."""
        return np.array([max(len(row.ids) for row in rows) for rows in self.rows], np.int64)

    def batch(self, rows: Ints) -> dict[str, Tensor]:
        """Some questions, the rows of each after one another.

        Returns:
            input_ids, token_type_ids: int64 [b choices, x]; attention_mask: bool [b choices, x]; logical_ids: int64
            [b choices, K, x], where K > 0; logical_relations: int64 [b choices, relations, x], where the task has
            them; labels: int64 [b].
        """
        batch = batch_of([row for i in rows for row in self.rows[i]], self.pad_id)
        return tensors({**batch, "labels": self.answers[rows]})


ChoiceData = TextData[Questions]


class MultipleChoice(TextTask[MultipleChoiceOptions, Question, Questions]):
    """Which option answers a question about a text? Each option is a row, and the rows of a question compete."""

    name = "multiple_choice"
    source = "Logical Transformers (Wang et al., 2023), Section 5.1 and Table 2"
    Options = MultipleChoiceOptions
    head = HEAD
    nouns = "questions"
    examples = ("data", "tasksource/lsat-ar")
    pool = 32

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """A few questions: who is it that the context tells of?"""
        who, does = ("dog", "cat", "cow"), ("sat", "ran", "slept", "ate")
        for name, when, count in (("train", "Today", 12), ("val", "Then", 6), ("test", "Now", 6)):
            rows = [
                {
                    "context": f"{when} it was the {who[i % 3]} that {does[i % 4]}.",
                    "question": f"Who {does[i % 4]}?",
                    "answers": [f"The {each}." for each in who],
                    "label": i % 3,
                }
                for i in range(count)
            ]
            (folder / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
        return {"folder": str(folder), "vocabulary": 120, "length": 40, "batch_size": 4}

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """Contexts that lose their middle, and of each split some questions."""
        return [{"length": 17}, {"limit": 5}]

    def reference(self, data: ChoiceData, split: str) -> list[dict[str, Any]] | None:
        """Of each question a row for each option, with the context."""
        options, name = self.options, {"train": "train", "valid": "val", "test": "test"}[split]
        if options.parsed:
            return None
        found = []
        for each in json.loads((Path(options.folder) / f"{name}.json").read_text())[: options.limit or None]:
            rows = [
                plain_ids(
                    data.tokenizer, each["context"], f"{each['question']} {option}",
                    length=options.length, shorten="middle",
                )
                for option in each["answers"]
            ]  # fmt: skip
            size = max(len(row["input_ids"]) for row in rows)
            fillers = {"input_ids": data.tokenizer.pad_id, "token_type_ids": 0, "attention_mask": False}
            padded = {
                key: [[*row[key], *[fill] * (size - len(row[key]))] for row in rows]
                for key, fill in fillers.items()
            }
            found.append({**padded, "labels": each["label"]})
        return found

    def reference_settings(self, data: ChoiceData) -> Mapping[str, Any]:
        """Two token types, and a head for three options."""
        head = {"use": HEAD, "choices": 3}
        return {**super().reference_settings(data), "model.input.token_types": 2, "model.heads": [head]}

    def reference_metrics(
        self, data: ChoiceData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """The share of questions whose answer scores highest."""
        return {"accuracy": plain_accuracy(self.plain_guesses(rows, outputs))}

    def read(self) -> dict[str, list[Question]]:
        """The questions of the splits whose answers are published."""
        options = self.options
        place = options.folder or options.dataset
        if options.folder:
            found = read_folder(Path(place), options.part)
        else:
            found = {split: read_questions(rows) for split, rows in read_splits(place, ()).items()}
        there = {split: found[split][: options.limit or None] for split in SPLITS if split in found}
        read = {
            split: questions for split, questions in there.items() if _has_answers(place, split, questions)
        }
        if not read:
            raise TaskError(f"{place}: no split has questions with answers; fetch the files again")
        most = max(len(q.options) for questions in read.values() for q in questions)
        few = next((q for questions in read.values() for q in questions if len(q.options) < most), None)
        if few is not None:
            raise TaskError(
                f"{few.where}: it has {len(few.options)} options, and others have {most}; every question needs as "
                "many; set task.part, or put the files of one data set into a folder"
            )
        return read

    def texts_of(self, example: Question) -> Iterable[str]:
        """The context, and the question with each option."""
        return (example.context, *_texts_asked(example))

    def data_of(self, tokenizer: Tokenizer, read: Mapping[str, Sequence[Question]]) -> ChoiceData:
        """All splits as ids; their relations are found at once."""
        fitting = {
            split: self._fitting_questions(tokenizer, split, questions) for split, questions in read.items()
        }
        found = relations_of(
            self.options,
            (text for questions in fitting.values() for q in questions for text in self.texts_of(q)),
        )
        splits = {split: self._questions(tokenizer, some, found) for split, some in fitting.items()}
        return TextData(tokenizer, splits)

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Question]) -> Questions:
        """The questions of one split as ids."""
        return self.data_of(tokenizer, {split: examples}).splits[split]

    def _fitting_questions(
        self, tokenizer: Tokenizer, split: str, questions: Sequence[Question]
    ) -> list[Question]:
        """The questions whose options all leave the context room; one in a hundred may not."""
        length = self.options.length

        def fits(question: Question) -> bool:
            try:
                rows = [
                    tokenizer.encode(".", text, length=length, shorten="middle")
                    for text in _texts_asked(question)
                ]
            except TaskError:
                return False
            return all(0 in row.sequence_ids for row in rows)

        room = list(map(fits, questions))
        if left_out := room.count(False):
            why = (
                f"{questions[room.index(False)].where}: question and option are never cut, and leave the context no "
                f"room within task.length = {length}"
            )
            if 100 * left_out > len(questions):
                raise TaskError(f"{why}; raise it")
            print_line(f"{why}; {left_out:,} of {len(questions):,} {split} questions are left out")
        return list(compress(questions, room))

    def _questions(
        self, tokenizer: Tokenizer, questions: Sequence[Question], found: Mapping[str, Any]
    ) -> Questions:
        options, rows = self.options, []
        for question in questions:
            row = []
            for second in _texts_asked(question):
                encoding = tokenizer.encode(question.context, second, length=options.length, shorten="middle")
                relations = [found[question.context], found[second]] if options.parsed else []
                row.append(row_of(encoding, relations, options.depth, options.relations))
            rows.append(row)
        return Questions(
            rows,
            np.array([question.answer for question in questions], np.int64),
            [question.types for question in questions],
            tokenizer.pad_id,
            sum(any(len(each.ids) == options.length for each in row) for row in rows),
        )

    def overrides(self, data: ChoiceData) -> Mapping[str, Any]:
        """The vocabulary, two token types, and a head for as many options."""
        choices = next(iter(data.splits.values())).choices
        return {
            **vocabulary_settings(data.tokenizer),
            "model.input.token_types": 2,
            "model.heads": [{"use": HEAD, "choices": choices}],
        }

    def check(self, model: Model, data: ChoiceData) -> None:
        """What the augmenter `logical` and the position `logic_relations` read must be there."""
        check_levels(model, self.options.depth)
        reads = {spec.name for spec in model.signature.inputs}
        if "logical_relations" in reads and not self.options.relations:
            raise TaskError(
                f"{model.spec.name!r} reads logical_relations, and task.relations is false; set task.relations = true"
            )

    def metrics(self, model: Model, data: ChoiceData, split: str) -> Mapping[str, float]:
        """Accuracy, and that of each type of questions, `accuracy/TYPE`, where the files tell types."""
        right = self.right(model, data, split)
        types = self.part(data, split).types
        found = {"accuracy": float(right.mean())}
        for name in sorted({name for each in types for name in each}):
            found[f"accuracy/{name}"] = float(right[[name in each for each in types]].mean())
        return found

    def right(self, model: Model, data: ChoiceData, split: str) -> NDArray[np.bool_]:
        """Whether a model answers each question of a split rightly."""
        part = self.part(data, split)
        given = np.zeros_like(part.answers)
        for rows, _, outputs in self.evaluate_batches(model, data, split):
            scores = outputs[f"{HEAD}_logits"].view(len(rows), part.choices)
            given[rows] = scores.argmax(1).cpu().numpy()
        return given == part.answers

    def assets(self, data: ChoiceData) -> Mapping[str, bytes]:
        """The tokenizer, and how texts are read."""
        return assets_of(data.tokenizer, self.options)


def first_questions(data: ChoiceData, split: str, count: int) -> ChoiceData:
    """The first questions of a split, and no other split."""
    found = data.splits[split]
    few = evolve(found, rows=found.rows[:count], answers=found.answers[:count], types=found.types[:count])
    return evolve(data, splits={split: few})


def with_ids(data: ChoiceData, split: str, seed: int | None) -> ChoiceData:
    """A split with `logical_ids` and `logical_relations` that are not of its texts, and no other split.

    Args:
        data: the questions.
        split: which of them.
        seed: of a drawn order of the questions, each of which gets the ids of another, cut or filled to its length;
            None for ids that tell of no relation.
    """
    found = data.splits[split]
    order = None if seed is None else np.random.default_rng(seed).permutation(len(found.rows))

    def fit(ids: NDArray[np.int8], size: int) -> NDArray[np.int8]:
        return np.pad(ids, ((0, 0), (0, size)))[:, :size] * (order is not None)

    def with_ids_of(row: TextRow, other: TextRow) -> TextRow:
        relations = None if other.relations is None else fit(other.relations, len(row.ids))
        return row._replace(levels=fit(other.levels, len(row.ids)), relations=relations)

    places = range(len(found.rows)) if order is None else order
    rows = [
        [with_ids_of(*both) for both in zip(row, found.rows[place], strict=True)]
        for row, place in zip(found.rows, places, strict=True)
    ]
    return evolve(data, splits={split: evolve(found, rows=rows)})


def _texts_asked(question: Question) -> list[str]:
    """The second text of each row: the question and an option."""
    return [f"{question.text} {option}" for option in question.options]


def _has_answers(place: str, split: str, questions: Sequence[Question]) -> bool:
    """Whether the answers of a split are known; in ReClor those of the test split are not."""
    without = [question for question in questions if question.answer is None]
    if without and len(without) < len(questions):
        raise TaskError(f"{without[0].where}: it has no answer, and others of the {split} split have one")
    if without:
        print_line(f"{place}: the {split} split is left out; its answers are not published")
    return bool(questions) and not without
