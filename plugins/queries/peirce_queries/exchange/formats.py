"""The formats that graphs and queries are converted between: how each is known, read and written."""

from __future__ import annotations

import os
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

from attrs import evolve, field, frozen
from peirce.errors import TaskError, check_known
from peirce.files import scratch, writing

from peirce_queries.exchange import texts, tuples
from peirce_queries.exchange.content import VOCABULARIES, Content, Count, convert, read_numbered
from peirce_queries.graphs.graph import SPLITS, Graph, load_graph
from peirce_queries.graphs.ntriples import write_line
from peirce_queries.languages.conversion import NoLispFormError
from peirce_queries.languages.language import Query
from peirce_queries.languages.parsing import QueryError
from peirce_queries.languages.types import load_types
from peirce_queries.sampling import files
from peirce_queries.sampling.files import DESCRIPTION, Description, TypeAsked

_READERS = {
    "*-queries.pkl": tuples.read_betae,
    "*_ans_*.pkl": tuples.read_query2box,
    "*qaa.json": texts.read_efok,
    "*_queries*.json": texts.read_sqe,
}
"""Readers of queries by what their files are called."""


@frozen
class Format:
    """How a format is written.

    Args:
        graph: writes a graph into a folder.
        queries: writes the queries into it; None where the format holds a graph alone.
        check: raises a `QueryError` for the query of a type that the format cannot say.
    """

    graph: Callable[[Path, Graph], None]
    queries: Callable[[Path, Content], None] | None = None
    check: Callable[[Query], object] = field(default=lambda query: None)


def read(source: str, graph: str | None, types_file: Path | None) -> Content:
    """The graph and the queries of a folder or a file, whatever format they have.

    Args:
        source: what to read.
        graph: where the graph lies, or the vocabulary, if not beside the queries.
        types_file: the only types to read, by name; the known ones and all others where None.

    Raises:
        TaskError: nothing there is known, or a file is missing, damaged or malformed.
    """
    path = Path(source).expanduser()
    folder, inside = (path, sorted(path.iterdir())) if path.is_dir() else (path.parent, [path])
    if there := [split for split in SPLITS if (path / split / DESCRIPTION).is_file()]:
        if graph is None and not any(file.name.startswith("train.") for file in inside):
            raise TaskError(
                f"{source} has queries and no graph; give --graph that which they were sampled from"
            )
        own, only = load_graph(graph or source), load_types(types_file) if types_file else None
        every = {split: files.read_queries(path, own, split) for split in there}
        sets = {s: [one for one in of if only is None or one.type.name in only] for s, of in every.items()}
        why = f"{types_file} has no type of that name"
        rows = [
            Count(s, one.type.name, len(one), None, "" if one in sets[s] else why)
            for s in there
            for one in every[s]
        ]
        return Content(own, sets, rows)
    matching = {pattern: [file for file in inside if fnmatch(file.name, pattern)] for pattern in _READERS}
    pattern = next((pattern for pattern, matched in matching.items() if matched), None)
    place = Path(graph).expanduser() if graph else folder
    form = next((form for form, names in VOCABULARIES.items() if (place / names[0]).is_file()), None)
    if pattern is None:
        return Content(read_numbered(place, form)[0] if form and path.is_dir() else load_graph(source))
    if form is None:
        wanted = ", ".join(names[0] for names in VOCABULARIES.values())
        raise TaskError(
            f"{place} has no vocabulary ({wanted}) to tell what the numbers in {source} mean; give --graph the folder "
            "of BetaE's, Query2box's or EFOK-CQA's graph that the queries were made from"
        )
    own, *meanings = read_numbered(place, form)
    found = _READERS[pattern](matching[pattern])
    return convert(found, own, meanings, load_types(types_file), types_file is not None)


def convert_files(source: str, to: str, output: Path, graph: str | None, types_file: Path | None) -> Content:
    """Read a graph and its queries, and write them into a new folder, whole or not at all.

    Args:
        source, graph, types_file: what to read, as for `read`.
        to: the format to write.
        output: the folder.

    Returns:
        What was written; `counts` also says which types the format cannot hold, and why.

    Raises:
        TaskError: the folder holds something, the format cannot hold the graph, or as `read`.
        WriteError: the disk takes no more.
    """
    check_known("format", to, FORMATS, TaskError)
    form, output = FORMATS[to], output.absolute()
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise TaskError(f"{output} holds something, and nothing is overwritten; give -o a new folder")
    if not output.parent.is_dir():
        raise TaskError(f"there is no folder {output.parent}; make it first")
    content, refused = read(source, graph, types_file), dict[str, str]()
    if types_file is not None and content.counts and not any(content.sets.values()):
        there = ", ".join(dict.fromkeys(row.type for row in content.counts))
        raise TaskError(
            f"{types_file} has no type of the queries in {source}, which are {there}; nothing would be left. Add some "
            "of these, or leave --types out"
        )
    for queries in (one for of in content.sets.values() for one in of):
        try:
            form.check(queries.type.query)
        except QueryError as error:
            reason = error.reason if isinstance(error, NoLispFormError) else error
            refused[queries.type.name] = f"{to} cannot say it: {reason}"
    counts = [
        row._replace(left_out=row.left_out or refused.get(row.type, ""))
        for row in content.counts
        if form.queries
    ]
    sets = {
        s: [q for q in of if q.type.name not in refused] for s, of in content.sets.items() if form.queries
    }
    content = evolve(content, sets=sets, counts=counts, source=Path(source).name)
    with writing(str(output)), scratch(output) as folder:
        whole = folder / "whole"
        whole.mkdir()
        form.graph(whole, content.graph)
        if form.queries is not None:
            form.queries(whole, content)
        os.replace(whole, output)
    return content


def _lines(ending: str, line: Callable[[str, str, str], str]) -> Callable[[Path, Graph], None]:
    """Writes a graph as a file of lines for each split."""

    def write(folder: Path, graph: Graph) -> None:
        entities, relations = graph.entity_names, graph.relation_names
        for split, triples in graph.added.items():
            with (folder / f"{split}.{ending}").open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(line(entities[h], relations[r], entities[t]) for h, r, t in triples.tolist())

    return write


def _tab_separated(*names: str) -> str:
    for name in names:
        if {*"\t\n\r"} & {*name} or not name.strip():
            raise TaskError(f"a TSV file cannot hold the name {name!r}; write --to nt, which can")
    return "\t".join(names) + "\n"


def _sampled(folder: Path, content: Content) -> None:
    """Write queries as `peirce kg sample` does."""
    graph = content.graph
    for split, sets in content.sets.items():
        asked = tuple(TypeAsked(q.type.name, str(q.type.query), q.type.seen, len(q)) for q in sets)
        most = max((int(q.answers[split].counts.max()) for q in sets), default=0)
        described = Description(
            graph.name, files.fingerprint(graph), split, 0, most, asked, source=content.source
        )
        (folder / split).mkdir()
        (folder / split / DESCRIPTION).write_text(described.to_json(), encoding="utf-8")
        for queries in sets:
            path = files.type_file(folder / split, queries.type.name)
            files.write_type(path, queries.type, described, graph, [queries])


def _query2box_graph(folder: Path, graph: Graph) -> None:
    """Write a graph as Query2box has it: triples of names, and what the numbers in its queries mean."""
    tuples.write_names(folder, graph, "ind")
    _lines("txt", _tab_separated)(folder, graph)


_TSV = _lines("tsv", _tab_separated)
FORMATS = {
    "peirce": Format(_TSV, _sampled),
    "betae": Format(tuples.write_graph, tuples.write_betae, tuples.structure_of),
    "query2box": Format(_query2box_graph, tuples.write_query2box, tuples.query2box_type),
    "sqe": Format(tuples.write_graph, texts.write_sqe, tuples.structure_of),
    "efok": Format(texts.write_graph, texts.write_efok),
    "tsv": Format(_TSV),
    "nt": Format(_lines("nt", write_line)),
    "index": Format(lambda folder, graph: graph.write(folder)),
}
"""How each format is written, by name."""
