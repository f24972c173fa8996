"""CLUTRR's stories, from the published CSV files."""

from __future__ import annotations

import ast
import random
import re
import zlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from attrs import frozen

from peirce.errors import TaskError
from peirce_text.reading import Example, Row, read_rows

COLUMNS = ("id", "story", "query", "target", "clean_story", "task_name")
"""The columns that every row needs; `facts` are made from three more."""
Text = Literal["story", "clean_story", "facts"]
_FILE = re.compile(r"\d+\.\d+(?:,\d+\.\d+)*_(train|test)\.csv(?:\.gz)?")
_TASK = re.compile(r"task_\d+\.(\d+)")
_ENTITY = re.compile(r"\[([^\[\]]+)\]")
_PARTS = 10_000


@frozen
class Story:
    """One story with its question.

    Args:
        where: the file and row.
        segments: the text in order; a name of a person is an integer, its place in `people`, and all else is text.
        people: the names of the people, in the order of their first mention.
        query: whose relation is asked for: the places in `people` of the one and of the other.
        relation: what the other is to the one.
        hops: how many facts lead from the one to the other.
        share: where the story stands between 0 and 1 in an order that its content determines.
    """

    where: str
    segments: tuple[str | int, ...]
    people: tuple[str, ...]
    query: tuple[int, int]
    relation: str
    hops: int
    share: float


def read_folder(folder: Path) -> dict[str, Iterable[Row]]:
    """The rows of all train and of all test files of a folder, such as `1.2,1.3_train.csv.gz`.

    Raises:
        TaskError: there is no such folder or file, or a file cannot be read.
    """
    if not folder.is_dir():
        raise TaskError(
            f"there is no folder {folder} with CLUTRR's files; set task.folder to a folder with files such as "
            "1.2,1.3_train.csv and 1.2_test.csv, gzipped or not"
        )
    found: dict[str, Iterable[Row]] = {}
    for kind, names in (("train", "1.2,1.3_train.csv"), ("test", "1.2_test.csv, 1.3_test.csv, ...")):
        paths = sorted(
            path for path in folder.iterdir() if (m := _FILE.fullmatch(path.name)) and m[1] == kind
        )
        files = {path.name.removesuffix(".gz"): path for path in paths}
        if not files:
            raise TaskError(
                f"{folder} holds no CLUTRR {kind} file; its name would be {names}, with .gz after it when it is gzipped"
            )
        found[kind] = chain.from_iterable(read_rows(path, COLUMNS) for path in files.values())
    return found


def read_story(row: Row, column: Text) -> Story:
    """The story of a row.

    Args:
        row: as it is published.
        column: the column with the story: `story`, whose sentences may be in any order, or `clean_story`; or `facts`
            for the relations of the story's graph in plain words, in an order that the story's content determines.

    Raises:
        TaskError: the row is not in the published format.
    """
    task = _TASK.fullmatch(row.text("task_name"))
    if task is None:
        raise TaskError(f"{row.where}: task_name is {row.value('task_name')!r}; it must look like task_1.3")
    text = row.text("story" if column == "facts" else column)
    one, other = _query(row)
    key = f"{row.value('id')}\n{text}\n{one}\n{other}".encode()
    # text and names in turn
    pieces = _facts(row, random.Random(key)) if column == "facts" else _ENTITY.split(text)
    if any("[" in piece or "]" in piece for piece in pieces[::2]):
        raise TaskError(f"{row.where}: {column} has an unmatched bracket: {text[:80]!r}")
    people = tuple(dict.fromkeys(pieces[1::2]))
    places = {name: place for place, name in enumerate(people)}
    segments = [places[piece] if i % 2 else piece.strip() for i, piece in enumerate(pieces)]
    for name in (one, other):
        if name not in places:
            raise TaskError(f"{row.where}: the query asks for {name!r}, whom {column} does not name")
    return Story(
        where=row.where,
        segments=tuple(segment for segment in segments if segment != ""),
        people=people,
        query=(places[one], places[other]),
        # in the hub's copy target is a number, and its name stands beside it
        relation=row.text("target_text" if "target_text" in row.values else "target").strip(),
        hops=int(task.group(1)),
        share=zlib.crc32(key) % _PARTS / _PARTS,
    )


def select_hops(stories: Sequence[Example], hops: Sequence[int], what: str) -> list[Example]:
    """The examples whose stories, their notes, have these numbers of hops.

    Raises:
        TaskError: one of the numbers has no story.
    """
    there = {each.note.hops for each in stories}
    if missing := sorted(set(hops) - there):
        raise TaskError(
            f"task.{what}: no story of {' or '.join(map(str, missing))} hops; the files have those of "
            f"{', '.join(map(str, sorted(there)))}"
        )
    return [each for each in stories if each.note.hops in set(hops)]


def _facts(row: Row, order: random.Random) -> list[str]:
    """Text and names in turn: `[Ann] daughter [Lil] .` for each edge of the graph, Lil being Ann's daughter."""
    edges, kinds = _literal(row, "story_edges"), _literal(row, "edge_types")
    names = [person.partition(":")[0] for person in row.text("genders").split(",")]
    facts = []
    try:
        for (begin, end), kind in zip(edges, kinds, strict=True):
            if begin < 0 or end < 0 or not isinstance(kind, str):
                raise ValueError(f"({begin}, {end}) {kind!r} is not a fact")
            facts.append((names[begin], kind, names[end]))
    except (TypeError, ValueError, IndexError) as error:
        raise TaskError(
            f"{row.where}: story_edges, edge_types and genders do not fit together: {error}"
        ) from error
    order.shuffle(facts)
    pieces = [""]
    for one, kind, other in facts:
        pieces += [one, kind, other, "."]
    return pieces


def _query(row: Row) -> tuple[str, str]:
    value = _literal(row, "query")
    match value:
        case (str() as one, str() as other):
            return one, other
    raise TaskError(
        f"{row.where}: query is {row.value('query')!r}, which is not a pair of names such as ('Ann', 'Bob')"
    )


def _literal(row: Row, column: str) -> Any:
    """The value that a column's Python literal stands for."""
    try:
        return ast.literal_eval(row.text(column).strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise TaskError(
            f"{row.where}: {column} is {row.value(column)!r}, which is not a Python literal"
        ) from error
