"""Converts graphs and queries between the formats that are registered."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeVar

from attrs import evolve

from peirce.errors import TaskError, check_known
from peirce.files import explain_disk_errors, scratch_folder
from peirce.registry import class_named, default_catalogue
from peirce_queries.exchange.content import Content, Count, convert
from peirce_queries.exchange.contract import Format, GraphReader, GraphWriter, QueryReader, QueryWriter
from peirce_queries.graphs.graph import SPLITS, load_graph
from peirce_queries.hooks import FORMATS
from peirce_queries.languages.conversion import NoLispFormError
from peirce_queries.languages.parsing import QueryError
from peirce_queries.languages.types import load_types
from peirce_queries.sampling import files
from peirce_queries.sampling.files import DESCRIPTION

F = TypeVar("F", bound=Format)


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
        loaded, only = load_graph(graph or source), load_types(types_file) if types_file else None
        every = {split: files.read_samples(path, loaded, split) for split in there}
        sets = {s: [one for one in of if only is None or one.type.name in only] for s, of in every.items()}
        why = f"{types_file} has no type of that name"
        rows = [
            Count(s, one.type.name, len(one), None, "" if one in sets[s] else why)
            for s in there
            for one in every[s]
        ]
        return Content(loaded, sets, rows)
    place = Path(graph).expanduser() if graph else folder
    vocabularies = formats(GraphReader).values()  # type: ignore[type-abstract]
    vocabulary = next((each for each in vocabularies if (place / each.graph_file).is_file()), None)
    for form in formats(QueryReader).values():  # type: ignore[type-abstract]
        if paths := [file for file in inside if fnmatch(file.name, form.query_files)]:
            break
    else:
        return Content(
            vocabulary.read_graph(place)[0] if vocabulary and path.is_dir() else load_graph(source)
        )
    if vocabulary is None:
        wanted = ", ".join(each.graph_file for each in vocabularies)
        raise TaskError(
            f"{place} has no vocabulary ({wanted}) to tell what the numbers in {source} mean; give --graph the folder "
            "of the graph that the queries were made from"
        )
    loaded, *meanings = vocabulary.read_graph(place)
    return convert(form.read_queries(paths), loaded, meanings, load_types(types_file), types_file is not None)


def convert_files(source: str, to: str, output: Path, graph: str | None, types_file: Path | None) -> Content:
    """Read a graph and its queries, and write them into a new folder, whole or not at all.

    Args:
        source, graph, types_file: what to read, as for `read`.
        to: the format to write.
        output: the folder.

    Returns:
        What was written; `counts` also says which types the format cannot hold, and why.

    Raises:
        TaskError: the folder is not empty, the format cannot hold the graph, or as `read`.
        WriteError: the disk takes no more.
    """
    writers = formats(GraphWriter)  # type: ignore[type-abstract]
    check_known("format", to, writers, TaskError)
    form, output = writers[to], output.absolute()
    queries_too = issubclass(form, QueryWriter)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise TaskError(f"{output} is not empty, and nothing is overwritten; give -o a new folder")
    if not output.parent.is_dir():
        raise TaskError(f"there is no folder {output.parent}; make it first")
    content, refused = read(source, graph, types_file), dict[str, str]()
    if types_file is not None and content.counts and not any(content.sets.values()):
        there = ", ".join(dict.fromkeys(row.type for row in content.counts))
        raise TaskError(
            f"{types_file} has no type of the queries in {source}, which are {there}; add some "
            "of these, or leave --types out"
        )
    if issubclass(form, QueryWriter):
        for queries in (one for of in content.sets.values() for one in of):
            try:
                form.check(queries.type.query)
            except QueryError as error:
                reason = error.reason if isinstance(error, NoLispFormError) else error
                refused[queries.type.name] = f"{to} cannot say it: {reason}"
    counts = [
        row._replace(left_out=row.left_out or refused.get(row.type, ""))
        for row in content.counts
        if queries_too
    ]
    sets = {s: [q for q in of if q.type.name not in refused] for s, of in content.sets.items() if queries_too}
    content = evolve(content, sets=sets, counts=counts, source=Path(source).name)
    with explain_disk_errors(str(output)), scratch_folder(output) as folder:
        whole = folder / "whole"
        whole.mkdir()
        form.write_graph(whole, content.graph)
        if issubclass(form, QueryWriter):
            form.write_queries(whole, content)
        os.replace(whole, output)
    return content


def formats(contract: type[F]) -> dict[str, type[F]]:
    """The registered formats that fulfil a contract, by name."""
    names = default_catalogue().names(FORMATS)
    found = {name: class_named(FORMATS, name, Format) for name in names}
    return {name: form for name, form in found.items() if issubclass(form, contract)}
