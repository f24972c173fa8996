"""The task `clutrr`: name the relation of two people that a story of k facts implies."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from attrs import evolve, field, frozen, validators
from torch import Tensor

from peirce.errors import TaskError
from peirce.model import Model, PlainRows
from peirce.parts import IGNORED, one_of
from peirce_text.clutrr.stories import Story, read_folder, read_story, select_hops
from peirce_text.plain import plain_accuracy, plain_table
from peirce_text.reading import Example, Row, read_splits
from peirce_text.samples import write_csv
from peirce_text.tasks import FolderOptions, TextClassData, TextClasses, at_least, outputs_of
from peirce_text.text.encoding import EncodedTexts, Ints
from peirce_text.text.tokenizer import Tokenizer


@frozen(kw_only=True)
class ClutrrOptions(FolderOptions):
    """What is read, and how it is put to the model. The defaults are the paper's (Appendix C).

    Args:
        folder: holds the published files, such as `1.2,1.3_train.csv` and `1.2_test.csv`, gzipped or not.
        dataset: in place of a folder, a data set of the library `datasets`, with its configuration after a colon,
            such as `CLUTRR/v1:gen_train23_test2to10`; its own validation split is left alone.
        train_hops: the numbers of facts of the stories to train on.
        test_hops: those of the stories to test on; all that the folder has when empty.
        valid: the share of the training stories that is kept for validation, chosen by their content alone.
        text: the column with the story: `story`, its sentences in any order, or `clean_story`, in order; or `facts`,
            the relations of the story's graph in plain words, in any order, which leaves only the reasoning to learn.
        people: `words` writes names as they are; `tokens` gives each person of a story a token of their own, drawn
            anew in each epoch; `roles` does so too, but the two people asked for always have the first two tokens.
        entities: how many such tokens there are.
        first: whether the story or the two people asked for come first.
        head: `classification` of the pooled output, or the `relation` between the two people's tokens.
        length: the most tokens of a story with its question; longer stories are cut at their end.
    """

    train_hops: tuple[int, ...] = (2, 3)
    test_hops: tuple[int, ...] = ()
    valid: float = field(default=0.05, validator=[validators.ge(0), validators.lt(1)])
    text: Literal["story", "clean_story", "facts"] = one_of("story", "clean_story", "facts")
    people: Literal["words", "tokens", "roles"] = one_of("words", "tokens", "roles")
    entities: int = at_least(3, 20)
    first: Literal["story", "query"] = one_of("story", "query")
    head: Literal["classification", "relation"] = one_of("classification", "relation")
    vocabulary: int = at_least(0, 2000)
    length: int = at_least(8, 256)
    batch_size: int = at_least(1, 16)


class EncodedStory(NamedTuple):
    """One story as ids.

    Args:
        ids: int64 [x]; a person that has a token is the vocabulary's size plus a number, which `rename_people` changes.
        first: how many tokens the first part has, with its special ones.
        query: where the two people stand in the question, the first piece of each.
        cut: how many tokens of the story found no room.
    """

    ids: Ints
    first: int
    query: tuple[int, int]
    cut: int


@frozen(eq=False)
class Encoder:
    """Turns stories into ids: `[CLS] story [SEP] one other [SEP]`, or the two parts the other way round.

    Args:
        tokenizer: splits text into pieces.
        options: the task's.
    """

    tokenizer: Tokenizer
    options: ClutrrOptions
    _known: dict[str, list[int]] = field(factory=dict, init=False, repr=False)

    @property
    def entities(self) -> int:
        """How many tokens there are for people, beside the vocabulary; 0 where names are words."""
        return 0 if self.options.people == "words" else self.options.entities

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        return self.tokenizer.vocabulary + self.entities

    def encode(self, story: Story) -> EncodedStory:
        """The ids of one story."""
        text = [piece for segment in story.segments for piece in self._pieces(story, segment)]
        one, other = (self._pieces(story, place) for place in story.query)
        query = [*one, *other]
        room = max(0, self.options.length - len(query) - 3)
        cut, text = max(0, len(text) - room), text[:room]
        parts = (text, query) if self.options.first == "story" else (query, text)
        ids = [self.tokenizer.cls_id, *parts[0], self.tokenizer.sep_id, *parts[1], self.tokenizer.sep_id]
        begin = len(text) + 2 if self.options.first == "story" else 1
        return EncodedStory(np.array(ids, dtype=np.int64), len(parts[0]) + 2, (begin, begin + len(one)), cut)

    def rename_people(self, ids: Ints, order: Ints) -> Ints:
        """The ids with the people's tokens renamed.

        Args:
            ids: int64 [b, x], as `encode` gives them.
            order: int64 [b, entities], the token of each place, a permutation in each row.
        """
        place = ids - self.tokenizer.vocabulary
        tokens = np.take_along_axis(order, np.maximum(place, 0), axis=1)
        return np.where(place >= 0, self.tokenizer.vocabulary + tokens, ids)

    def draw_names(self, rows: int, rng: np.random.Generator) -> Ints:
        """[rows, entities], the tokens of each story's people, for `rename_people`."""
        order = np.tile(np.arange(self.entities), (rows, 1))
        fixed = 2 if self.options.people == "roles" else 0
        order[:, fixed:] = rng.permuted(order[:, fixed:], axis=1)
        return order

    def _token(self, story: Story, person: int) -> int:
        """The token of a person before it is drawn."""
        if self.options.people != "roles":
            return person
        endpoints = dict.fromkeys(story.query)
        return [*endpoints, *(other for other in range(len(story.people)) if other not in endpoints)].index(
            person
        )

    def _pieces(self, story: Story, segment: str | int) -> list[int]:
        if isinstance(segment, int):
            if self.entities:
                return [self.tokenizer.vocabulary + self._token(story, segment)]
            segment = story.people[segment]
        if segment not in self._known:
            self._known[segment] = self.tokenizer.pieces(segment)
        return self._known[segment]


class Clutrr(TextClasses[ClutrrOptions]):
    """Kinship from stories: trained on few facts in a row, tested on more."""

    name = "clutrr"
    source = "FOLNet (Chen, 2023), Appendix C and Fig. 5; CLUTRR (Sinha et al., 2019)"
    Options = ClutrrOptions
    nouns = "stories"
    examples = ("data", "CLUTRR/v1:gen_train23_test2to10")
    missing = "raise task.valid"
    pool = 32

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Stories of two and three facts, and of four in the test, whose relation is the last of them."""
        relations = ("son", "aunt")
        for name, hops in (("1.2,1.3_train", (2, 3)), ("1.4_test", (4,))):
            rows = []
            for i in range(18):  # more sons than aunts: a constant answer is not right as often as wrong
                number, people = hops[i % len(hops)], ("Ann", "Bob", "Cid", "Dee", "Eve")
                kinds = [relations[(i + i // 4) % 2], *(["son"] * (number - 2)), relations[i // 2 % 2]]
                facts = [f"[{people[j + 1]}] is the {kind} of [{people[j]}]." for j, kind in enumerate(kinds)]
                row = {
                    "id": f"{name}-{i}", "story": " ".join(facts[::-1]), "clean_story": " ".join(facts),
                    "query": str((people[0], people[number])), "target": kinds[-1], "task_name": f"task_1.{number}",
                    "edge_types": str(kinds), "story_edges": str([(j, j + 1) for j in range(number)]),
                    "genders": "Ann:female,Bob:male,Cid:male,Dee:female,Eve:female",
                }  # fmt: skip
                rows.append(row)
            write_csv(folder / f"{name}.csv", rows)
        given = {"valid": 0.3, "vocabulary": 120, "length": 64, "batch_size": 4, "entities": 5}
        return {"folder": str(folder), **given}

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """Stories that are cut, of one number of facts, with names as they are, and both heads."""
        return [
            {"people": "words", "length": 12, "test_hops": (4,), "train_hops": (3,), "valid": 0.5},
            {"people": "words", "first": "query", "head": "relation"},
            {"head": "relation"},
        ]

    def reference(self, data: TextClassData, split: str) -> list[dict[str, Any]] | None:
        """Stories and questions word by word, the people as words or as tokens by their places; of drawn names none."""
        options, tokenizer, people = self.options, data.tokenizer, ("Ann", "Bob", "Cid", "Dee", "Eve")
        if split != "test" and (split == "valid" or options.people != "words" or options.valid):
            return None
        found = []
        for row in plain_table(
            Path(options.folder) / f"{'1.4_test' if split == 'test' else '1.2,1.3_train'}.csv"
        ):
            kinds, query = literal_eval(row["edge_types"]), literal_eval(row["query"])
            if options.text == "facts" or (split == "train" and len(kinds) not in options.train_hops):
                return None
            named = list(dict.fromkeys(re.findall(r"\[(\w+)\]", row[options.text])))
            order = [*query, *(name for name in named if name not in query)]
            numbers = named if options.people == "tokens" else order

            def ids(text: str, numbers: Sequence[str] = numbers) -> list[int]:
                pieces = list[int]()
                for part in re.split(r"\[(\w+)\]", text) if "[" in text else ("", text, ""):
                    name = options.people != "words" and part in people
                    pieces += [tokenizer.vocabulary + numbers.index(part)] if name else tokenizer.pieces(part)
                return pieces

            one, other = (ids(name) for name in query)
            story = ids(row[options.text])[: options.length - len(one) - len(other) - 3]
            first, second = (story, one + other) if options.first == "story" else (one + other, story)
            begin = len(story) + 2 if options.first == "story" else 1
            found.append({
                "input_ids": [tokenizer.cls_id, *first, tokenizer.sep_id, *second, tokenizer.sep_id],
                "token_type_ids": [*[0] * (len(first) + 2), *[1] * (len(second) + 1)],
                "attention_mask": [True] * (len(first) + len(second) + 3),
                "labels": ("aunt", "son").index(row["target"]), "query": [begin, begin + len(one)],
            })  # fmt: skip
        return found

    def reference_settings(self, data: TextClassData) -> Mapping[str, Any]:
        """Tokens for people, two token types, and a head with the two relations."""
        people = 0 if self.options.people == "words" else self.options.entities
        problem = {"problem": "pair"} if self.options.head == "classification" else {}
        return {
            **super().reference_settings(data), "model.input.vocabulary": data.tokenizer.vocabulary + people,
            "model.input.token_types": 2, "model.heads": [{"use": self.options.head, "classes": 2, **problem}],
        }  # fmt: skip

    def plain_guesses(self, rows: PlainRows, outputs: PlainRows) -> list[tuple[int, Any]]:
        """The label of each story with the scores of its relations, or of those of the pair that is asked for."""
        guesses = super().plain_guesses(rows, outputs)
        if self.options.head == "classification":
            return guesses
        queries = [row["query"] for row in rows]
        return [(label, scores[x][y]) for (label, scores), (x, y) in zip(guesses, queries, strict=True)]

    def reference_metrics(
        self, data: TextClassData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """The share of relations that are named right, in the test of stories of four facts."""
        share = plain_accuracy(self.plain_guesses(rows, outputs))
        return {
            "accuracy": share,
            **({"accuracy_4": share, "mean_accuracy": share} if split == "test" else {}),
        }

    def __init__(self, options: ClutrrOptions) -> None:
        super().__init__(options)
        self.head = options.head

    def rows(self) -> Mapping[str, Iterable[Row]]:
        """The rows of the training files and of the test files."""
        options = self.options
        if not options.dataset:
            return read_folder(Path(options.folder))
        found = read_splits(options.dataset, ("train", "test"))
        return {split: found[split] for split in ("train", "test")}

    def example_of(self, row: Row, split: str) -> Example:
        """A story, which stands in `note`."""
        story = read_story(row, self.options.text)
        texts = [
            each if isinstance(each, str) else story.people[each]
            for each in story.segments
            if isinstance(each, str) or self.options.people == "words"
        ]
        return Example(tuple(texts), None, story)

    def read(self) -> dict[str, Sequence[Example]]:
        """The stories of the numbers of facts that are asked for; some of the training stories are for validation."""
        options, read = self.options, super().read()
        train = select_hops(read["train"], options.train_hops, "train_hops")
        test = (
            select_hops(read["test"], options.test_hops, "test_hops") if options.test_hops else read["test"]
        )
        for each in (*train, *test):
            if options.people != "words" and len(each.note.people) > options.entities:
                raise TaskError(
                    f"{each.note.where}: {len(each.note.people)} people, and task.entities is {options.entities}; "
                    "raise it"
                )
        valid = [each for each in train if each.note.share < options.valid]
        train = [each for each in train if each.note.share >= options.valid]
        return {"train": train, **({"valid": valid} if valid else {}), "test": test}

    def data_of(self, tokenizer: Tokenizer, read: Mapping[str, Sequence[Example]]) -> TextClassData:
        """All splits as ids; the classes are the relations."""
        relations = tuple(sorted({each.note.relation for stories in read.values() for each in stories}))
        splits = {}
        for split, stories in read.items():
            numbered = [evolve(each, label=relations.index(each.note.relation)) for each in stories]
            splits[split] = self.encode(tokenizer, split, numbered)
        return TextClassData(tokenizer, splits, relations)

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Example]) -> EncodedTexts:
        """Stories with their questions, the relations' numbers, and in `notes` the numbers of facts."""
        encoder = Encoder(tokenizer, self.options)
        ids, firsts, queries, cut = zip(*(encoder.encode(each.note) for each in examples), strict=True)
        texts = EncodedTexts.of(ids, firsts, tokenizer.pad_id, sum(count > 0 for count in cut))
        labels = np.array([each.label for each in examples], np.int64)
        hops = [each.note.hops for each in examples]
        return texts.labelled(labels, hops, query=np.array(queries))

    def overrides(self, data: TextClassData) -> Mapping[str, Any]:
        """The vocabulary with the people's tokens, two token types, and the head with a class for each relation."""
        head = {"use": self.head, "classes": len(data.classes)}
        if self.head == "classification":
            head["problem"] = "pair"
        vocabulary = Encoder(data.tokenizer, self.options).vocabulary
        return {**super().overrides(data), "model.input.vocabulary": vocabulary, "model.heads": [head]}

    def batch(
        self, data: TextClassData, split: str, rows: Ints, rng: np.random.Generator | None
    ) -> dict[str, Tensor]:
        """Some stories, with `query`, int64 [b, 2], where the two people stand in the question."""
        batch, encoder = super().batch(data, split, rows, rng), Encoder(data.tokenizer, self.options)
        if encoder.entities and rng is not None:
            named = encoder.rename_people(batch["input_ids"].numpy(), encoder.draw_names(len(rows), rng))
            batch["input_ids"] = torch.from_numpy(named)
        return batch

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy of the relation."""
        if self.head != "relation":
            return super().loss(model, batch)
        labels, (size, length) = batch["labels"], batch["input_ids"].shape
        pairs = labels.new_full((size, length, length), IGNORED)
        one, other = batch["query"].unbind(1)
        pairs[torch.arange(size, device=labels.device), one, other] = labels
        return model.loss(self.head, outputs_of(model, batch), pairs)

    def choose(self, batch: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> Tensor:
        """The relation, of the pair of people where the head scores pairs."""
        if self.head != "relation":
            return super().choose(batch, outputs)
        one, other = batch["query"].unbind(1)
        scores = outputs[f"{self.head}_logits"]
        return scores[torch.arange(len(one), device=one.device), one, other].argmax(-1)

    def metrics(self, model: Model, data: TextClassData, split: str) -> Mapping[str, float]:
        """The share of relations that are named right: of all stories, of each number of facts (`accuracy_4`), and
        the mean of these (`mean_accuracy`)."""
        right, hops = self.right(model, data, split), np.asarray(self.part(data, split).notes)
        by_hops = {int(k): float(right[hops == k].mean()) for k in np.unique(hops)}
        return {
            "accuracy": float(right.mean()),
            "mean_accuracy": float(np.mean(list(by_hops.values()))),
            **{f"accuracy_{k}": value for k, value in by_hops.items()},
        }
