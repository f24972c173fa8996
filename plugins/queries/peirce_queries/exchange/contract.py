"""The contracts of a format of files: a class of one fulfils those of what can be read from it or written in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from peirce_queries.exchange.content import Content, FileQueries
from peirce_queries.graphs.graph import Graph, Ints
from peirce_queries.languages.language import Query


class Format:
    """A format of files with graphs or queries. A plug-in registers one by `register_formats`."""


class GraphReader(Format, ABC):
    """A format whose folders say what the numbers in files of queries mean.

    Attributes:
        graph_file: a file that each of its folders has, and no folder of another format.
    """

    graph_file: ClassVar[str]

    @staticmethod
    @abstractmethod
    def read_graph(folder: Path) -> tuple[Graph, Ints, Ints]:
        """The graph of a folder, and the graph's ids of the entities and of the relations with each number.

        Raises:
            TaskError: a file is missing or damaged.
        """


class QueryReader(Format, ABC):
    """A format of files of queries.

    Attributes:
        query_files: the pattern of their names, as shells have it.
    """

    query_files: ClassVar[str]

    @staticmethod
    @abstractmethod
    def read_queries(paths: Sequence[Path]) -> Iterator[FileQueries]:
        """The queries of files.

        Raises:
            TaskError: a file is missing or malformed.
        """


class GraphWriter(Format, ABC):
    """A format that graphs are written in."""

    @staticmethod
    @abstractmethod
    def write_graph(folder: Path, graph: Graph) -> None:
        """Write a graph into an empty folder.

        Raises:
            TaskError: the format cannot hold the graph.
        """


class QueryWriter(GraphWriter):
    """A format that graphs and queries are written in."""

    @staticmethod
    @abstractmethod
    def check(query: Query) -> None:
        """Refuse, by a `QueryError`, the abstract query of a type that the format cannot say."""

    @staticmethod
    @abstractmethod
    def write_queries(folder: Path, content: Content) -> None:
        """Write queries into the folder of their graph."""
