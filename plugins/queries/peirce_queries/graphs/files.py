"""Reads triples of names: files of lines with tabs, .tsv or .txt, and of N-Triples, and pykeen's data sets.

Files are read a line at a time; whatever is wrong in one is named by file and line.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from peirce.errors import TaskError, unknown
from peirce.extras import require
from peirce.files import open_file, read_lines
from peirce_queries.graphs.index import SPLITS, Split
from peirce_queries.graphs.ntriples import MalformedError, parse_line

Triple: TypeAlias = tuple[str, str, str]
"""Head, relation and tail."""

ENDINGS = (".tsv", ".tsv.gz", ".txt", ".txt.gz", ".nt", ".nt.gz")
"""How the files of a folder may end."""
_HEADINGS = {
    "head": {"head", "subject", "subj", "sub", "source", "src", "from", "start", "node1", "entity1"},
    "relation": {"relation", "relationship", "rel", "predicate", "pred", "edge", "property", "type", "label"},
    "tail": {"tail", "object", "obj", "target", "tgt", "dst", "to", "end", "node2", "entity2"},
}
"""What the columns of triples are called in headers, beside h, r, t and s, p, o."""
_BESIDE = {"", "id", "name", "node", "entity", "index", "idx", "uri", "iri"}
"""Words that may stand beside these, as in `:START_ID`."""

_PYKEEN = {"umls": "UMLS", "kinship": "Kinships", "kinships": "Kinships", "nations": "Nations"}


def read_folder(folder: Path) -> dict[Split, Iterator[Triple]]:
    """The triples of train, valid and test in a folder, read while they are iterated.

    Raises:
        TaskError: a file is missing or there twice; while iterating, a file cannot be read or a line is malformed.
    """
    return {split: read_file(_file(folder, split)) for split in SPLITS}


def read_file(path: Path) -> Iterator[Triple]:
    """The triples of one .tsv, .txt or .nt file, plain or with .gz, read while they are iterated.

    Raises:
        TaskError: the ending is another one; while iterating, the file cannot be read or a line is malformed.
    """
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    if ending not in ("tsv", "txt", "nt"):
        raise TaskError(
            f"{path} does not end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}; save it as .tsv, with a tab after the "
            "head and after the relation, or as N-Triples"
        )
    return read_triples(path, parse_line) if ending == "nt" else _read_table(path)


def read_pykeen(source: str) -> tuple[list[str], list[str], dict[Split, NDArray[np.int32]]]:
    """Entity names, relation names and numbered triples, int32 [n, 3] per split, of a data set of pykeen.

    Raises:
        TaskError: pykeen is not installed, knows no such data set, or cannot provide it.
    """
    require(f"the graph {source!r}", "pykeen", extra="peirce-queries[pykeen]", instead="give a folder")
    from pykeen.datasets import dataset_resolver

    known = {name.lower(): name for name in dataset_resolver.lookup_dict}
    key = _PYKEEN.get(source.lower(), source).lower()
    if key not in known:
        message = unknown("graph", source, dict.fromkeys([*_PYKEEN, *known]))
        raise TaskError(f"{message}. There is no folder or file of that name either")
    try:
        data = dataset_resolver.lookup(known[key])()
        factories = (data.training, data.validation, data.testing)
    except (ImportError, OSError, ValueError) as error:
        raise TaskError(f"pykeen cannot provide the graph {source!r}: {error}") from error
    triples: dict[Split, NDArray[np.int32]] = {}
    for split, factory in zip(SPLITS, factories, strict=True):
        if factory is None:
            raise TaskError(f"pykeen's graph {source!r} has no {split} split; give a folder with one")
        triples[split] = factory.mapped_triples.numpy().astype(np.int32)
    entities, relations = (sorted(ids, key=ids.get) for ids in (data.entity_to_id, data.relation_to_id))
    return entities, relations, triples


def _read_table(path: Path) -> Iterator[Triple]:
    triples = read_triples(path, _tab_separated)
    for first in triples:
        if (columns := _columns(first)) is not None:
            order = (
                "" if columns == [*_HEADINGS] else ", and put the columns in the order head, relation, tail"
            )
            raise TaskError(
                f"{path}, line 1: {', '.join(first)} is a header, and every line must be a triple; remove it{order}"
            )
        yield first
        yield from triples


def _columns(names: Triple) -> list[str] | None:
    """What the columns of a header are, in its order; None for the names of a triple."""
    lower = [name.casefold() for name in names]
    for letters in ("hrt", "spo"):
        if sorted(lower) == sorted(letters):
            return [[*_HEADINGS][letters.index(each)] for each in lower]
    words = [{*re.split(r"[^a-z0-9]+", name)} - _BESIDE for name in lower]
    columns = [column for each in words for column, known in _HEADINGS.items() if each and each <= known]
    return columns if sorted(columns) == sorted(_HEADINGS) else None


def _tab_separated(line: str) -> Triple:
    """The names of a line, without spaces around them."""
    parts = [part.strip() for part in line.split("\t")]
    if len(parts) != 3 or not all(parts):
        raise MalformedError(f"expected head, relation and tail separated by tabs, found {line[:200]!r}")
    return parts[0], parts[1], parts[2]


def _file(folder: Path, split: str) -> Path:
    found = [path for ending in ENDINGS if (path := folder / f"{split}{ending}").is_file()]
    if not found:
        raise TaskError(
            f"{folder} has no {split} split: none of {', '.join(f'{split}{each}' for each in ENDINGS)}"
        )
    if len(found) > 1:
        raise TaskError(f"{folder} has {' and '.join(path.name for path in found)}; keep one of them")
    return found[0]


def read_triples(path: Path, parse: Callable[[str], Triple | None]) -> Iterator[Triple]:
    """The triples of a file of lines, read while they are iterated.

    Args:
        path: the file.
        parse: gives the triple of a line, None where it has none, and raises `MalformedError` where it should have.

    Raises:
        TaskError: the file cannot be read or a line is malformed; it is named by file and line.
    """
    lines = 0
    try:
        with open_file(path) as file:
            for raw in read_lines(file):
                lines += 1
                if lines == 1:  # a byte order mark would be part of the first name
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                if (triple := parse(raw.decode("utf-8").rstrip("\r\n"))) is not None:
                    yield triple
    except MalformedError as error:
        raise TaskError(f"{path}, line {lines}: {error}") from None
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}, line {lines}: not UTF-8: {error}") from error
    except OSError as error:
        raise TaskError(f"{path}: cannot be read after line {lines}: {error}") from error
