"""Graphs of labelled edges with one pair asked: read from JSON lines, or from CLUTRR's published files."""

from __future__ import annotations

import ast
import csv
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from peirce.errors import TaskError
from peirce.files import open_file, parse_json, read_lines

_SIZES = re.compile(r"k(\d+)_b(\d+)")
_TASK = re.compile(r"task_\d+\.(\d+)")
_TRAIN = re.compile(r"(\d+\.\d+(,\d+\.\d+)*_)?train")
_PARTS = 10_000
MOST = 1024
"""Nodes of a graph; all that reads one holds every pair of them, and some every triple."""


@frozen(kw_only=True)
class Problem:
    """A graph whose edges are known relations, and a pair whose relation is asked.

    Args:
        nodes: how many nodes there are, 0, 1, ...
        edges: pairs of nodes, from the first to the second.
        labels: the relation of each edge.
        query: the pair that is asked for.
        answer: its relation; None where it is not known.
        steps: K, the edges of a path from the one to the other; 0 where the file does not say.
        paths: B, how many paths there are; 1 where the file does not say.
        also: further pairs with their relations, from which a network may learn as well.
        where: the file and the row.
    """

    nodes: int
    edges: tuple[tuple[int, int], ...]
    labels: tuple[str, ...]
    query: tuple[int, int]
    answer: str | None
    steps: int = 0
    paths: int = 1
    also: tuple[tuple[int, int, str], ...] = ()
    where: str = ""

    @property
    def share(self) -> float:
        """Where the problem stands between 0 and 1 in an order that its content determines."""
        key = repr((self.edges, self.labels, self.query)).encode()
        return zlib.crc32(key) % _PARTS / _PARTS

    def with_hub(self) -> Problem:
        """The problem with one node more, to which the edges of single nodes lead instead of to the node itself."""
        edges = tuple((x, self.nodes) if x == y else (x, y) for x, y in self.edges)
        return evolve(self, nodes=self.nodes + 1, edges=edges)

    def line(self) -> str:
        """The problem as a line of JSON."""
        row = {"edges": self.edges, "labels": self.labels, "query": self.query, "answer": self.answer}
        more = {"k": self.steps, "b": self.paths, **({"also": self.also} if self.also else {})}
        return json.dumps(row | more, separators=(",", ":")) + "\n"


def read_graphs(place: Path) -> dict[str, list[Problem]]:
    """The problems of a file, or of the files of a folder, as `train` and `test`.

    A file whose name begins with `train`, or with CLUTRR's `1.2,1.3_train`, has the training problems; every other
    `.jsonl` or `.csv` file, gzipped or not, is a test file. `k10_b1` in a name gives a row's K and B where it has none.

    Raises:
        TaskError: there is no such place, nothing in it can be read, or a row is not a problem.
    """
    paths = sorted(place.iterdir()) if place.is_dir() else [place]
    paths = [path for path in paths if path.name.removesuffix(".gz").endswith((".jsonl", ".csv"))]
    if not paths or not place.exists():
        raise TaskError(
            f"{place} holds no problems; give a file or a folder of .jsonl files with edges, labels, query and answer, "
            "or of CLUTRR's .csv files, gzipped or not"
        )
    found: dict[str, list[Problem]] = {"train": [], "test": []}
    for path in paths:
        found["train" if _TRAIN.match(path.name) else "test"] += read_problems(path)
    return found


def read_problems(path: Path) -> Iterator[Problem]:
    """The problems of one file, row by row.

    Raises:
        TaskError: the file cannot be read or is empty, or a row is not a problem; the message names the row.
    """
    read, found = _clutrr if ".csv" in path.suffixes else _lines, False
    try:
        with open_file(path) as raw, TextIOWrapper(raw, "utf-8-sig", newline="") as file:
            for problem in read(path, file):
                found = True
                yield problem
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TaskError(f"{path} cannot be read: {error}") from error
    if not found:
        raise TaskError(f"{path} has no problems")


def _lines(path: Path, file: TextIOWrapper) -> Iterator[Problem]:
    sizes_match = _SIZES.search(path.name)
    steps, paths = (int(sizes_match[1]), int(sizes_match[2])) if sizes_match else (0, 1)
    for number, line in enumerate(read_lines(file), 1):
        where = f"{path}:{number}"
        try:
            row = parse_json(line)
            edges, query = row["edges"], row["query"]
            sizes = row.get("k", steps), row.get("b", paths)
            also = row.get("also", [])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            needed = "an object with edges, labels, query and answer"
            raise TaskError(f"{where}: the line is not {needed}: {error}") from error
        yield _problem(where, edges, row.get("labels"), query, row.get("answer"), *sizes, also)


def _clutrr(path: Path, file: TextIOWrapper) -> Iterator[Problem]:
    for number, row in enumerate(csv.DictReader(file), 2):
        where = f"{path}:{number}"
        try:
            edges, labels, query = (
                ast.literal_eval(row[key]) for key in ("story_edges", "edge_types", "query_edge")
            )
            target, task = row["target"], _TASK.fullmatch(row["task_name"])
            if task is None:
                raise ValueError(f"task_name is {row['task_name']!r}")
        except (KeyError, TypeError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
            raise TaskError(f"{where}: the row is not one of CLUTRR's published files: {error}") from error
        yield _problem(where, edges, labels, query, target, int(task[1]), 1)


def _problem(
    where: str, edges: Any, labels: Any, query: Any, answer: Any, steps: Any, paths: Any, also: Any = ()
) -> Problem:
    def pair(value: Any) -> tuple[int, int]:
        if (
            not isinstance(value, list | tuple)
            or len(value) != 2
            or not all(type(n) is int and n >= 0 for n in value)
        ):
            raise TaskError(f"{where}: {value!r} is not a pair of nodes, two whole numbers from 0")
        return value[0], value[1]

    def text(value: Any) -> str:
        if not isinstance(value, str):
            raise TaskError(f"{where}: {value!r} is not the name of a relation")
        return value

    if (
        not isinstance(edges, list | tuple)
        or not isinstance(labels, list | tuple)
        or len(edges) != len(labels)
    ):
        raise TaskError(f"{where}: edges and labels must be lists of one length, a label for each edge")
    if not edges:
        raise TaskError(f"{where}: the graph has no edges")
    if not isinstance(also, list | tuple) or not all(
        isinstance(each, list) and len(each) == 3 for each in also
    ):
        raise TaskError(f"{where}: also must be a list whose items are two nodes and their relation")
    read, queried = tuple(map(pair, edges)), pair(query)
    nodes = max(max(each) for each in (*read, queried)) + 1
    if nodes > MOST:
        raise TaskError(f"{where}: node {nodes - 1} is too many: a graph has at most {MOST} nodes, from 0 on")
    also_known = tuple((*pair(each[:2]), text(each[2])) for each in also)
    if missing := {*queried, *(node for each in also_known for node in each[:2])}.difference(*read):
        raise TaskError(f"{where}: node {min(missing)} is asked for, and no edge has it")
    if not (type(steps) is int and type(paths) is int):
        raise TaskError(f"{where}: k and b must be whole numbers")
    return Problem(
        nodes=nodes,
        edges=read,
        labels=tuple(map(text, labels)),
        query=queried,
        answer=None if answer is None else text(answer),
        steps=steps,
        paths=paths,
        also=also_known,
        where=where,
    )


def known_relations(problems: Iterable[Problem]) -> tuple[str, ...]:
    """The relations that edges have or that are answers, sorted."""
    found = {name for problem in problems for name in (*problem.labels, problem.answer) if name is not None}
    found |= {name for problem in problems for *_, name in problem.also}
    return tuple(sorted(found))


def most_nodes(problems: Sequence[Problem]) -> int:
    """The largest number of nodes of a problem."""
    return max(problem.nodes for problem in problems)
