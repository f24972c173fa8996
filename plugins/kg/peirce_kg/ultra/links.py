"""The task `links`: which tail, and which head, completes a triple, ranked on any graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor

from peirce.errors import TaskError, unknown
from peirce.model import Model, Task
from peirce.parts import one_of
from peirce.progress import progress_bars
from peirce_kg.evaluation import MAX_NUMBERS, TOP
from peirce_kg.ultra.answering import UltraQuery, fuzzy_head
from peirce_kg.ultra.relations import shared_heads
from peirce_queries import SPLITS, Graph, Index, Ints, Split, load_graph, progress_console, spans


@frozen(kw_only=True)
class LinksOptions:
    """What is asked, and how.

    Args:
        graph: a folder of train, valid and test files, a .nt or .tsv file, or a data set of pykeen by name.
        heads: for which relation the vectors of relations are made where a head is asked for: the triple's own, as
            `published`, or the `inverse` that is asked.
        batch_size: how many triples are asked at once in training, each in both directions.
    """

    graph: str = "umls"
    heads: Literal["published", "inverse"] = one_of("published", "inverse")
    batch_size: int = field(default=8, validator=validators.ge(1))


class Links(Task[LinksOptions, Graph]):
    """Links of a graph, each asked in both directions of a model of the architecture `ultra`, trained on it or not.

    The model is given the training triples alone. In training those of a batch are left out of the graph.
    """

    name = "links"
    source = "ULTRA (Galkin et al., 2023), Section 5; filtered ranks: Bordes et al. (2013)"
    Options = LinksOptions

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """A ring with shortcuts."""
        for number, split in enumerate(SPLITS):
            rows = [
                f"n{head}\t{relation}\tn{(head + step) % 12}\n"
                for head in range(12)
                for relation, step in (("next", 1), ("over", 5))
                if max(0, (head + step) % 6 - 3) == number
            ]
            (folder / f"{split}.tsv").write_text("".join(rows), encoding="utf-8")
        return {"graph": str(folder), "batch_size": 4}

    def reference(self, data: Graph, split: str) -> list[dict[str, Any]]:
        """Each triple of a split, asked for its tail and for its head; the answers are all of the graph so far."""
        known: list[tuple[int, int, int]] = []
        for name in SPLITS:
            added = [(int(h), int(r), int(t)) for h, r, t in data.added[name]]
            known += added
            if name == split:
                break
        found, inverse, published = [], data.relations, self.options.heads == "published"
        for h, r, t in added:
            for asked, entity in ((r, h), (r + inverse, t)):
                ends = [(a, b) if asked == r else (b, a) for a, relation, b in known if relation == r]
                answers = {answer for given, answer in ends if given == entity}
                found.append(
                    {"asked": asked, "condition": r if published else asked,
                     "sets": [float(e == entity) for e in range(data.entities)],
                     "labels": [float(e in answers) for e in range(data.entities)]}
                )  # fmt: skip
        return found

    def prepare(self) -> Graph:
        """Read the graph."""
        return load_graph(self.options.graph)

    def overrides(self, data: Graph) -> Mapping[str, Any]:
        """Nothing: a model knows no names."""
        return {}

    def check(self, model: Model, data: Graph) -> None:
        """Only a network that is given a graph answers on it."""
        fuzzy_head(model)

    def batches(self, data: Graph, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass, training triples in a drawn order, each asked for its tail and for its head.

        Yields:
            the inputs of `ultra`, and labels, float [b, entities]: 1 for what the graph of the split has.
        """
        triples, index = _triples(data, split), data.index("train")
        graph = np.stack(index.triples(), 1)
        order = np.arange(len(triples))
        if split == "train":
            order = np.random.default_rng([seed, epoch]).permutation(order)
        for start in range(0, len(order), self.options.batch_size):
            some = order[start : start + self.options.batch_size]
            kept = np.delete(graph, some, 0) if split == "train" else graph
            asked = self._questions(triples[some], data)
            labels = torch.zeros(len(asked.entity), data.entities)
            labels[known_answers(data.index(_split(split)), triples[some])] = 1
            yield {
                "triples": torch.from_numpy(kept),
                "shared_heads": torch.from_numpy(shared_heads(kept, data.entities, data.relations)),
                "sets": F.one_hot(torch.from_numpy(asked.entity), data.entities).float(),
                "asked": torch.from_numpy(asked.relation),
                "condition": torch.from_numpy(asked.condition),
                "labels": labels,
            }

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The head's loss."""
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        prefix = fuzzy_head(model)
        return model.loss(prefix, model(**inputs), batch["labels"])

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The questions of a batch."""
        return {"loss": len(batch["labels"])}

    def metrics(self, model: Model, data: Graph, split: str) -> Mapping[str, float]:
        """Filtered MRR and Hits@k, of both directions and of each."""
        triples, training, entities = _triples(data, split), model.training, data.entities
        ranks = []
        try:
            scorer = UltraQuery(model, data.index("train"))
            step = max(1, MAX_NUMBERS // (2 * entities))
            with progress_bars(progress_console()) as progress:
                bar = progress.add_task("ranking", total=2 * len(triples), shown="")
                for start in range(0, len(triples), step):
                    rows = triples[start : start + step]
                    asked = self._questions(rows, data)
                    sets = F.one_hot(torch.from_numpy(asked.entity), entities)
                    scores = scorer.scores(
                        sets, asked.relation, asked.condition, lambda: progress.advance(bar)
                    ).cpu()
                    right = scores.gather(1, torch.from_numpy(asked.answer).unsqueeze(1))
                    scores[known_answers(data.index("test"), rows)] = -torch.inf
                    ranks.append(1 + (scores >= right).sum(1).view(2, -1).numpy())
        finally:
            model.train(training)
        found = np.concatenate(ranks, 1)
        hits = {f"hits@{k}": float((found <= k).mean()) for k in TOP}
        of_each = {
            f"mrr/{end}": float((1 / ranks).mean())
            for end, ranks in zip(("tail", "head"), found, strict=True)
        }
        return {"mrr": float((1 / found).mean()), **hits, **of_each}

    def remarks(self, model: Model, data: Graph, split: str) -> tuple[str, ...]:
        """How answers are ranked."""
        return (
            "Both directions; the model is given the training triples; other answers in any split take no part in a "
            "ranking; ties count against the answer.",
        )

    def assets(self, data: Graph) -> Mapping[str, bytes]:
        """Nothing: a model goes with any graph."""
        return {}

    def _questions(self, triples: Ints, data: Graph) -> _Questions:
        head, relation, tail = triples.T
        asked = np.concatenate([relation, relation + data.relations])
        condition = np.tile(relation, 2) if self.options.heads == "published" else asked
        return _Questions(np.concatenate([head, tail]), asked, condition, np.concatenate([tail, head]))


class _Questions(NamedTuple):
    """For n triples, n questions for tails and then n for heads: int64 [2n] each."""

    entity: Ints
    relation: Ints
    condition: Ints
    answer: Ints


def known_answers(index: Index, triples: Ints) -> tuple[Tensor, Tensor]:
    """The questions that triples [n, 3] are asked by, those for tails first, with all their answers on a graph."""
    rows, found = [], []
    for number, (end, heads) in enumerate(((triples[:, 0], True), (triples[:, 2], False))):
        start, counts = index.edges(index.groups(triples[:, 1], end, heads=heads), heads=heads)
        rows.append(np.repeat(np.arange(len(triples)), counts) + number * len(triples))
        found.append(index.others(spans(start, counts), heads=heads))
    return torch.from_numpy(np.concatenate(rows)), torch.from_numpy(np.concatenate(found))


def _triples(data: Graph, split: str) -> Ints:
    """What a split adds, int64 [n, 3]; a `TaskError` where that is nothing."""
    added = data.added[_split(split)].astype(np.int64)
    if not len(added):
        raise TaskError(f"the graph {data.name!r} has no {split} triples of its own to ask for")
    return added


def _split(name: str) -> Split:
    if name not in SPLITS:
        raise TaskError(unknown("split", name, SPLITS))
    return name
