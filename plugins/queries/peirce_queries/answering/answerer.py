"""The contract of a model that answers queries, and how one is opened by what its folder holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray
from rich.console import Console

from peirce.errors import ModelFileError, TaskError
from peirce.registry import class_named, default_catalogue
from peirce_queries.engine.files import Line
from peirce_queries.graphs.graph import Graph, Split
from peirce_queries.hooks import ANSWERERS
from peirce_queries.languages.conversion import AnyQuery
from peirce_queries.languages.language import Query

Entity: TypeAlias = int | tuple[int, int]
"""An answer by number: an entity, or a pair of them."""
Floats: TypeAlias = NDArray[np.floating[Any]]
Logic: TypeAlias = Literal["product", "godel", "lukasiewicz"]
"""How fuzzy sets are joined: xy and x + y - xy; the least and the greatest; max(x + y - 1, 0) and min(x + y, 1)."""


@frozen(kw_only=True)
class GivenGraph:
    """A graph that a model was not trained on: whose triples up to a split are known, and how sets are joined."""

    graph: Graph
    split: Split
    logic: Logic = "product"


@frozen(kw_only=True)
class Ranking:
    """The best answers of a query, the best first, with a score for each.

    variables: the likeliest values of each variable that an answer goes through, where a model knows them.
    """

    entities: Sequence[Entity]
    scores: Sequence[float]
    variables: Mapping[str, Ranking] = field(factory=dict)


class Answerer(ABC):
    """A model that answers queries. A plug-in registers one by `register_answerers`.

    Attributes:
        graph: whose names queries have.
        provider: what runs the model.
    """

    graph: Graph
    provider: str

    @classmethod
    @abstractmethod
    def opens(cls, place: Path) -> bool:
        """Whether a place holds such a model, by the names of its files and its spec; nothing else is read."""

    @classmethod
    @abstractmethod
    def open(cls, place: Path, given: GivenGraph | None) -> Self:
        """Open a model.

        Args:
            place: what `opens` said yes to.
            given: the graph that is asked; that which the model was trained on if None.

        Raises:
            ModelFileError: a file is missing or damaged, or the model cannot ask such a graph.
        """

    @abstractmethod
    def rank(self, query: AnyQuery, top: int, console: Console | None = None) -> Ranking:
        """The best answers of a query.

        Args:
            query: the query.
            top: how many answers, at most.
            console: where a progress bar is shown; nowhere when None.

        Raises:
            TaskError: a name is not in the graph, or the model does not support the query.
        """


class BatchAnswerer(Answerer):
    """A model that scores all entities for many queries."""

    @abstractmethod
    def check(self, line: Line) -> None:
        """Refuse, by a `TaskError` without its place, a query that the model does not support."""

    @abstractmethod
    def scores(self, lines: Sequence[Line]) -> Floats:
        """How far each entity is an answer of each query: [lines, entities]."""


class PageAnswerer(Answerer):
    """A model that can become a page on which it answers."""

    @abstractmethod
    def write_page(self, path: Path, query: Query, top: int, runtime: Path) -> None:
        """Write the page.

        Args:
            path: the page, a file that ends in .html.
            query: what the page begins with.
            top: how many answers it shows.
            runtime: as `peirce_show.pages.write_page` has it.

        Raises:
            InputError: a page cannot run the model.
        """


def open_answerer(place: Path, given: GivenGraph | None) -> Answerer:
    """Open the model of a folder or a file.

    Args:
        place, given: as `Answerer.open` has them.

    Raises:
        TaskError: no installed distribution answers by models.
        ModelFileError: there is no model, or several answerers open it.
    """
    names = default_catalogue().names(ANSWERERS)
    if not names:
        raise TaskError(
            "no installed distribution answers queries by models; `pip install peirce-kg` brings models that do, and "
            "--graph GRAPH without a model answers exactly"
        )
    known = {name: class_named(ANSWERERS, name, Answerer) for name in names}
    found = {name: kind for name, kind in known.items() if kind.opens(place)}
    if len(found) > 1:
        raise ModelFileError(
            f"{place} is opened by the answerers {' and '.join(found)}; switch the plug-in of one off with "
            "`peirce plugins disable`"
        )
    if not found:
        what = (
            f"{place} holds no model that answers queries" if place.exists() else f"there is no model {place}"
        )
        raise ModelFileError(
            f"{what}; `peirce train --task kgqa` and `peirce export` make one of a graph, `peirce import ultra WEIGHTS "
            f"-o {place}` one for any graph of published weights, as at github.com/DeepGraphLearning/ULTRA"
        )
    return next(iter(found.values())).open(place, given)
