"""The task `multiple_choice`: which of several options answers a question about a text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from attrs import evolve, field, frozen, validators
from numpy.typing import NDArray
from peirce.errors import TaskError, unknown
from peirce.extras import require
from peirce.model import Model, Task
from peirce_text import Tokenizer
from torch import Tensor

from peirce_logic.choices.questions import Question, read_folder, read_hub
from peirce_logic.detector import row_ids, row_relations, together
from peirce_logic.input_texts import kept
from peirce_logic.tasks import RelationOptions, check_levels, relations_of, say

HEAD = "multiple_choice"
SPLITS = ("train", "valid", "test")
POOL = 32
"""Batches that are sorted by length together, so that little is padded."""
Ints = NDArray[np.int64]


@frozen(kw_only=True)
class MultipleChoiceOptions(RelationOptions):
    """What is read, and how it is put to the model.

    Args:
        folder: holds the published files of ReClor, LogiQA, DREAM or LSAT, gzipped or not.
        dataset: in place of a folder, a data set of the library `datasets`, such as `tasksource/lsat-ar`.
        part: of a folder with several files of a split, those whose names have this beside the split, such as `ar`.
        tokenizer: a tokenizers JSON, a BERT vocab.txt, or a folder with one; when empty, WordPiece is trained on the
            training questions.
        vocabulary: how many entries it then has.
        length: the most tokens of context, question and an option; longer contexts lose their middle.
        batch_size: how many questions are in a batch; each is a row for every option.
        relations: whether there are `logical_relations` too, for a model with the position `logic_relations`.
    """

    folder: str = ""
    dataset: str = ""
    part: str = ""
    tokenizer: str = ""
    vocabulary: int = field(default=8000, validator=validators.ge(1))
    length: int = field(default=256, validator=validators.ge(8))
    batch_size: int = field(default=8, validator=validators.ge(1))
    relations: bool = False

    @property
    def parsed(self) -> bool:
        """Whether relations are found."""
        return self.depth > 0 or self.relations


class OptionRow(NamedTuple):
    """Context, question and one option.

    Args:
        ids: int32 [x].
        types: token types, int8 [x].
        levels: `logical_ids`, int8 [K, x].
        relations: `logical_relations`, int8 [relations, x]; none unless the task gives them.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int8]
    levels: NDArray[np.int8]
    relations: NDArray[np.int8]


@frozen(eq=False)
class Split:
    """The questions of a split.

    Args:
        rows: of each question, its options' rows.
        answers: which option is right, [questions].
        types: of each question.
    """

    rows: Sequence[Sequence[OptionRow]]
    answers: Ints
    types: Sequence[Sequence[str]]


@frozen(eq=False)
class ChoiceData:
    """The splits as ids; `choices` is how many options every question has."""

    tokenizer: Tokenizer
    choices: int
    splits: Mapping[str, Split]


class MultipleChoice(Task[MultipleChoiceOptions, ChoiceData]):
    """Which option answers a question about a text? Each option is a row, and the rows of a question compete."""

    name = "multiple_choice"
    source = "Logical Transformers (Wang et al., 2023), Section 5.1 and Table 2"
    Options = MultipleChoiceOptions

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """A few questions: who is it that the context tells of?"""
        who, does = ("dog", "cat", "cow"), ("sat", "ran", "slept", "ate")
        for name, count in (("train", 12), ("val", 6), ("test", 6)):
            rows = [
                {
                    "context": f"It was the {who[i % 3]} that {does[i % 4]}.",
                    "question": f"Who {does[i % 4]}?",
                    "answers": [f"The {each}." for each in who],
                    "label": i % 3,
                }
                for i in range(count)
            ]
            (folder / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
        return {"folder": str(folder), "vocabulary": 120, "length": 40, "batch_size": 4}

    def prepare(self) -> ChoiceData:
        """Read the files, and encode every question with each of its options."""
        options = self.options
        require("the task multiple_choice", "tokenizers", extra="text")
        if bool(options.folder) == bool(options.dataset):
            raise TaskError(
                "multiple_choice needs either task.folder or task.dataset: the folder of the published files, such as "
                "--set folder=data, or a data set of the hub, such as --set dataset=tasksource/lsat-ar"
            )
        place = options.folder or options.dataset
        read = read_folder(Path(place), options.part) if options.folder else read_hub(place)
        read = {
            split: read[split] for split in SPLITS if split in read and _answered(place, split, read[split])
        }
        if not read:
            raise TaskError(f"{place}: no split has questions with answers; fetch the files again")
        counts = {len(q.options) for questions in read.values() for q in questions}
        if len(counts) > 1:
            few = next(q for questions in read.values() for q in questions if len(q.options) != max(counts))
            raise TaskError(
                f"{few.where}: it has {len(few.options)} options, and others have {max(counts)}; every question needs "
                "as many; set task.part, or put the files of one data set into a folder"
            )
        tokenizer = self._tokenizer(read)
        read = {split: self._fitting(tokenizer, split, own) for split, own in read.items()}
        texts = (text for found in read.values() for q in found for text in (q.context, *_asked(q)))
        relations = relations_of(options, texts)
        splits = {split: self._encoded(tokenizer, read[split], relations) for split in read}
        (choices,) = counts
        say(", ".join(f"{len(read[split]):,} {split}" for split in read) + f" questions of {choices} options")
        for split, of in splits.items():
            if full := sum(any(len(ids) == options.length for ids, *_ in rows) for rows in of.rows):
                say(
                    f"{full:,} {split} questions fill task.length = {options.length}; contexts lose their middle"
                )
        return ChoiceData(tokenizer, choices, splits)

    def _tokenizer(self, read: Mapping[str, Sequence[Question]]) -> Tokenizer:
        if self.options.tokenizer:
            return Tokenizer.load(self.options.tokenizer)
        if "train" not in read:
            raise TaskError(
                "multiple_choice has no training questions to train a tokenizer on; set task.tokenizer to the one that "
                "the model was trained with"
            )
        texts = [text for q in read["train"] for text in (q.context, *_asked(q))]
        return Tokenizer.train(texts, vocabulary=self.options.vocabulary)

    def _fitting(self, tokenizer: Tokenizer, split: str, questions: list[Question]) -> list[Question]:
        """The questions whose options all leave the context room; one in a hundred may not."""

        def fits(question: Question) -> bool:
            try:
                rows = [
                    tokenizer.encode(".", asked, length=self.options.length, shorten="middle")
                    for asked in _asked(question)
                ]
            except TaskError:
                return False
            return all(0 in row.sequence for row in rows)

        fitting = [fits(question) for question in questions]
        left_out = [question for question, fit in zip(questions, fitting, strict=True) if not fit]
        if not left_out:
            return questions
        length = f"task.length = {self.options.length}"
        why = f"{left_out[0].where}: question and option are never cut, and leave the context no room within {length}"
        if 100 * len(left_out) > len(questions):
            raise TaskError(f"{why}; raise it")
        say(f"{why}; {len(left_out):,} such of {len(questions):,} {split} questions left out")
        return [question for question, fit in zip(questions, fitting, strict=True) if fit]

    def _encoded(
        self, tokenizer: Tokenizer, questions: Sequence[Question], relations: Mapping[str, Any]
    ) -> Split:
        options, rows = self.options, []
        for question in questions:
            row = []
            for asked in _asked(question):
                encoding = tokenizer.encode(question.context, asked, length=options.length, shorten="middle")
                of = [relations[question.context], relations[asked]] if options.parsed else []
                row.append(
                    OptionRow(
                        ids=np.array(encoding.ids, np.int32),
                        types=np.array(encoding.types, np.int8),
                        levels=row_ids(of, encoding, options.depth).astype(np.int8),
                        relations=row_relations(of if options.relations else [], encoding).astype(np.int8),
                    )
                )
            rows.append(row)
        answers = np.array([question.answer for question in questions], np.int64)
        return Split(rows, answers, [question.types for question in questions])

    def overrides(self, data: ChoiceData) -> Mapping[str, Any]:
        """The vocabulary, two token types, and a head for as many options."""
        return {
            "model.input.vocabulary": data.tokenizer.vocabulary,
            "model.input.pad_id": data.tokenizer.pad_id,
            "model.input.token_types": 2,
            "model.heads": [{"use": HEAD, "choices": data.choices}],
        }

    def check(self, model: Model, data: ChoiceData) -> None:
        """What the augmenter `logical` and the position `logic_relations` read must be there."""
        check_levels(model, self.options.depth)
        if (
            "logical_relations" in {spec.name for spec in model.signature.inputs}
            and not self.options.relations
        ):
            raise TaskError(
                f"{model.spec.name!r} reads logical_relations, and task.relations is false; set task.relations = true"
            )

    def batches(self, data: ChoiceData, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, each as long as its longest row; the rows of a question follow one another.

        Yields:
            input_ids, token_type_ids: int64 [b choices, x]; attention_mask: bool [b choices, x]; logical_ids: int64
            [b choices, K, x], where task.depth is K > 0; logical_relations: int64 [b choices, relations, x], where
            task.relations is true; labels: int64 [b].
        """
        for chosen in self._order(data, split, seed, epoch):
            yield self._batch(data, split, chosen)

    def _order(self, data: ChoiceData, split: str, seed: int, epoch: int) -> list[Ints]:
        """The questions of each batch: drawn for training, and of like length; from the shortest on otherwise."""
        lengths = np.array([max(len(row.ids) for row in rows) for rows in _of(data, split).rows])
        size, training = self.options.batch_size, split == "train"
        drawn = np.random.default_rng([seed, epoch])
        order = drawn.permutation(len(lengths)) if training else np.arange(len(lengths))
        pool = POOL * size if training else len(order)
        batches = []
        for begin in range(0, len(order), pool):
            together = order[begin : begin + pool]
            together = together[np.argsort(lengths[together], kind="stable")]
            batches += [together[start : start + size] for start in range(0, len(together), size)]
        return [batches[i] for i in drawn.permutation(len(batches))] if training else batches

    def _batch(self, data: ChoiceData, split: str, chosen: Ints) -> dict[str, Tensor]:
        found = _of(data, split)
        rows = [row for i in chosen for row in found.rows[i]]
        longest = max(len(row.ids) for row in rows)
        ids = np.full((len(rows), longest), data.tokenizer.pad_id, np.int64)
        types, real = np.zeros_like(ids), np.zeros(ids.shape, np.bool_)
        logical = np.zeros((len(rows), self.options.depth, longest), np.int64)
        for i, row in enumerate(rows):
            size = len(row.ids)
            ids[i, :size], types[i, :size], real[i, :size] = row.ids, row.types, True
            logical[i, :, :size] = row.levels
        arrays: dict[str, NDArray[Any]] = {"input_ids": ids, "token_type_ids": types, "attention_mask": real}
        if self.options.depth:
            arrays["logical_ids"] = logical
        if self.options.relations:
            arrays["logical_relations"] = together([row.relations for row in rows])
        arrays["labels"] = found.answers[chosen]
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The cross-entropy over the options of each question."""
        return model.loss(HEAD, _outputs(model, batch), batch["labels"])

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The questions of a batch."""
        return {"loss": len(batch["labels"])}

    def metrics(self, model: Model, data: ChoiceData, split: str) -> Mapping[str, float]:
        """Accuracy, and that of each type of questions, `accuracy/TYPE`, where the files tell types."""
        right = self.right(model, data, split)
        types = _of(data, split).types
        found = {"accuracy": float(right.mean())}
        for name in sorted({name for each in types for name in each}):
            found[f"accuracy/{name}"] = float(right[[name in each for each in types]].mean())
        return found

    def right(self, model: Model, data: ChoiceData, split: str) -> NDArray[np.bool_]:
        """Whether a model answers each question of a split rightly."""
        device, training = next(model.parameters()).device, model.training
        answers = _of(data, split).answers
        given = np.zeros_like(answers)
        model.eval()
        try:
            with torch.inference_mode():
                for chosen in self._order(data, split, 0, 0):
                    batch = {name: each.to(device) for name, each in self._batch(data, split, chosen).items()}
                    scores = _outputs(model, batch)[f"{HEAD}_logits"].view(len(chosen), data.choices)
                    given[chosen] = scores.argmax(1).cpu().numpy()
        finally:
            model.train(training)
        return given == answers

    def assets(self, data: ChoiceData) -> Mapping[str, bytes]:
        """The tokenizer, and how texts are read."""
        return kept(data.tokenizer, self.options)


def first_questions(data: ChoiceData, split: str, count: int) -> ChoiceData:
    """The first questions of a split, and no other split."""
    found = _of(data, split)
    few = Split(found.rows[:count], found.answers[:count], found.types[:count])
    return evolve(data, splits={split: few})


def with_ids(data: ChoiceData, split: str, seed: int | None) -> ChoiceData:
    """A split with `logical_ids` and `logical_relations` that are not of its texts, and no other split.

    Args:
        data: the questions.
        split: which of them.
        seed: of a drawn order of the questions, each of which gets the ids of another, cut or filled to its length;
            None for ids that tell of no relation.
    """
    found = _of(data, split)
    order = None if seed is None else np.random.default_rng(seed).permutation(len(found.rows))

    def others(number: int, option: int, own: OptionRow) -> OptionRow:
        size = len(own.ids)
        if order is None:
            return own._replace(levels=np.zeros_like(own.levels), relations=np.zeros_like(own.relations))
        given = found.rows[order[number]][option]
        levels, relations = (
            np.pad(each, ((0, 0), (0, max(0, size - each.shape[1]))))[:, :size]
            for each in (given.levels, given.relations)
        )
        return own._replace(levels=levels, relations=relations)

    rows = [
        [others(number, option, own) for option, own in enumerate(row)]
        for number, row in enumerate(found.rows)
    ]
    return evolve(data, splits={split: Split(rows, found.answers, found.types)})


def _asked(question: Question) -> list[str]:
    """The second text of each row: the question and an option."""
    return [f"{question.text} {option}" for option in question.options]


def _answered(place: str, split: str, questions: Sequence[Question]) -> bool:
    """Whether the answers of a split are known; in ReClor those of the test split are not."""
    without = [question for question in questions if question.answer is None]
    if without and len(without) < len(questions):
        raise TaskError(f"{without[0].where}: it has no answer, and others of the {split} split have one")
    if without:
        say(f"{place}: the {split} split is left out; its answers are not published")
    return bool(questions) and not without


def _of(data: ChoiceData, split: str) -> Split:
    if split in data.splits:
        return data.splits[split]
    if split in SPLITS:
        raise TaskError(f"there is no {split} split with answers; there is {' and '.join(data.splits)}")
    raise TaskError(unknown("split", split, SPLITS))


def _outputs(model: Model, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    given = {spec.name: batch[spec.name] for spec in model.signature.inputs if spec.name in batch}
    for spec in model.signature.inputs:
        if spec.name == "token_type_ids" and spec.high == 1:  # as RoBERTa has them
            given[spec.name] = torch.zeros_like(batch[spec.name])
    return model(**given)
