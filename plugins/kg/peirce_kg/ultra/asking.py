"""`peirce ask --zero-shot`: a query, or a file of them, answered on any graph by a model that was not trained on it."""

from __future__ import annotations

import json
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from peirce.compose import load
from peirce.errors import ModelFileError, TaskError
from peirce.files import open_file, replacing
from peirce.progress import progress_bars
from rich.console import Console

from peirce_queries.engine.answers import answer
from peirce_queries.engine.budget import Budget, QueryTooLargeError
from peirce_queries.engine.files import Line, read_queries
from peirce_kg.evaluation import Floats
from peirce_queries.graphs.graph import Graph, Split
from peirce_queries.languages.conversion import read_query
from peirce_queries.languages.language import checked_pairs
from peirce_queries.languages.parsing import QueryError
from peirce_kg.ultra.answering import Answerer, Logic
from peirce_kg.ultra.checkpoint import read_ultra
from peirce_kg.ultra.program import Program, Step, program_of, read_program

SHOWN = 3
"""The likeliest values of a variable that are shown."""
ROWS = 256
"""Queries of a file that are answered together, at most."""


@frozen(kw_only=True)
class Member:
    """An entity, how far it belongs to a set, 0 to 1, and whether it is known to: None where nobody knows."""

    entity: str
    score: float
    known: bool | None = None


@frozen(kw_only=True)
class GraphReply:
    """The answers of a query on a graph.

    Args:
        query: the query as it was read.
        answers: the best, the best first.
        exact: how many answers the graph entails; None where that is too large to compute, or the query has no formula.
        variables: the likeliest values of each variable that an answer goes through, by its name.
    """

    query: str
    answers: tuple[Member, ...]
    exact: int | None
    variables: dict[str, tuple[Member, ...]]


def ask_graph(
    answerer: Answerer,
    graph: Graph,
    split: Split,
    text: str,
    top: int = 10,
    seconds: float | None = None,
    console: Console | None = None,
) -> GraphReply:
    """Answer a query in any syntax.

    Args:
        answerer: a model and the split's triples.
        graph, split: whose names the query has, and what is known.
        text: the query.
        top: how many answers are given.
        seconds: how long the exact answers may take, which mark what is known; any time if None.
        console: where a progress bar is shown; nowhere when None.

    Raises:
        QueryError: the text is no query, or operations on sets cannot say it. TaskError: a name is not in the graph.
    """
    program, query = read_program(text)
    relations = {s.name: np.array([graph.relation(s.name)]) for s in program if s.operation == "project"}
    entities = {s.name: np.array([graph.entity(s.name)]) for s in program if s.operation == "entity"}
    known: set[int] | None = None
    if query is not None:
        with suppress(QueryTooLargeError):
            known = {*answer(query, graph, graph.index(split), Budget(seconds=seconds)).tolist()}
    variables: dict[str, tuple[Member, ...]] = {}
    with progress_bars(console) as progress:
        bar = progress.add_task("asking", total=sum(s.operation == "project" for s in program), shown="")
        for step, members in answerer.run(program, relations, entities, lambda: progress.advance(bar)):
            if step.variable is not None and step.operation != "every":
                variables[str(step.variable)] = _members(members[0].numpy(), graph, SHOWN)
    return GraphReply(
        query=text if query is None else str(query),
        answers=_members(members[0].numpy(), graph, top, known),
        exact=None if known is None else len(known),
        variables=variables,
    )


def entailed(graph: Graph, split: Split, text: str, seconds: float | None) -> GraphReply:
    """The answers that the graph entails, each with the score 1, by the exact engine alone.

    Raises:
        QueryError: the text is no query. QueryTooLargeError: it takes too much.
    """
    query = read_query(text)
    found = answer(query, graph, graph.index(split), Budget(seconds=seconds)).tolist()
    answers = tuple(Member(entity=graph.entity_names[i], score=1.0, known=True) for i in found)
    return GraphReply(query=str(query), answers=answers, exact=len(found), variables={})


def open_answerer(model: Path, graph: Graph, split: Split, logic: Logic = "product") -> Answerer:
    """A saved model or a checkpoint, for the triples of a graph.

    Raises:
        ModelFileError: there is none, or it is no ULTRA.
    """
    if not model.exists():
        raise ModelFileError(
            f"there is no model {model}; `peirce import ultra WEIGHTS -o {model}` makes one of published weights, as "
            "at github.com/DeepGraphLearning/ULTRA"
        )
    return Answerer(load(model) if model.is_dir() else read_ultra(model), graph.index(split), logic)


def score_file(
    answerer: Answerer, graph: Graph, source: Path, output: Path, console: Console | None = None
) -> int:
    """Write how far every entity is an answer of every query of a file, and give the number of queries.

    Args:
        answerer, graph: a model with the graph that is asked.
        source: JSON lines, as `peirce kg answer` reads them.
        output: an .npz file: `scores`, float32 [queries, entities]; `entities`, their names; `queries`, the lines.
        console: where a progress bar is shown; nowhere when None.

    Raises:
        TaskError: a line is malformed, or its query cannot be asked; or a file cannot be read or written.
    """
    try:
        with open_file(source) as lines:
            read = list(read_queries(lines, source, graph))
        programs = [_slotted(line) for line in read]
        if not read:
            raise TaskError(f"{source} has no queries")
        with (
            progress_bars(console) as progress,
            replacing(output) as fresh,
            zipfile.ZipFile(fresh, "w") as archive,
        ):
            bar = progress.add_task("asking", total=len(read), shown="")
            with archive.open(zipfile.ZipInfo("scores.npy"), "w", force_zip64=True) as out:
                shape = len(read), graph.entities
                np.lib.format.write_array_header_1_0(
                    out, {"descr": "<f4", "fortran_order": False, "shape": shape}
                )
                for start in range(0, len(read), ROWS):
                    some = slice(start, start + ROWS)
                    out.write(_scored(answerer, read[some], programs[some]).astype("<f4").tobytes())
                    progress.advance(bar, len(read[some]))
            for name, texts in (
                ("entities", graph.entity_names),
                ("queries", [json.dumps(line.given, ensure_ascii=False) for line in read]),
            ):
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as out:
                    np.save(out, np.array(texts), allow_pickle=False)
    except OSError as error:
        where, said = source if error.filename == str(source) else output, error.strerror or str(error)
        raise TaskError(said if str(where) in said else f"{where}: {said}") from error
    return len(read)


def _slotted(line: Line) -> Program:
    """The program of a line, its names replaced by the numbers of their slots, so that lines of one form share it."""
    try:
        program = program_of(checked_pairs(line.template.query, pairs=False))
    except QueryError as error:
        raise TaskError(f"{line.place}: {error}") from error

    def number(step: Step) -> str:
        names = line.template.relations if step.operation == "project" else line.template.constants
        return str(names.index(step.name)) if step.name else ""

    return tuple(Step(step.operation, number(step), step.inverse) for step in program)


def _scored(answerer: Answerer, lines: list[Line], programs: list[Program]) -> Floats:
    """[lines, entities]; lines of one program are answered together."""
    found = np.empty((len(lines), answerer.entities))
    for program in dict.fromkeys(programs):
        rows = [row for row, own in enumerate(programs) if own == program]
        relations, entities = (
            {str(i): column for i, column in enumerate(np.array(ids, np.int64).T)}
            for ids in ([lines[row].relations for row in rows], [lines[row].constants for row in rows])
        )
        *_, (_, members) = answerer.run(program, relations, entities)
        found[rows] = members.numpy()
    return found


def _members(
    scores: NDArray[Any], graph: Graph, count: int, known: set[int] | None = None
) -> tuple[Member, ...]:
    """The entities that belong most to a set."""
    return tuple(
        Member(
            entity=graph.entity_names[i],
            score=float(scores[i]),
            known=None if known is None else i in known,
        )
        for i in np.argsort(-scores, kind="stable")[:count].tolist()
    )
