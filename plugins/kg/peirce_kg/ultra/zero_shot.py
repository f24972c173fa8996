"""`peirce ask --graph`: a query, or a file of them, answered on any graph by a model that was not trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve
from numpy.typing import NDArray
from rich.console import Console

from peirce.errors import ModelFileError
from peirce.progress import progress_bars
from peirce_kg.exported import INDUCTIVE, architecture_of
from peirce_kg.ultra.program import Program, program_of
from peirce_queries import AnyQuery, BatchAnswerer, Floats, GivenGraph, Line, Ranking, Template

if TYPE_CHECKING:
    from peirce_kg.ultra.answering import UltraQuery

SHOWN = 3
"""The likeliest values of a variable that are shown."""


class ZeroShot(BatchAnswerer):
    """ULTRA with a graph that it was not trained on.

    Args:
        model: the model, with the triples that are known.
        given: the graph.
    """

    provider = "torch"

    @classmethod
    def opens(cls, place: Path) -> bool:
        """See `Answerer.opens`; a file is a checkpoint."""
        return place.is_file() or architecture_of(place) == INDUCTIVE

    @classmethod
    def open(cls, place: Path, given: GivenGraph | None) -> ZeroShot:
        """See `Answerer.open`."""
        if given is None:
            raise ModelFileError(
                f"{place} needs a graph: add --graph GRAPH. `peirce import ultra WEIGHTS` makes "
                "such a model of published weights"
            )
        if not place.exists():  # the name of a ready spec
            raise ModelFileError(
                f"there is no model {place}; `peirce import ultra WEIGHTS -o {place}` makes one of published weights, "
                "as at github.com/DeepGraphLearning/ULTRA"
            )
        from peirce.compose import load
        from peirce_kg.ultra.answering import UltraQuery
        from peirce_kg.ultra.checkpoint import read_ultra

        model = load(place) if place.is_dir() else read_ultra(place)
        return cls(UltraQuery(model, given.graph.index(given.split), given.logic), given)

    def __init__(self, model: UltraQuery, given: GivenGraph) -> None:
        self.model, self.graph = model, given.graph

    def rank(self, query: AnyQuery, top: int, console: Console | None = None) -> Ranking:
        """See `Answerer.rank`."""
        program, graph = program_of(query), self.graph
        relations = {s.name: np.array([graph.relation(s.name)]) for s in program if s.operation == "project"}
        entities = {s.name: np.array([graph.entity(s.name)]) for s in program if s.operation == "entity"}
        variables: dict[str, Ranking] = {}
        with progress_bars(console) as progress:
            count = sum(step.operation == "project" for step in program)
            bar = progress.add_task("answering", total=count, shown="")
            for step, members in self.model.run(program, relations, entities, lambda: progress.advance(bar)):
                if step.variable is not None and step.operation != "every":
                    variables[str(step.variable)] = _ranking(members[0].numpy(), SHOWN)
        return evolve(_ranking(members[0].numpy(), top), variables=variables)

    def check(self, line: Line) -> None:
        """See `BatchAnswerer.check`."""
        _slot_program(line.template)

    def scores(self, lines: Sequence[Line]) -> Floats:
        """See `BatchAnswerer.scores`; lines of one program are answered together."""
        found = np.empty((len(lines), self.graph.entities))
        programs = [_slot_program(line.template) for line in lines]
        for program in dict.fromkeys(programs):
            rows = [row for row, other in enumerate(programs) if other == program]
            relations, entities = (
                {str(slot): column for slot, column in enumerate(np.array(ids, np.int64).T)}
                for ids in ([lines[row].relations for row in rows], [lines[row].constants for row in rows])
            )
            *_, (_, members) = self.model.run(program, relations, entities)
            found[rows] = members.numpy()
        return found


@lru_cache(maxsize=1024)
def _slot_program(template: Template) -> Program:
    """The program of a query, its names replaced by the numbers of their slots, so that queries of one form share it.

    Raises:
        QueryError: operations on sets cannot say the query.
    """

    def number(operation: str, name: str) -> str:
        names = template.relations if operation == "project" else template.constants
        return str(names.index(name)) if name else ""

    return tuple(
        evolve(s, name=number(s.operation, s.name), variable=None) for s in program_of(template.query)
    )


def _ranking(scores: NDArray[Any], count: int) -> Ranking:
    """The entities that belong most to a set."""
    best = np.argsort(-scores, kind="stable")[:count]
    return Ranking(entities=best.tolist(), scores=scores[best].tolist())
