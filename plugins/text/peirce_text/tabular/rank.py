"""The task `rank`: texts of a table, each with a score for a query, in pairs or in lists."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from peirce.algebra import at_least_float32
from peirce.errors import TaskError
from peirce.model import Model, PlainRows
from peirce_text.plain import plain_ids, plain_mean
from peirce_text.reading import Example, Row
from peirce_text.samples import WHO, sentence, write_tables
from peirce_text.tabular.columns import column, number_in, usual_column
from peirce_text.tabular.lists import split_lists
from peirce_text.tabular.regress import NumberTable
from peirce_text.tabular.scores import Ranking
from peirce_text.tabular.texts import TextTableOptions
from peirce_text.tasks import TRAIN, TextClassData, outputs_of
from peirce_text.text.encoding import EncodedTexts, Ints
from peirce_text.text.tokenizer import Tokenizer


@frozen(kw_only=True)
class RankOptions(TextTableOptions):
    """What is read.

    Args:
        text: the column of the query; if empty, the one that is called so, or `question` or `search`.
        pair: the column of the text that is ranked, or of the list of them; if empty, the one called `document`,
            `passage`, `text` or the like.
        label: the column of its score for the query, the higher the better, or of the list of them; if empty, the one
            called `score`, `relevance`, `label` or the like.
        batch_size: how many texts are in a batch; those of one query are together, if they are not more.
    """


class Rank(NumberTable[RankOptions]):
    """Which of several texts answers a query best? Learned from scores, by the order of the texts of each query."""

    name = "rank"
    source = (
        "RankNet (Burges et al., 2005), Equation 3; monoBERT (Nogueira et al., 2019), Section 3.1, for pairs"
    )
    Options = RankOptions
    example_options: ClassVar[Mapping[str, Any]] = {"length": 24, "batch_size": 6}
    role = "score"
    streams = False
    repair = (
        "give every row a query, a text and a score, or name their columns with task.text, .pair and .label"
    )

    @classmethod
    def example_rows(cls) -> list[dict[str, Any]]:
        """Names of animals, and sentences that are about them or not."""
        texts = [[sentence(i), sentence(i + 1)] for i in range(24)]
        return [
            {"query": f"{WHO[i % 4]} {i}", "documents": two, "scores": [1, 0]} for i, two in enumerate(texts)
        ]

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """Queries with several texts, more than a batch has, of equal scores, and with a single text."""
        rows = [
            {"query": f"{WHO[i % 4]} {i}", "documents": [sentence(i + j) for j in range(1 + i % 8)],
             "scores": [(i + 2 * j) % (2 + i % 2) for j in range(1 + i % 8)]} for i in range(20)
        ]  # fmt: skip
        return [{"data": write_tables(folder, lists=rows)["lists"], "test_data": ""}]

    def reference(self, data: TextClassData, split: str) -> list[dict[str, Any]]:
        """Each query with each of its texts, their score, and the number of the query."""
        return [
            {**plain_ids(data.tokenizer, row["query"], text, length=self.options.length), "labels": float(score),
             "queries": number}
            for number, row in enumerate(self.plain_rows(split))
            for text, score in zip(row["documents"], row["scores"], strict=True)
        ]  # fmt: skip

    def reference_settings(self, data: TextClassData) -> Mapping[str, Any]:
        """Two token types, and a head for a number."""
        head = {"use": "classification", "classes": 1, "problem": "regression"}
        return {**super().reference_settings(data), "model.input.token_types": 2, "model.heads": [head]}

    def reference_loss(self, rows: PlainRows, outputs: PlainRows) -> float:
        """The mean of -ln of the probability of the right order, over pairs of texts of a query."""
        every = [
            (row["queries"], row["labels"], s[0])
            for row, s in zip(rows, self.plain_scores(outputs), strict=True)
        ]
        losses = [
            math.log1p(math.exp(-abs(low - high))) + max(0.0, low - high)
            for query, score, high in every for other, less, low in every if query == other and less < score
        ]  # fmt: skip
        return plain_mean(losses or [0.0])

    def reference_metrics(
        self, data: TextClassData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """The discounted gain of the first ten over the best one, and one over the place of the first best text."""
        scores, gains, places = [each[0] for each in self.plain_scores(outputs)], [], []
        for query in {row["queries"] for row in rows}:
            own = [
                (-s, row["labels"]) for s, row in zip(scores, rows, strict=True) if row["queries"] == query
            ]
            ranked = [label for _, label in sorted(own)]
            if len(set(ranked)) > 1:
                best, found = (
                    sum(label / math.log2(place + 2) for place, label in enumerate(labels[:10]))
                    for labels in (sorted(ranked, reverse=True), ranked)
                )
                gains.append(found / best)
                places.append(1 / (1 + ranked.index(max(ranked))))
        return {"ndcg_10": plain_mean(gains or [0.0]), "mrr": plain_mean(places or [0.0])}

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """A query, a document and a score."""
        return all(usual_column(row, role) for role in ("query", "document", cls.role))

    def text_columns(self, first: Row) -> tuple[str, ...]:
        """The columns of the query and of what is ranked."""
        options = self.options
        return (
            column(first, "query", options.text, "--set text=COLUMN"),
            column(first, "document", options.pair, "--set pair=COLUMN"),
        )

    def rows(self) -> Mapping[str, Iterator[Row]]:
        """The rows of each split, one for each text of a list."""
        found = super().rows()
        return {
            split: split_lists(rows, self.columns["pair"], self.columns["label"])
            for split, rows in found.items()
        }

    def number_of(self, value: Any, where: str) -> float:
        """The score."""
        if (number := number_in(value)) is None or number < 0:
            raise TaskError(f"{where} holds {value!r:.60}, and must hold a score, a number from 0 on")
        return number

    def learn(self, examples: Sequence[Example], where: str) -> str:
        """How many queries there are, some of whose texts must differ in their scores."""
        scores: dict[str, set[float]] = {}
        for each in examples:
            scores.setdefault(each.texts[0], set()).add(each.note)
        told = sum(len(each) > 1 for each in scores.values())
        if examples and not told:
            raise TaskError(
                f"{where} has one score for all texts of each query, which leaves nothing to rank; give each query "
                "several texts with different scores, such as 1 for those that answer it and 0 for others"
            )
        return f"{len(scores):,} queries, {told:,} of them with texts of different scores"

    def split_off(
        self, read: Mapping[str, Sequence[Example]], classes: NDArray[Any] | None = None
    ) -> dict[str, Sequence[Example]]:
        """Splits that have all texts of a query."""
        lists: dict[str, list[list[Example]]] = {}
        for split, examples in read.items():
            by_query: dict[str, list[Example]] = {}
            for each in examples:
                by_query.setdefault(each.texts[0], []).append(each)
            lists[split] = list(by_query.values())
        found: Mapping[str, Any] = super().split_off(lists)  # type: ignore[arg-type]
        return {split: [each for queries in some for each in queries] for split, some in found.items()}

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Example]) -> EncodedTexts:
        """Pairs of query and text with their scores, and the number of the query, int64 [n], which rises."""
        numbers: dict[str, int] = {}
        queries = np.array([numbers.setdefault(each.texts[0], len(numbers)) for each in examples], np.int64)
        encoded = super().encode(tokenizer, split, examples)
        return evolve(encoded, columns={**encoded.columns, "queries": queries})

    def batches(
        self, data: TextClassData, split: str, seed: int, epoch: int
    ) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, texts of a query together."""
        part = self.part(data, split)
        rng = np.random.default_rng([seed, epoch]) if split == TRAIN else None
        for rows in list_batches(part.columns["queries"], self.options.batch_size, rng):
            yield self.batch(data, split, rows, rng)

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """Of each two texts of a query, the -ln of the probability that the better one stands before the other."""
        scores = at_least_float32(outputs_of(model, batch)[f"{self.head}_logits"][:, 0])
        better = _better(batch)
        losses = F.softplus(scores[None] - scores[:, None]).masked_fill(~better, 0.0)
        return losses.sum() / better.sum().clamp_min(1)

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The pairs of a batch whose order is known."""
        return {"loss": int(_better(batch).sum())}

    def measure(self, model: Model, data: TextClassData, split: str) -> Ranking:
        """How well the texts of each query of a split are ranked."""
        part = self.part(data, split)
        right = part.labels.astype(np.float64)
        return Ranking(part.columns["queries"], right, self.predict(model, data, split))


def _better(batch: Mapping[str, Tensor]) -> Tensor:
    """bool [b, b]: whether one text has a higher score than another of its query."""
    queries, scores = batch["queries"], batch["labels"]
    return (queries[:, None] == queries) & (scores[:, None] > scores)


def list_batches(queries: Ints, size: int, rng: np.random.Generator | None) -> list[Ints]:
    """The rows of each batch, those of a query in one, if they are not more than a batch has.

    Args:
        queries: int64 [n], the query of each row, which rises.
        size: the most rows of a batch.
        rng: what draws the order of the queries; None leaves them as they stand.
    """
    lists = np.split(np.arange(len(queries)), np.flatnonzero(np.diff(queries)) + 1)
    order = range(len(lists)) if rng is None else rng.permutation(len(lists))
    batches: list[list[Ints]] = [[]]
    left = size
    for number in order:
        for start in range(0, len(lists[number]), size):
            rows = lists[number][start : start + size]
            if len(rows) > left:
                batches.append([])
                left = size
            batches[-1].append(rows)
            left -= len(rows)
    return [np.concatenate(each) for each in batches]
