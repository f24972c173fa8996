"""Sampled queries in Parquet: a folder per split, a file per type, and a description of how they were sampled.

* `DIR/SPLIT/sample.json`: what was asked for, and which graph the ids belong to.
* `DIR/SPLIT/TYPE.parquet`: a row per query: its text, `query`, a column of ids for each placeholder, `r1`, `s1`, ...,
  and the sorted ids of its answers on each cumulative graph, `answers_train`, `answers_valid`, `answers_test`. Its
  metadata say whose it is: formula, graph, split and seed.

What a file holds depends on what was asked for and on nothing else, down to the last byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import cattrs
import numpy as np
from attrs import frozen

from peirce.errors import TaskError
from peirce.extras import require
from peirce.files import check_file, check_ratio, read_json
from peirce_queries.engine.answers import Answers
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.graphs.graph import SPLITS, Graph, Ints, Split
from peirce_queries.graphs.index import sort_rows
from peirce_queries.languages.language import FREE, Atom, Constant, parse
from peirce_queries.languages.types import QueryType
from peirce_queries.sampling.sampler import Block, QuerySet

if TYPE_CHECKING:
    import pyarrow

DESCRIPTION = "sample.json"
SCHEMA = "peirce.kg.queries/1"


@frozen
class TypeRequest:
    """A type of which queries are sampled, and how many."""

    kind: QueryType
    count: int

    @property
    def name(self) -> str:
        """The name of the type."""
        return self.kind.name


@frozen
class Description:
    """What the queries of a folder are: of a graph by its name and `fingerprint`; for the rest see `sampler.sample`.

    source: the files that they were converted from; nothing where they were sampled.
    """

    graph: str
    fingerprint: str
    split: Split
    seed: int
    max_answers: int
    types: tuple[TypeRequest, ...]
    schema: str = SCHEMA
    hard: bool = False
    source: str = ""

    def to_json(self) -> str:
        """The content of `sample.json`."""
        return json.dumps(_CONVERTER.unstructure(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Description:
        """Read it from the folder of a split.

        Raises:
            TaskError: there is none, or it is damaged or of a newer format.
        """
        path = folder / DESCRIPTION
        try:
            content = read_json(path)
            if content.get("schema") != SCHEMA:
                raise TaskError(
                    f"{path} has the schema {content.get('schema')!r}; this version reads {SCHEMA!r}"
                )
            return _CONVERTER.structure(content, cls)
        except FileNotFoundError:
            raise TaskError(
                f"{folder} holds no sampled queries; make them with `peirce kg sample --split {folder.name} -o "
                f"{folder.parent}`"
            ) from None
        except (OSError, ValueError, AttributeError, cattrs.BaseValidationError) as error:
            raise TaskError(f"{path} cannot be read: {error}; remove {folder} and sample again") from error


_CONVERTER = cattrs.Converter()


@_CONVERTER.register_unstructure_hook
def _type_table(sampled: TypeRequest) -> dict[str, Any]:
    """A type within `sample.json`."""
    kind = sampled.kind
    return {"name": kind.name, "formula": str(kind.query), "seen": kind.seen, "count": sampled.count}


@_CONVERTER.register_structure_hook
def _type_request(table: Any, _: type) -> TypeRequest:
    kind = QueryType(str(table["name"]), parse(str(table["formula"])), bool(table["seen"]))
    return TypeRequest(kind, int(table["count"]))


def fingerprint(graph: Graph) -> str:
    """A digest of what ids mean in a graph, and of its triples: SHA-256, in hexadecimal."""
    digest = hashlib.sha256()
    for names in (graph.entity_names, graph.relation_names):
        digest.update(json.dumps(names).encode())
    for added in graph.added.values():
        rows = sort_rows([*added.T[::-1]], (graph.entities, graph.relations, graph.entities))
        digest.update(np.stack(rows[::-1], axis=1).astype("<i4").tobytes())
    return digest.hexdigest()


def type_file(folder: Path, name: str) -> Path:
    """The file of a type in the folder of a split; what no file's name can have is escaped as in an address."""
    return folder / f"{quote(name, safe='+ ')}.parquet"


def read_samples(folder: Path, graph: Graph, split: Split) -> tuple[QuerySet, ...]:
    """The queries that `peirce kg sample` wrote, a set per type; types without a query are left out.

    Args:
        folder: what was given as `-o`.
        graph, split: what they were sampled from.

    Raises:
        TaskError: there are none, not yet all, a file is damaged, or they belong to another graph, split or seed.
    """
    place = folder / split
    described = Description.read(place)
    if described.fingerprint != fingerprint(graph):
        raise TaskError(
            f"the queries in {place} were sampled from another graph than {graph.name!r} is now "
            f"({described.graph!r}); their ids would mean other entities. Sample them again"
        )
    if described.split != split:
        raise TaskError(f"{place} holds {described.split} queries; name the folder so, or sample again")
    sets = [read_type(place, request, described, graph) for request in described.types]
    if not any(map(len, sets)):
        raise TaskError(f"the files in {place} hold no queries; sample other types, or from another graph")
    return tuple(queries for queries in sets if len(queries))


def read_type(folder: Path, request: TypeRequest, described: Description, graph: Graph) -> QuerySet:
    """The queries of one type in the folder of a split; a `TaskError` if the file is damaged or of other queries."""
    path = type_file(folder, request.name)
    if not path.is_file():
        finish = "run `peirce kg sample` again with its options to finish it"
        raise TaskError(f"{folder} has no {path.name} yet; {finish}")
    table = _read(path)
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    for key, wanted in _metadata(request.kind, described).items():
        # files of peirce 0.2 tell their formula alone
        if metadata.get(key, None if key == "formula" else wanted) != wanted:
            raise TaskError(
                f"{path} holds queries of another {'type' if key == 'formula' else key} ({metadata.get(key)}) than its "
                f"folder says ({wanted}); put the file back where it was, or remove it and sample again"
            )
    queries = _queries(table, request.kind, described.split)
    relations, constants = queries.groundings.relations, queries.groundings.constants
    entities = (constants, *(answers.entities for answers in queries.answers.values()))
    counts = {"relations": graph.relations, "entities": graph.entities}
    for ids, (what, count) in zip(((relations,), entities), counts.items(), strict=True):
        if any(len(each) and (each.min() < 0 or each.max() >= count) for each in ids):
            raise TaskError(
                f"{path} has ids of {what} that are not 0 to {count - 1}; remove it and sample again"
            )
    return queries


def _metadata(kind: QueryType, described: Description) -> dict[str, str]:
    """The metadata of a type's file, which are checked when it is read."""
    metadata = {"formula": str(kind.query), "graph": described.fingerprint, "split": described.split}
    return {**metadata, "seed": str(described.seed)}


def write_type(
    path: Path, kind: QueryType, described: Description, graph: Graph, sets: Iterable[QuerySet]
) -> None:
    """Write the queries of one type, a row group per set; `path` is written in place."""
    printed = _name_texts(graph)
    with ExitStack() as stack:
        writer: Any = None
        for queries in sets:
            table = _table(queries).add_column(0, "query", _texts(queries, printed))
            table = table.replace_schema_metadata({"type": kind.name, **_metadata(kind, described)})
            if writer is None:
                options = {"compression": "zstd", "use_dictionary": False, "write_page_checksum": True}
                writer = stack.enter_context(_parquet().ParquetWriter(path, table.schema, **options))
            writer.write_table(table, row_group_size=len(table) or 1)


def answer_counts(folder: Path, name: str, split: Split) -> Ints:
    """How many answers each query of a type has on the graph of its split: int64 [n]."""
    import pyarrow.compute as pc

    column = _read(type_file(folder, name), [f"answers_{split}"]).column(0)
    return pc.list_value_length(column).to_numpy().astype(np.int64)


def write_block(path: Path, block: Block) -> None:
    """Write a block, in place: ids and answers, whether it is the last, and the seconds that it took."""
    table = _table(block.queries)
    table = table.replace_schema_metadata({"last": str(int(block.last)), "seconds": repr(block.seconds)})
    _parquet().write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)


def read_block(path: Path, kind: QueryType, split: Split) -> Block:
    """The inverse of `write_block`."""
    table = _read(path)
    about = table.schema.metadata
    return Block(_queries(table, kind, split), about[b"last"] == b"1", float(about[b"seconds"]))


def _parquet() -> Any:
    require("a Parquet file", "pyarrow", extra="peirce-queries[parquet]")
    import pyarrow.parquet

    return pyarrow.parquet


def _read(path: Path, columns: Sequence[str] | None = None) -> pyarrow.Table:
    pq = _parquet()
    import pyarrow

    try:
        size = check_file(path)
        file = pq.ParquetFile(path, page_checksum_verification=True)
        groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
        check_ratio(sum(group.total_byte_size for group in groups), size)
        return file.read(columns=columns)
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise TaskError(
            f"{path} is damaged or not a Parquet file of queries: {error}; remove it and sample again"
        ) from error


def _table(queries: QuerySet) -> pyarrow.Table:
    """Ids and answers."""
    import pyarrow

    template, ids = queries.template, queries.groundings
    named = zip((*template.relations, *template.constants), (*ids.relations.T, *ids.constants.T), strict=True)
    columns = {name: pyarrow.array(column.astype(np.int32)) for name, column in named}
    for split, found in queries.answers.items():
        offsets, entities = found.offsets.astype(np.int32), found.entities.astype(np.int32)
        columns[f"answers_{split}"] = pyarrow.ListArray.from_arrays(offsets, entities)
    return pyarrow.table(columns)


def _queries(table: pyarrow.Table, kind: QueryType, split: Split) -> QuerySet:
    template = Template.of(kind.query)
    answers: dict[Split, Answers] = {}
    try:
        relations, constants = (
            np.array([_numbers(table[name]) for name in names]).reshape(len(names), len(table)).T
            for names in (template.relations, template.constants)
        )
        for each in SPLITS:
            lists = table[f"answers_{each}"].combine_chunks()
            counts = _numbers(lists.value_lengths())
            answers[each] = Answers(np.concatenate([[0], np.cumsum(counts)]), _numbers(lists.flatten()))
    except (KeyError, ValueError, AttributeError) as error:
        raise TaskError(
            f"a file of {kind.name} queries lacks a column of numbers, {error}; remove it and sample again"
        ) from error
    return QuerySet(kind, split, template, Groundings(relations, constants), answers)


def _numbers(column: Any) -> Ints:
    if column.null_count:
        raise ValueError("a row lacks a number")
    options = {} if hasattr(column, "chunks") else {"zero_copy_only": False}
    return column.to_numpy(**options).astype(np.int64)


def _name_texts(graph: Graph) -> tuple[pyarrow.Array, pyarrow.Array]:
    """The names of relations and of entities as they stand in queries."""
    import pyarrow

    entity = Constant("s")
    relations = [str(Atom(name, entity, FREE)).removesuffix("(s,f)") for name in graph.relation_names]
    return pyarrow.array(relations), pyarrow.array([str(Constant(name)) for name in graph.entity_names])


def _texts(queries: QuerySet, printed: tuple[pyarrow.Array, pyarrow.Array]) -> pyarrow.Array:
    """The queries in EFO syntax, all at once."""
    import pyarrow
    import pyarrow.compute as pc

    template, ids = queries.template, queries.groundings
    named = zip(
        printed, (template.relations, template.constants), (ids.relations.T, ids.constants.T), strict=True
    )
    columns = {
        slot: names.take(pyarrow.array(numbers))
        for names, slots, of in named
        for slot, numbers in zip(slots, of, strict=True)
    }
    # between marks that no printed query has, its parts are in turn text and placeholders
    marked = str(template.query.ground({name: f"\x01{name}\x01" for name in columns})).split("\x01")
    parts = [columns[part] if number % 2 else part for number, part in enumerate(marked)]
    return pc.binary_join_element_wise(*parts, "")
