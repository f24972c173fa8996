"""The formats of Peirce's own folders, and those that hold a graph alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from peirce.errors import TaskError
from peirce_queries.exchange.content import Content
from peirce_queries.exchange.contract import GraphWriter, QueryWriter
from peirce_queries.graphs.graph import Graph
from peirce_queries.graphs.ntriples import write_line
from peirce_queries.languages.language import Query
from peirce_queries.sampling.files import (
    DESCRIPTION,
    Description,
    TypeRequest,
    fingerprint,
    type_file,
    write_type,
)


class Tsv(GraphWriter):
    """Triples of names with tabs between, a file for each split."""

    @staticmethod
    def write_graph(folder: Path, graph: Graph) -> None:
        """See `GraphWriter.write_graph`."""
        write_lines(folder, graph, "tsv", tab_separated)


class NTriples(GraphWriter):
    """N-Triples, a file for each split."""

    @staticmethod
    def write_graph(folder: Path, graph: Graph) -> None:
        """See `GraphWriter.write_graph`."""
        write_lines(folder, graph, "nt", write_line)


class IndexFolder(GraphWriter):
    """An index that opens without being read."""

    @staticmethod
    def write_graph(folder: Path, graph: Graph) -> None:
        """See `GraphWriter.write_graph`."""
        graph.write(folder)


class Samples(Tsv, QueryWriter):
    """What `peirce kg sample` writes, beside the graph as TSV."""

    @staticmethod
    def check(query: Query) -> None:
        """Every query can be said."""

    @staticmethod
    def write_queries(folder: Path, content: Content) -> None:
        """See `QueryWriter.write_queries`."""
        graph = content.graph
        for split, sets in content.sets.items():
            types = tuple(TypeRequest(queries.type, len(queries)) for queries in sets)
            most = max((int(queries.answers[split].counts.max()) for queries in sets), default=0)
            description = Description(
                graph.name, fingerprint(graph), split, 0, most, types, source=content.source
            )
            (folder / split).mkdir()
            (folder / split / DESCRIPTION).write_text(description.to_json(), encoding="utf-8")
            for queries in sets:
                path = type_file(folder / split, queries.type.name)
                write_type(path, queries.type, description, graph, [queries])


def write_lines(folder: Path, graph: Graph, ending: str, line: Callable[[str, str, str], str]) -> None:
    """Write a graph as a file of lines for each split."""
    entities, relations = graph.entity_names, graph.relation_names
    for split, triples in graph.added.items():
        with (folder / f"{split}.{ending}").open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(line(entities[h], relations[r], entities[t]) for h, r, t in triples.tolist())


def tab_separated(*names: str) -> str:
    """Names as a line with tabs between; a `TaskError` where a name cannot stand in one."""
    for name in names:
        if {*"\t\n\r"} & {*name} or not name or name != name.strip():
            raise TaskError(f"a TSV file cannot hold the name {name!r}; write --to nt, which can")
    return "\t".join(names) + "\n"
