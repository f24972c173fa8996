"""The task `relations`: a graph of labelled edges, a pair of nodes, and its relation as the answer."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from numpy.typing import NDArray
from torch import Tensor

from peirce.algebra import at_least_float32
from peirce.errors import TaskError
from peirce.model import Model, PlainRows, Task
from peirce.parts import IGNORED, one_of, plain_cross_entropy, plain_softmax
from peirce.spec import Spec
from peirce_relations.augmentation import add_inferred_pairs, compositions
from peirce_relations.calculi.algebra import rcc8
from peirce_relations.calculi.problems import Paths
from peirce_relations.encoding import LABELS, Relations
from peirce_relations.graphs import Problem, known_relations, most_nodes, read_graphs

HEAD, WHOLE = "relation", "classification"


@frozen(kw_only=True)
class RelationsOptions:
    """What is read, and what a node is to the model.

    Args:
        data: a folder of files, or a file, with the training problems: JSON lines, or CLUTRR's CSV files.
        test: a folder or file of test problems; those of `data` if empty.
        steps: the numbers K of the training problems that are taken; all of them when empty.
        valid: the share of the training problems that is kept for validation, chosen by their content alone.
        form: what a model reads: the `graph`, or its edges as a `text` of three tokens each, in an order that is drawn
            in every epoch, after the pair that is asked for; nodes then have names.
        nodes: `alike`, so that edges alone tell them apart; or `drawn`, a name for each, anew in every epoch.
        names: how many names of nodes there are, with `drawn`.
        converse: whether a pair also sees the edge that points back.
        hub: whether an edge from a node to itself, which says something of this node alone, leads to one more node, the
            hub of all such edges; what is known of two nodes then composes as other edges do. For graphs.
        also: the weight of the loss of further pairs, which training problems may have beside the one that is asked
            for; 0 leaves them out. For graphs.
        taught: whether training problems get as further pairs what follows from compositions that those of two edges
            show. For graphs.
        undecided: the weight of the loss of pairs that neither edges nor the answer nor further pairs decide, where
            there are further pairs. All relations are to be equally likely, so that nothing is composed without reason.
        batch_size: problems in a batch.
        alike: of so many batches the training problems are sorted by their nodes before they are divided, so that less
            is padded.
    """

    data: str = ""
    test: str = ""
    steps: tuple[int, ...] = ()
    valid: float = field(default=0.05, validator=[validators.ge(0), validators.lt(1)])
    form: Literal["graph", "text"] = one_of("graph", "text")
    nodes: Literal["alike", "drawn"] = one_of("alike", "drawn")
    names: int = field(default=64, validator=validators.ge(2))
    converse: bool = True
    hub: bool = False
    also: float = field(default=1.0, validator=validators.ge(0))
    taught: bool = False
    undecided: float = field(default=0.0, validator=validators.ge(0))
    batch_size: int = field(default=64, validator=validators.ge(1))
    alike: int = field(default=1, validator=validators.ge(1))


@frozen(eq=False)
class RelationsData:
    """The problems of each split, and the relations.

    Args:
        splits: `train`, `valid` and `test`.
        relations: of edges and answers.
    """

    splits: Mapping[str, Sequence[Problem]]
    relations: Relations

    def of(self, split: str) -> Sequence[Problem]:
        """The problems of a split.

        Raises:
            TaskError: there are none.
        """
        if not self.splits.get(split):
            has = ", ".join(name for name, problems in self.splits.items() if problems)
            raise TaskError(f"there are no problems of the split {split!r}; the files have those of {has}")
        return self.splits[split]


class RelationsTask(Task[RelationsOptions, RelationsData]):
    """The relation of two nodes that follows from labelled edges: trained on short paths, tested on longer ones."""

    name = "relations"
    source = (
        "CLUTRR (Sinha et al., 2019) as a graph; Khalid & Schockaert (2025) for RCC-8 and Allen's intervals"
    )
    Options = RelationsOptions

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """Problems of RCC-8 with two and three edges, and with four in the test."""
        paths, rng = Paths(rcc8(), 4), Random(0)
        for name, edges in (("train", (2, 3) * 12), ("test_k4_b1", (4,) * 8)):
            problems = [paths.make(each, 1, rng) for each in edges]
            (folder / f"{name}.jsonl").write_text("".join(map(Problem.line, problems)), encoding="utf-8")
        return {"data": str(folder), "valid": 0.2, "batch_size": 4}

    @classmethod
    def example_cases(cls, folder: Path) -> list[Mapping[str, Any]]:
        """Problems of two edges alone, of an own test file, with further pairs and a weight of undecided ones."""
        return [
            {"steps": (2,), "test": str(folder / "train.jsonl"), "valid": 0.0},
            {"taught": True, "undecided": 0.5, "also": 2.0, "converse": False},
        ]

    def reference(self, data: RelationsData, split: str) -> list[dict[str, Any]] | None:
        """Each graph as a matrix of relations, with the pair that is asked for and its relation."""
        options = self.options
        if options.form == "text" or options.nodes == "drawn":
            return None
        place = Path(options.test or Path(options.data) / "test_k4_b1.jsonl")
        train, test = (
            [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            for path in (Path(options.data) / "train.jsonl", place)
        )
        read, every = test if split == "test" else train, [*train, *test]
        if not options.taught and not options.steps:
            known = sorted({name for each in every for name in (*each["labels"], each["answer"])})
        else:
            known = list(data.relations.names)
        inferred = {(p.edges, p.labels, p.query): p.also for p in data.splits["train"]}
        found = []
        for each in read:
            edges = tuple(map(tuple, each["edges"]))
            key = edges, tuple(each["labels"]), tuple(each["query"])
            share = zlib.crc32(repr(key).encode()) % 10_000 / 10_000
            aside = (share < options.valid) != (split == "valid") or bool(
                options.steps and each["k"] not in options.steps
            )
            if split != "test" and aside:
                continue
            if options.hub:
                hub = 1 + max(map(max, edges))
                edges = tuple((x, hub) if x == y else (x, y) for x, y in edges)
            size = 1 + max(max(map(max, edges)), options.hub and hub)
            matrix = [[len(known)] * size for _ in range(size)]
            for (x, y), name in zip(edges, each["labels"], strict=True):
                matrix[x][y] = known.index(name)
            row = {"edge_ids": matrix, "attention_mask": [True] * size, "query": each["query"]}
            found.append({**row, "labels": known.index(each["answer"])})
            if split == "train" and options.also and any(inferred.values()):
                also = [[IGNORED] * size for _ in range(size)]
                for x, y, name in inferred[key]:
                    also[x][y] = known.index(name)
                found[-1]["also"] = also
        return found or None

    def reference_settings(self, data: RelationsData) -> Mapping[str, Any]:
        """What reads edges, and the head, with the relations of the calculus that occur."""
        options, count = self.options, len(data.relations.names)
        if options.form == "text":
            return {
                "model.input.vocabulary": data.relations.words,
                "model.heads": [{"use": "classification", "classes": count}],
            }
        return {
            "model.input.vocabulary": options.names if options.nodes == "drawn" else 1,
            "model.positions": [{"use": "edges", "relations": count, "converse": options.converse}],
            "model.heads": [{"use": "relation", "classes": count, "hidden": True}],
        }

    def reference_loss(self, rows: PlainRows, outputs: PlainRows) -> float:
        """The cross-entropy of the answer, and each problem's mean ones of further and of undecided pairs."""
        scores = [each["relation_logits"] for each in outputs]
        asked = [s[row["query"][0]][row["query"][1]] for s, row in zip(scores, rows, strict=True)]
        loss = plain_cross_entropy(asked, [row["labels"] for row in rows])
        for row, each in zip(rows, scores, strict=True) if "also" in rows[0] else ():
            nodes = range(len(each))
            further = [
                plain_cross_entropy([each[x][y]], [row["also"][x][y]])
                for x in nodes for y in nodes if row["also"][x][y] >= 0
            ]  # fmt: skip
            open_pairs = [
                -sum(map(math.log, plain_softmax(each[x][y]))) / len(each[x][y]) - math.log(len(each[x][y]))
                for x in nodes for y in nodes
                if x != y and [x, y] != row["query"] and row["also"][x][y] < 0
                and row["edge_ids"][x][y] == len(each[x][y])
            ]  # fmt: skip
            loss += self.options.also * sum(further) / max(1, len(further)) / len(rows)
            loss += self.options.undecided * sum(open_pairs) / max(1, len(open_pairs)) / len(rows)
        return loss

    def reference_metrics(
        self, data: RelationsData, split: str, rows: PlainRows, outputs: PlainRows
    ) -> Mapping[str, float]:
        """The share of right answers: of all, and of those with as many edges."""
        by_size: dict[str, list[bool]] = {}
        for row, each in zip(rows, outputs, strict=True):
            scores = each["relation_logits"][row["query"][0]][row["query"][1]]
            edges = sum(name < len(scores) for some in row["edge_ids"] for name in some)
            for name in ("accuracy", f"accuracy/k{edges}_b1"):
                by_size.setdefault(name, []).append(scores.index(max(scores)) == row["labels"])
        return {name: sum(some) / len(some) for name, some in by_size.items()}

    def prepare(self) -> RelationsData:
        """Read the files; some of the training problems are for validation."""
        options = self.options
        if not options.data:
            raise TaskError(
                "relations needs task.data: a folder or a file of problems, such as --set data=problems"
            )
        read = read_graphs(Path(options.data))
        test = [*read_graphs(Path(options.test)).values()] if options.test else [read["test"]]
        train = read["train"]
        if options.steps:
            train = [each for each in train if each.steps in options.steps]
            if not train:
                raise TaskError(
                    f"task.steps: no training problem has {' or '.join(map(str, options.steps))} steps"
                )
        splits = {
            "train": [each for each in train if each.share >= options.valid],
            "valid": [each for each in train if each.share < options.valid],
            "test": [each for problems in test for each in problems],
        }
        if options.taught:
            composed = compositions(splits["train"])
            splits["train"] = [add_inferred_pairs(each, composed) for each in splits["train"]]
        every = [each for problems in splits.values() for each in problems]
        kinds = options.names if options.form == "text" or options.nodes == "drawn" else 1
        if kinds > 1 and most_nodes(every) > kinds:
            raise TaskError(f"a graph has {most_nodes(every)} nodes, and task.names is {kinds}; raise it")
        return RelationsData(splits, Relations(known_relations(every), kinds))

    def overrides(self, data: RelationsData) -> Mapping[str, Any]:
        """The kinds of nodes, the position that reads edges, and the head with a class for each relation."""
        count = len(data.relations.names)
        if self.options.form == "text":
            heads = [{"use": WHOLE, "classes": count}]
            return {"model.input.vocabulary": data.relations.words, "model.heads": heads}
        return {
            "model.input.vocabulary": data.relations.kinds,
            "model.positions": [{"use": "edges", "relations": count, "converse": self.options.converse}],
            "model.heads": [{"use": HEAD, "classes": count, "hidden": True}],
        }

    def overrides_for(self, spec: Spec, data: RelationsData) -> Mapping[str, Any]:
        """What the data determine, and how the spec's own position and head read facets."""
        found = dict(self.overrides(data))
        if self.options.form == "graph":
            for place, parts, name in (
                ("positions", spec.positions, "blank"),
                ("heads", spec.heads, "facets"),
            ):
                kept = next((part.options[name] for part in parts if name in part.options), None)
                found |= {} if kept is None else {f"model.{place}.0.{name}": kept}
        return found

    def check(self, model: Model, data: RelationsData) -> None:
        """Every problem has an answer."""
        for problems in data.splits.values():
            data.relations.answers(problems)

    def batches(
        self, data: RelationsData, split: str, seed: int, epoch: int
    ) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass; the training problems in a drawn order, their nodes named anew.

        Yields:
            what `Relations.arrays` gives and query, int64 [b, 2], or what `Relations.text` gives; labels, int64 [b];
            also, int64 [b, x, y], where training problems have further pairs.
        """
        problems, rng = data.of(split), np.random.default_rng([seed, epoch]) if split == "train" else None
        size, alike = self.options.batch_size, self.options.alike
        order = np.arange(len(problems)) if rng is None else rng.permutation(len(problems))
        places: Sequence[int] = range(0, len(order), size)
        if rng is not None and alike > 1:
            nodes = np.array([each.nodes for each in problems])
            order = order[np.lexsort((nodes[order], np.arange(len(order)) // (size * alike)))]
            places = rng.permutation(places).tolist()
        for start in places:
            some = [problems[i] for i in order[start : start + size]]
            text = self.options.form == "text"
            if self.options.hub and not text:
                some = [each.with_hub() for each in some]
            arrays = (data.relations.text if text else data.relations.arrays)(some, rng)
            batch = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
            if not text:
                batch["query"] = torch.tensor([each.query for each in some])
                if split == "train" and self.options.also and any(each.also for each in some):
                    also = data.relations.extra_labels(some, arrays["edge_ids"].shape[1])
                    batch["also"] = torch.from_numpy(also)
            yield {**batch, "labels": torch.from_numpy(data.relations.answers(some))}

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The cross-entropy of the answers, and the mean ones of each problem's further and undecided pairs."""
        scores = _scores(model, batch)
        loss = F.cross_entropy(at_least_float32(_query_scores(scores, batch)), batch["labels"])
        if "also" not in batch:
            return loss
        chances, known = at_least_float32(scores).log_softmax(-1), batch["also"] >= 0
        extra = -chances.gather(-1, batch["also"].clamp(min=0).unsqueeze(-1)).squeeze(-1)
        loss = loss + self.options.also * _mean(extra, known)
        if self.options.undecided:
            even = -chances.mean(-1) - math.log(chances.shape[-1])  # how far from all being equally likely
            loss = loss + self.options.undecided * _mean(even, _undecided_pairs(batch, chances.shape[-1]))
        return loss

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The problems of a batch."""
        return {"loss": len(batch["labels"])}

    def right(self, model: Model, data: RelationsData, split: str) -> NDArray[np.bool_]:
        """Whether a model answers each problem of a split as it is known."""
        device, training, found = next(model.parameters()).device, model.training, []
        model.eval()
        try:
            with torch.no_grad():
                for batch in (
                    self.batches(data, split, 0, 0) if split != "train" else self._in_order(data, split)
                ):
                    moved = {name: value.to(device) for name, value in batch.items()}
                    scores = _query_scores(_scores(model, moved), moved)
                    found.append((scores.argmax(1) == moved["labels"]).cpu().numpy())
        finally:
            model.train(training)
        return np.concatenate(found)

    def _in_order(self, data: RelationsData, split: str) -> Iterator[Mapping[str, Tensor]]:
        return self.batches(RelationsData({"": data.of(split)}, data.relations), "", 0, 0)

    def metrics(self, model: Model, data: RelationsData, split: str) -> Mapping[str, float]:
        """The share of right answers: of all problems, and of each number of steps and paths (`accuracy/k10_b1`)."""
        right, problems = self.right(model, data, split), data.of(split)
        groups = np.array([f"k{each.steps}_b{each.paths}" for each in problems])
        sizes = sorted({(each.steps, each.paths) for each in problems})
        by_size = {f"k{k}_b{b}": float(right[groups == f"k{k}_b{b}"].mean()) for k, b in sizes}
        return {
            "accuracy": float(right.mean()),
            **{f"accuracy/{name}": value for name, value in by_size.items()},
        }

    def assets(self, data: RelationsData) -> Mapping[str, bytes]:
        """The names of the relations."""
        return {LABELS: data.relations.to_json()}


def _scores(model: Model, batch: Mapping[str, Tensor]) -> Tensor:
    """The scores of all pairs, [b, x, y, relations], or those of the pairs that texts ask for, [b, relations]."""
    given = {name: value for name, value in batch.items() if name not in ("query", "labels", "also")}
    return model(**given)[f"{HEAD if 'query' in batch else WHOLE}_logits"]


def _query_scores(scores: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
    """The scores of the pairs that are asked for, [b, relations]."""
    if "query" not in batch:
        return scores
    one, other = batch["query"].unbind(1)
    return scores[torch.arange(len(one), device=one.device), one, other]


def _undecided_pairs(batch: Mapping[str, Tensor], relations: int) -> Tensor:
    """The pairs of two nodes of which edges, the answer and further pairs say nothing, bool [b, x, y]."""
    real, (one, other) = batch["attention_mask"], batch["query"].unbind(1)
    found = real.unsqueeze(1) & real.unsqueeze(2) & (batch["also"] < 0) & (batch["edge_ids"] == relations)
    found &= ~torch.eye(real.shape[1], dtype=torch.bool, device=real.device)
    found[torch.arange(len(one), device=one.device), one, other] = False
    return found


def _mean(losses: Tensor, which: Tensor) -> Tensor:
    """The mean over problems of the mean over some pairs: both [b, x, y]."""
    return ((losses * which).sum((1, 2)) / which.sum((1, 2)).clamp(min=1)).mean()
