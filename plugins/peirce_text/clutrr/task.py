"""The task `clutrr`: name the relation of two people that a story of k facts implies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from attrs import field, frozen, validators
from peirce.errors import TaskError
from peirce.model import Model
from peirce.parts import IGNORED
from peirce.training import one_of
from torch import Tensor

from peirce_text.clutrr.encoding import EncodedStory, Encoder, Ints
from peirce_text.clutrr.stories import Story, of_hops, read_folder, read_hub
from peirce_text.small import write_csv
from peirce_text.tasks import SPLITS, TextTask, evaluating, of_split, of_vocabulary, outputs_of, say
from peirce_text.text.rows import collate
from peirce_text.text.tokenizer import Tokenizer

RELATIONS = "relations.json"
POOL = 32
"""Batches that are sorted by length together, so that little is padded."""


@frozen(kw_only=True)
class ClutrrOptions:
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
        tokenizer: a tokenizers JSON, a BERT vocab.txt, or a folder with one; when empty, WordPiece is trained on the
            training stories.
        vocabulary: how many entries it then has.
        length: the most tokens of a story with its question; longer stories are cut at their end.
        batch_size: how many stories are in a batch.
    """

    folder: str = ""
    dataset: str = ""
    train_hops: tuple[int, ...] = (2, 3)
    test_hops: tuple[int, ...] = ()
    valid: float = field(default=0.05, validator=[validators.ge(0), validators.lt(1)])
    text: Literal["story", "clean_story", "facts"] = one_of("story", "clean_story", "facts")
    people: Literal["words", "tokens", "roles"] = one_of("words", "tokens", "roles")
    entities: int = field(default=20, validator=validators.ge(3))
    first: Literal["story", "query"] = one_of("story", "query")
    head: Literal["classification", "relation"] = one_of("classification", "relation")
    tokenizer: str = ""
    vocabulary: int = field(default=2000, validator=validators.ge(1))
    length: int = field(default=256, validator=validators.ge(8))
    batch_size: int = field(default=16, validator=validators.ge(1))


@frozen(eq=False)
class ClutrrSplit:
    """The stories of one split: as ids, with the numbers of their relations and of their facts."""

    rows: tuple[EncodedStory, ...]
    relations: Ints
    hops: Ints


@frozen(eq=False)
class ClutrrData:
    """What was read.

    Args:
        tokenizer: splits the text.
        encoder: turns stories into ids.
        relations: the names of the relations, by their numbers.
        splits: the stories.
    """

    tokenizer: Tokenizer
    encoder: Encoder
    relations: tuple[str, ...]
    splits: Mapping[str, ClutrrSplit]


class Clutrr(TextTask[ClutrrData]):
    """Kinship from stories: trained on few facts in a row, tested on more."""

    name = "clutrr"
    source = "FOLNet (Chen, 2023), Appendix C and Fig. 5; CLUTRR (Sinha et al., 2019)"
    Options = ClutrrOptions
    examples = ("data", "CLUTRR/v1:gen_train23_test2to10")

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Stories of two and three facts, whose relation is the last of them."""
        relations = ("son", "aunt")
        for name, hops in (("1.2,1.3_train", (2, 3)), ("1.2_test", (2,))):
            rows = []
            for i in range(16):
                number, people = hops[i % len(hops)], ("Ann", "Bob", "Cid", "Dee")
                kinds = [relations[(i + i // 4) % 2], *(["son"] * (number - 2)), relations[i // 2 % 2]]
                facts = [f"[{people[j + 1]}] is the {kind} of [{people[j]}]." for j, kind in enumerate(kinds)]
                row = {
                    "id": f"{name}-{i}", "story": " ".join(facts[::-1]), "clean_story": " ".join(facts),
                    "query": str((people[0], people[number])), "target": kinds[-1], "task_name": f"task_1.{number}",
                    "edge_types": str(kinds), "story_edges": str([(j, j + 1) for j in range(number)]),
                    "genders": "Ann:female,Bob:male,Cid:male,Dee:female",
                }  # fmt: skip
                rows.append(row)
            write_csv(folder / f"{name}.csv", rows)
        return {
            "folder": str(folder),
            "valid": 0.3,
            "vocabulary": 120,
            "length": 64,
            "batch_size": 4,
            "entities": 5,
        }

    def prepare(self) -> ClutrrData:
        """Read the files and encode every story."""
        options: ClutrrOptions = self.options
        self.check_source()
        if options.folder:
            read, test = (read_folder(Path(options.folder), kind, options.text) for kind in ("train", "test"))
        else:
            found = read_hub(options.dataset, options.text)
            read, test = found["train"], found["test"]
        read = of_hops(read, options.train_hops, "train_hops")
        if options.test_hops:
            test = of_hops(test, options.test_hops, "test_hops")
        splits = {
            "train": [story for story in read if story.share >= options.valid],
            "valid": [story for story in read if story.share < options.valid],
            "test": test,
        }
        tokenizer = self.tokenizer(self._texts(splits["train"]))
        encoder = Encoder(
            tokenizer=tokenizer,
            entities=0 if options.people == "words" else options.entities,
            roles=options.people == "roles",
            first=options.first,
            length=options.length,
        )
        relations = tuple(sorted({story.relation for story in (*read, *test)}))
        encoded = {name: self._encoded(encoder, relations, stories) for name, stories in splits.items()}
        _tell(splits, encoded, len(relations), options.length)
        return ClutrrData(tokenizer, encoder, relations, encoded)

    def _texts(self, stories: Sequence[Story]) -> Iterator[str]:
        """What a tokenizer is trained on."""
        for story in stories:
            for segment in story.segments:
                if isinstance(segment, str):
                    yield segment
                elif self.options.people == "words":
                    yield story.people[segment]

    def _encoded(self, encoder: Encoder, relations: Sequence[str], stories: Sequence[Story]) -> ClutrrSplit:
        for story in stories:
            if encoder.entities and len(story.people) > encoder.entities:
                raise TaskError(
                    f"{story.where}: {len(story.people)} people, and task.entities is {encoder.entities}; raise it"
                )
        number = {relation: i for i, relation in enumerate(relations)}
        return ClutrrSplit(
            rows=tuple(encoder.encode(story) for story in stories),
            relations=np.array([number[story.relation] for story in stories], dtype=np.int64),
            hops=np.array([story.hops for story in stories], dtype=np.int64),
        )

    def overrides(self, data: ClutrrData) -> Mapping[str, Any]:
        """The vocabulary's size, two token types, and the head with a class for each relation."""
        head: dict[str, Any] = {"use": self.options.head, "classes": len(data.relations)}
        if self.options.head == "classification":
            head["problem"] = "pair"
        return {
            **of_vocabulary(data.tokenizer),
            "model.input.vocabulary": data.encoder.vocabulary,
            "model.input.token_types": 2,
            "model.heads": [head],
        }

    def batches(self, data: ClutrrData, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass; stories of similar lengths stand together.

        Yields:
            input_ids, token_type_ids: int64 [b, x]; attention_mask: bool [b, x]; labels: int64 [b], the relation;
            query: int64 [b, 2], where the two people stand in the question.
        """
        for _, batch in self._numbered(data, split, seed, epoch):
            yield batch

    def _numbered(
        self, data: ClutrrData, split: str, seed: int, epoch: int
    ) -> Iterator[tuple[Ints, dict[str, Tensor]]]:
        """The batches, each with the places of its stories in the split."""
        part = of_split(data.splits, split)
        random = np.random.default_rng([seed, epoch, SPLITS.index(split)])
        training = split == "train"
        for chosen in _cut(part, self.options.batch_size, random if training else None):
            rows = [part.rows[i] for i in chosen]
            batch = collate(rows, data.tokenizer.pad_id)
            if data.encoder.entities:
                order = data.encoder.drawn(len(chosen), random if training else None)
                batch["input_ids"] = torch.from_numpy(data.encoder.named(batch["input_ids"].numpy(), order))
            batch["labels"] = torch.from_numpy(part.relations[chosen])
            yield chosen, {**batch, "query": torch.tensor([row.query for row in rows])}

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy of the relation."""
        head, outputs = self.options.head, outputs_of(model, batch)
        labels = batch["labels"]
        if head == "relation":
            size, length = batch["input_ids"].shape
            pairs = labels.new_full((size, length, length), IGNORED)
            pairs[torch.arange(size, device=labels.device), batch["query"][:, 0], batch["query"][:, 1]] = (
                labels
            )
            labels = pairs
        return model.loss(head, outputs, labels)

    def metrics(self, model: Model, data: ClutrrData, split: str) -> Mapping[str, float]:
        """The share of relations that are named right: of all stories, of each number of facts (`accuracy_4`), and
        the mean of these (`mean_accuracy`)."""
        right, hops = self.right(model, data, split)
        by_hops = {int(k): float(right[hops == k].mean()) for k in np.unique(hops)}
        return {
            "accuracy": float(right.mean()),
            "mean_accuracy": float(np.mean(list(by_hops.values()))),
            **{f"accuracy_{k}": value for k, value in by_hops.items()},
        }

    def right(self, model: Model, data: ClutrrData, split: str) -> tuple[Ints, Ints]:
        """For each story of a split, whether the relation is named right (1 or 0), and the number of facts."""
        part = of_split(data.splits, split)
        if not part.rows:
            raise TaskError(
                f"split {split!r} has no stories" + ("; raise task.valid" if split == "valid" else "")
            )
        right = np.zeros(len(part.rows), dtype=np.int64)
        with evaluating(model) as moved:
            for chosen, batch in self._numbered(data, split, 0, 0):
                found = self._scores(model, moved(batch)).argmax(-1).cpu().numpy()
                right[chosen] = found == part.relations[chosen]
        return right, part.hops

    def _scores(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """[b, relations]."""
        scores = outputs_of(model, batch)[f"{self.options.head}_logits"]
        if self.options.head == "relation":
            one, other = batch["query"].unbind(1)
            scores = scores[torch.arange(len(one), device=one.device), one, other]
        return scores

    def assets(self, data: ClutrrData) -> Mapping[str, bytes]:
        """The tokenizer, and the names of the relations."""
        names = json.dumps(data.relations, ensure_ascii=False, indent=1) + "\n"
        return {**super().assets(data), RELATIONS: names.encode()}


def _cut(part: ClutrrSplit, size: int, random: np.random.Generator | None) -> list[Ints]:
    """Which stories each batch has; from the shortest to the longest without a generator."""
    lengths = np.array([len(row.ids) for row in part.rows], dtype=np.int64)
    order = np.arange(len(lengths)) if random is None else random.permutation(len(lengths))
    pool = len(order) if random is None else POOL * size
    batches: list[Ints] = []
    for begin in range(0, len(order), max(1, pool)):
        together = order[begin : begin + pool]
        together = together[np.argsort(lengths[together], kind="stable")]
        batches += [together[start : start + size] for start in range(0, len(together), size)]
    return batches if random is None else [batches[i] for i in random.permutation(len(batches))]


def _tell(
    splits: Mapping[str, Sequence[Story]], encoded: Mapping[str, ClutrrSplit], relations: int, length: int
) -> None:
    """Say on standard error what was read."""
    counts = ", ".join(f"{len(stories):,} {name} stories" for name, stories in splits.items())
    say(f"{counts}, {relations} relations")
    for name, part in encoded.items():
        if cut := sum(1 for row in part.rows if row.cut):
            say(f"{cut:,} {name} stories are cut to {length} tokens; raise task.length")
