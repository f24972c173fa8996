"""Problems as arrays, for training and for an exported model alike; without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from peirce.errors import InputError, ModelFileError, TaskError, unknown
from peirce.files import parse_json
from peirce_relations.graphs import Problem

LABELS = "relations.json"
"""The asset that names the relations."""
LARGEST = 128
"""Nodes of facts that a model is asked about: some operators hold all triples of nodes, `compose` in 2 GiB here."""
Array = NDArray[Any]


@frozen
class Relations:
    """The relations of edges, whose places are their ids; the answers are among them.

    Args:
        names: the relations.
        kinds: how many ids nodes are given; with 1 they are all alike.
    """

    names: tuple[str, ...]
    kinds: int = 1

    def arrays(self, problems: Sequence[Problem], rng: np.random.Generator | None = None) -> dict[str, Array]:
        """A batch of problems, padded to the one with the most nodes.

        Args:
            problems: the problems.
            rng: what nodes are named anew by; where it is None, and nodes have names, they are 0, 1, ...

        Returns:
            edge_ids: int64 [b, x, y], the number of relations where no edge is; attention_mask: bool [b, x]; and
            input_ids, int64 [b, x], where nodes are not alike.

        Raises:
            InputError: a relation is unknown, a pair has two, or a problem has more nodes than there are names.
        """
        ids, most = {name: i for i, name in enumerate(self.names)}, max(each.nodes for each in problems)
        edges = np.full((len(problems), most, most), len(self.names), np.int64)
        for i, problem in enumerate(problems):
            for (x, y), label in zip(problem.edges, problem.labels, strict=True):
                where = f"{problem.where}: " if problem.where else ""
                if label not in ids:
                    raise InputError(where + unknown("relation", label, self.names))
                if edges[i, x, y] not in (len(self.names), ids[label]):
                    raise InputError(
                        f"{where}node {x} has two relations to node {y}; a model reads one of each pair"
                    )
                edges[i, x, y] = ids[label]
        counts = np.array([each.nodes for each in problems])
        found: dict[str, Array] = {
            "edge_ids": edges,
            "attention_mask": np.arange(most) < counts[:, None],
        }
        if self.kinds > 1:
            if most > self.kinds:
                raise InputError(f"a graph has {most} nodes, and the model knows {self.kinds} names of nodes")
            names = np.tile(np.arange(self.kinds), (len(problems), 1))
            found["input_ids"] = (names if rng is None else rng.permuted(names, axis=1))[:, :most]
        return found

    def extra_labels(self, problems: Sequence[Problem], nodes: int) -> Array:
        """The ids of the relations of the problems' further pairs, int64 [b, x, y] of so many nodes; else -100."""
        ids = {name: i for i, name in enumerate(self.names)}
        found = np.full((len(problems), nodes, nodes), -100, np.int64)
        for i, problem in enumerate(problems):
            for x, y, name in problem.also:
                found[i, x, y] = ids[name]
        return found

    @property
    def words(self) -> int:
        """How many tokens `text` has: the relations, padding, two marks, and the names of nodes."""
        return len(self.names) + 3 + self.kinds

    def text(self, problems: Sequence[Problem], rng: np.random.Generator | None = None) -> dict[str, Array]:
        """A batch of problems as texts, for a network that does not know that there is a graph.

        The first mark and the pair that is asked for, the second mark, and three tokens of each edge: node, relation,
        node. A word is a relation's id, or comes after them: padding, the two marks, the names of the nodes.

        Args:
            problems: the problems.
            rng: what edges are put into an order by and nodes are named anew by; where it is None, both stay.

        Returns:
            input_ids: int64 [b, x]; attention_mask: bool [b, x].
        """
        pad, first, second, name = range(len(self.names), len(self.names) + 4)
        rows: list[list[int]] = []
        for problem in problems:
            order, names = np.arange(len(problem.edges)), np.arange(self.kinds)
            if rng is not None:
                order, names = rng.permutation(order), rng.permutation(names)
            node = [name + int(each) for each in names]
            row = [first, *(node[each] for each in problem.query), second]
            for edge in order.tolist():
                one, other = problem.edges[edge]
                row += [node[one], self.names.index(problem.labels[edge]), node[other]]
            rows.append(row)
        ids = np.full((len(rows), max(map(len, rows))), pad, np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        return {"input_ids": ids, "attention_mask": ids != pad}

    def answers(self, problems: Sequence[Problem]) -> Array:
        """The ids of the answers, int64 [b].

        Raises:
            TaskError: a problem has no answer, or an unknown one.
        """
        for problem in problems:
            if problem.answer not in self.names:
                raise TaskError(f"{problem.where}: " + unknown("answer", str(problem.answer), self.names))
        return np.array([self.names.index(str(each.answer)) for each in problems], np.int64)

    def to_json(self) -> bytes:
        """The content of the asset."""
        return json.dumps({"relations": self.names, "kinds": self.kinds}, indent=2).encode()

    @classmethod
    def from_json(cls, content: str, where: str) -> Relations:
        """The inverse of `to_json`.

        Raises:
            ModelFileError: it names no relations.
        """
        try:
            table: Mapping[str, Any] = parse_json(content)
            return cls(tuple(map(str, table["relations"])), int(table["kinds"]))
        except (ValueError, TypeError, KeyError) as error:
            raise ModelFileError(
                f"{where} does not name the relations ({error}); restore it from the training"
            ) from error


def read_facts(text: str, pair: Sequence[str]) -> tuple[Problem, tuple[str, ...]]:
    """A graph in words, `a NTPP b, b PO c`, and the pair that is asked for; also the names of the nodes.

    Raises:
        InputError: a fact is not `NODE RELATION NODE`, two facts speak of one pair, there are too many nodes, or
            the pair is not in the graph.
    """
    if len(pair) != 2:
        raise InputError(f"the pair has {len(pair)} names; give two nodes")
    places: dict[str, int] = {}
    edges: dict[tuple[int, int], str] = {}
    for fact in filter(None, (part.strip() for part in text.replace(";", ",").replace("\n", ",").split(","))):
        words = fact.split()
        if len(words) != 3:
            raise InputError(f"{fact!r} is not a fact; write NODE RELATION NODE, with a comma between facts")
        one, label, other = words
        edge = places.setdefault(one, len(places)), places.setdefault(other, len(places))
        if edges.setdefault(edge, label) != label:
            raise InputError(
                f"{one!r} is {edges[edge]} and {label} to {other!r}; give one relation for each pair"
            )
    if not edges:
        raise InputError("there are no facts; write some, such as 'a NTPP b, b PO c'")
    if len(places) > LARGEST:
        raise InputError(f"the facts have {len(places)} nodes, and the limit is {LARGEST}; leave some out")
    for name in pair:
        if name not in places:
            raise InputError(unknown("node", name, places))
    query = places[pair[0]], places[pair[1]]
    problem = Problem(
        nodes=len(places), edges=tuple(edges), labels=tuple(edges.values()), query=query, answer=None
    )
    return problem, tuple(places)
