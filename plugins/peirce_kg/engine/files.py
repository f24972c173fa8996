"""Answers a file of queries exactly: JSON lines in, the same lines with their answers out.

A block of lines is read, lines of one shape are answered together, and the block is written in its order; so memory
does not grow with the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from attrs import frozen
from peirce.errors import TaskError
from peirce.files import UnreadableError, open_file, parse_json, read_lines, replacing
from peirce.progress import progress_bars
from rich.console import Console

from peirce_kg.engine.answers import (
    LIMIT,
    Budget,
    Groundings,
    QueryTooLargeError,
    Template,
    answers,
    estimate,
)
from peirce_kg.graphs.graph import Graph, Index, Split
from peirce_kg.queries.conversion import read_query

BLOCK = 8192
"""Lines that are answered at once."""
WORTH_SAYING = 10.0
"""Seconds of an estimate from which it is told."""
_FORMS = '{"formula": "...", "grounding": {"r1": "...", "s1": "..."}} or {"query": "..."}'
_Shape: TypeAlias = tuple[object, ...]


@frozen
class Totals:
    """What a file held: its queries, those without an answer, and all of the answers."""

    queries: int
    empty: int
    answers: int


@frozen(eq=False)
class _Line:
    """A query of a file. number: its line; given: what the line holds; relations, constants: ids for the slots."""

    number: int
    given: dict[str, Any]
    template: Template
    relations: list[int]
    constants: list[int]

    @property
    def shape(self) -> _Shape:
        """What lines share that are answered together."""
        return self.template.conjunctions, len(self.relations), len(self.constants)


def answer_file(
    graph: Graph,
    split: Split,
    source: Path,
    output: Path,
    limit: int = LIMIT,
    console: Console | None = None,
    seconds: float | None = None,
    told: Callable[[str], None] = lambda text: None,
) -> Totals:
    """Answer every query of a file of JSON lines; the output appears when it is whole.

    Args:
        graph: the graph.
        split: the cumulative split that is asked.
        source: each line is a formula with a grounding of its relations and entities, or a grounded query.
        output: each line again, with its `answers`, sorted names.
        limit: rows that an intermediate table may have.
        console: where a progress bar is shown; nowhere when None.
        seconds: how long a query may take; any time if None.
        told: called with an estimate before lines that may take long.

    Raises:
        TaskError: a line is malformed, names what the graph has not, or is too large; it is named by number.
    """
    queries = empty = count = 0
    try:
        with (
            open_file(source, piped=True) as lines,
            replacing(output) as fresh,
            fresh.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as out,
            progress_bars(console, counted=False) as progress,
        ):
            bar = progress.add_task("answering", total=os.fstat(lines.fileno()).st_size or None, shown="")
            read = _read(lines, source, graph)
            while block := list(islice(read, BLOCK)):
                for line, found in zip(
                    block, _answered(block, graph.index(split), source, limit, seconds, told), strict=True
                ):
                    names = sorted(graph.entity_names[entity] for entity in found)
                    out.write(json.dumps({**line.given, "answers": names}, ensure_ascii=False) + "\n")
                    queries, empty, count = queries + 1, empty + (not names), count + len(names)
                # a pipe does not know where it is
                place = lines.tell() if lines.seekable() else None
                progress.update(bar, completed=place, shown=f"{queries:,} queries")
    except OSError as error:
        problem = error.strerror or error
        if error.filename == str(source) or isinstance(error, UnreadableError):
            raise TaskError(f"{source}: {problem}") from error
        raise TaskError(f"{output} cannot be written: {problem}; choose another -o") from error
    return Totals(queries, empty, count)


def _answered(
    block: list[_Line],
    index: Index,
    source: Path,
    limit: int,
    seconds: float | None,
    told: Callable[[str], None],
) -> list[list[int]]:
    """The answers of each line, in their order; lines of one shape are answered together."""
    shapes: dict[_Shape, list[int]] = {}
    for place, line in enumerate(block):
        shapes.setdefault(line.shape, []).append(place)
    found: list[list[int]] = [[]] * len(block)
    for places in shapes.values():
        lines = [block[place] for place in places]
        groundings = _groundings(lines)
        before = estimate(lines[0].template, groundings, index)
        if before.seconds > WORTH_SAYING:
            told(f"{_named(source, lines)}: {before}, about {before.seconds:,.0f} s if nothing narrows them")
        try:
            together = answers(lines[0].template, groundings, index, limit, Budget(seconds=seconds))
        except QueryTooLargeError as error:
            if len(lines) == 1:
                raise _at(source, lines[0], error) from None
            alone = [_alone(line, index, source, limit, seconds) for line in lines]
        else:
            alone = [together[row].tolist() for row in range(len(lines))]
        for place, own in zip(places, alone, strict=True):
            found[place] = own
    return found


def _alone(line: _Line, index: Index, source: Path, limit: int, seconds: float | None) -> list[int]:
    """The answers of a line that lines of its shape leave no budget for."""
    try:
        return answers(line.template, _groundings([line]), index, limit, Budget(seconds=seconds))[0].tolist()
    except QueryTooLargeError as error:
        raise _at(source, line, error) from None


def _at(source: Path, line: _Line, error: QueryTooLargeError) -> QueryTooLargeError:
    return QueryTooLargeError(f"{source}, line {line.number}: {error}")


def _named(source: Path, lines: list[_Line]) -> str:
    return f"{source}, line {lines[0].number}" + (f" and {len(lines) - 1:,} more" if len(lines) > 1 else "")


def _groundings(lines: list[_Line]) -> Groundings:
    return Groundings(
        np.array([line.relations for line in lines], np.int64).reshape(len(lines), -1),
        np.array([line.constants for line in lines], np.int64).reshape(len(lines), -1),
    )


def _read(lines: IO[bytes], source: Path, graph: Graph) -> Iterator[_Line]:
    for number, raw in enumerate(read_lines(lines), 1):
        if not raw.strip():
            continue
        try:
            yield _line(
                number, parse_json(raw.rstrip(), object_pairs_hook=_once, parse_constant=_no_number), graph
            )
        except ValueError as error:
            cause = (
                f"{error.msg}, column {error.colno}"
                if isinstance(error, json.JSONDecodeError)
                else str(error)
            )
            raise TaskError(f"{source}, line {number}: not JSON: {cause}; each line is {_FORMS}") from error
        except TaskError as error:
            raise TaskError(f"{source}, line {number}: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands there twice")
    return table


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _line(number: int, given: Any, graph: Graph) -> _Line:
    match given:
        case {"query": _, "formula": _} | {"query": _, "grounding": _}:
            raise TaskError(f"a line has a query, or a formula with a grounding, not both: {_FORMS}")
        case {"query": str(text)}:
            template = _template(text)
            names = {name: name for name in (*template.relations, *template.constants)}
        case {"formula": str(text), "grounding": dict(names)} if all(
            isinstance(n, str) for n in names.values()
        ):
            template = _template(text)
            template.query.ground(names)
        case _:
            raise TaskError(f"expected {_FORMS}, with names as strings; found {json.dumps(given)[:200]}")
    return _Line(
        number,
        given,
        template,
        [graph.relation(names[name]) for name in template.relations],
        [graph.entity(names[name]) for name in template.constants],
    )


@lru_cache(maxsize=1024)
def _template(text: str) -> Template:
    return Template.of(read_query(text))
