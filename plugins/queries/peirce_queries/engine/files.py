"""Answers a file of queries exactly: JSON lines in, the same lines with their answers out.

A block of lines is read, lines of one shape are answered together, and the block is written in its order; so memory
does not grow with the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from attrs import frozen
from rich.console import Console

from peirce.errors import TaskError
from peirce.files import UnreadableError, near_names, open_file, parse_json, read_lines, replace_file
from peirce.progress import progress_bars
from peirce_queries.engine.answers import LIMIT, answers, pair_answers
from peirce_queries.engine.budget import Budget, QueryTooLargeError
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.graphs.graph import Graph, Index, Split
from peirce_queries.languages.conversion import read_query

BLOCK = 8192
"""Lines that are answered at once."""
_FORMS = '{"formula": "...", "grounding": {"r1": "...", "s1": "..."}} or {"query": "..."}'


class Totals(NamedTuple):
    """What a file held: its queries, those without an answer, and all of the answers."""

    queries: int
    empty: int
    answers: int


@frozen(eq=False)
class Line:
    """A query of a file. place: its file and line; given: what the line holds; relations, constants: ids for slots."""

    place: str
    given: dict[str, Any]
    template: Template
    relations: list[int]
    constants: list[int]


def answer_file(
    graph: Graph,
    split: Split,
    source: Path,
    output: Path,
    limit: int = LIMIT,
    console: Console | None = None,
    seconds: float | None = None,
) -> Totals:
    """Answer every query of a file of JSON lines; the output appears when it is whole.

    Args:
        graph, split: the graph, and its cumulative split that is asked.
        source: each line is a formula with a grounding of its relations and entities, or a grounded query.
        output: each line again, with its `answers`, sorted names, or sorted pairs of them where it asks for pairs.
        limit: rows that an intermediate table may have.
        console: where a progress bar is shown; nowhere when None.
        seconds: how long a query may take; any time if None.

    Raises:
        TaskError: a line is malformed, names what the graph has not, or is too large; it is named by number.
    """
    queries = empty = count = 0
    try:
        with (
            open_file(source, piped=True) as lines,
            replace_file(output) as fresh,
            fresh.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as out,
            progress_bars(console, counted=False) as progress,
        ):
            bar = progress.add_task("answering", total=os.fstat(lines.fileno()).st_size or None, shown="")
            read = query_lines(lines, source, graph)
            while block := list(islice(read, BLOCK)):
                found_block = _answer_block(block, graph.index(split), limit, seconds)
                for line, found in zip(block, found_block, strict=True):
                    names = sorted(_answer_name(entity, graph) for entity in found)
                    out.write(json.dumps({**line.given, "answers": names}, ensure_ascii=False) + "\n")
                    queries, empty, count = queries + 1, empty + (not names), count + len(names)
                # a pipe does not know where it is
                place = lines.tell() if lines.seekable() else None
                progress.update(bar, completed=place, shown=f"{queries:,} queries")
    except OSError as error:
        problem = error.strerror or error
        if error.filename == str(source) or isinstance(error, UnreadableError):
            near = near_names(Path(source), "*.jsonl*") if isinstance(error, FileNotFoundError) else ""
            raise TaskError(f"{source}: {problem}{near}") from error
        raise TaskError(f"{output} cannot be written: {problem}; choose another -o") from error
    return Totals(queries, empty, count)


def _answer_name(answer: Any, graph: Graph) -> Any:
    """The name of an answer, or those of a pair."""
    return (
        [_answer_name(one, graph) for one in answer]
        if isinstance(answer, list)
        else graph.entity_names[answer]
    )


def _answer_block(block: list[Line], index: Index, limit: int, seconds: float | None) -> list[list[Any]]:
    """The answers of each line, in their order; lines of one shape are answered together."""
    shapes: dict[object, list[int]] = {}
    for place, line in enumerate(block):
        shape = line.template.conjunctions, len(line.relations), len(line.constants)
        shapes.setdefault(shape, []).append(place)
    found: dict[int, list[Any]] = {}
    for places in shapes.values():
        together = _answer_lines([block[place] for place in places], index, limit, seconds)
        found.update(zip(places, together, strict=True))
    return [found[place] for place in range(len(block))]


def _answer_lines(lines: list[Line], index: Index, limit: int, seconds: float | None) -> list[list[Any]]:
    """The answers of lines of one shape; each by itself where there is no budget for all of them."""
    ids = ([line.relations for line in lines], [line.constants for line in lines])
    groundings = Groundings(*(np.array(rows, np.int64).reshape(len(lines), -1) for rows in ids))
    template = lines[0].template
    find = pair_answers if template.query.pairs else answers
    try:
        found = find(template, groundings, index, limit, Budget(seconds=seconds))
    except QueryTooLargeError as error:
        if len(lines) == 1:
            raise QueryTooLargeError(f"{lines[0].place}: {error}") from None
        return [found for line in lines for found in _answer_lines([line], index, limit, seconds)]
    return [found[row].tolist() for row in range(len(lines))]


def query_lines(lines: IO[bytes], source: Path, graph: Graph) -> Iterator[Line]:
    """The queries of JSON lines; a `TaskError` names a line that is malformed, or has names that the graph has not."""
    for number, raw in enumerate(read_lines(lines), 1):
        if not raw.strip():
            continue
        place = f"{source}, line {number}"
        try:
            yield _line(place, parse_json(raw.rstrip()), graph)
        except json.JSONDecodeError as error:
            cause = f"{error.msg}, column {error.colno}"
            raise TaskError(f"{place}: not JSON: {cause}; each line is {_FORMS}") from error
        except (TaskError, ValueError) as error:
            raise TaskError(f"{place}: {error}") from error


def _line(place: str, given: Any, graph: Graph) -> Line:
    match given:
        case {"query": _, "formula": _} | {"query": _, "grounding": _}:
            raise TaskError(f"a line must have a query, or a formula with a grounding, not both: {_FORMS}")
        case {"query": str(text)}:
            template = _template(text)
            names = {name: name for name in (*template.relations, *template.constants)}
        case {"formula": str(text), "grounding": dict(names)} if {*map(type, names.values())} <= {str}:
            template = _template(text)
            template.query.ground(names)
        case _:
            raise TaskError(f"expected {_FORMS}, with names as strings; found {json.dumps(given)[:200]}")
    relations = [graph.relation(names[name]) for name in template.relations]
    constants = [graph.entity(names[name]) for name in template.constants]
    return Line(place, given, template, relations, constants)


@lru_cache(maxsize=1024)
def _template(text: str) -> Template:
    return Template.of(read_query(text, pairs=True))
