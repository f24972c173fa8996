"""Queries as nested tuples: BetaE's and "+H" pickles, and Query2box's.

BetaE (Ren & Leskovec, 2020; github.com/snap-stanford/KGReasoning, README.md and create_queries.py) keeps queries by
structure: `('e', ('r', 'r', 'n'))` goes along two relations from an entity and takes the complement, several structures
in a tuple intersect, and with `('u',)` behind them they unite; in a query `n` is -2 and `u` is -1. A query's answers
are those of the graph before its split, in `SPLIT-easy-answers.pkl`, and those that its graph adds, in
`SPLIT-hard-answers.pkl`. "+H" files (github.com/april-tools/is-cqa-complex, create_queries.py) are the same, with fewer
hard answers and all others among the easy ones.

Query2box (Ren et al., 2020; github.com/hyren/query2box, codes/run.py, model.py and dataloader.py) has a file a type,
`SPLIT_ans_TYPE.pkl`, of queries with all their answers, `SPLIT_ans_TYPE_hard.pkl` with those that the split adds, and
`SPLIT_triples_TYPE.pkl` with each query, one of its answers, and what the published code calls the type.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from peirce_queries.exchange.content import (
    Content,
    FileQueries,
    check_format,
    correspondence,
    query_rows,
    read_numbered,
    split_of,
    splits_to,
)
from peirce_queries.exchange.contract import GraphReader, QueryReader, QueryWriter
from peirce_queries.exchange.graphs import tab_separated, write_lines
from peirce_queries.exchange.pickles import read_pickle
from peirce_queries.graphs.graph import Graph, Ints, Split
from peirce_queries.languages.conversion import to_efo, to_lisp
from peirce_queries.languages.language import Constant, Query
from peirce_queries.languages.lisp import Complement, Intersection, Projection, SetExpression, Union
from peirce_queries.languages.parsing import QueryError

_MARKS = {"n": -2, "u": -1}
_E = ("e", ("r",))
_QUERY2BOX: dict[str, tuple[str, Any]] = {
    "1c": ("1-chain", _E),
    "2c": ("2-chain", ("e", ("r", "r"))),
    "3c": ("3-chain", ("e", ("r", "r", "r"))),
    "2i": ("2-inter", (_E, _E)),
    "3i": ("3-inter", (_E, _E, _E)),
    "ic": ("inter-chain", ((_E, _E), ("r",))),
    "ci": ("chain-inter", (("e", ("r", "r")), _E)),
    "2u": ("2-union", (_E, _E, ("u",))),
    "uc": ("union-chain", ((_E, _E, ("u",)), ("r",))),
}
"""Query2box's types, what its code calls them, and their structure in BetaE's files."""


def _read_betae(paths: Sequence[Path]) -> Iterator[FileQueries]:
    """The queries of BetaE's files; a `TaskError` where one is missing or malformed."""
    for path in paths:
        split, stem = split_of(path), str(path).removesuffix("queries.pkl")
        names = ("answers",) if split == "train" else ("easy-answers", "hard-answers")
        parts = [read_pickle(Path(f"{stem}{name}.pkl")) for name in names]
        for structure, queries in read_pickle(path).items():
            with check_format(str(path)):  # a structure that is nested without end has no text
                place = f"{path}, {structure!r}"
            with check_format(place):
                query, slots = _query_of(structure)
                listed = sorted(queries)
                rows = [_numbers(structure, each) for each in listed]
                found = [[part.get(each, ()) for each in listed] for part in parts]
            reported = dict(zip(splits_to(split)[-len(parts) :], found, strict=True))
            yield FileQueries(place, split, query, slots, rows, reported, split != "train")


def _read_query2box(paths: Sequence[Path]) -> Iterator[FileQueries]:
    """The queries of Query2box's files; a `TaskError` where one is missing or malformed."""
    for path in paths:
        split, name = split_of(path), path.stem.rpartition("_")[2]
        if name not in _QUERY2BOX:
            continue
        every, (query, slots) = read_pickle(path), _query_of(_QUERY2BOX[name][1])
        with check_format(str(path)):
            rows = [[*_leaves(each)] for each in every]
            if any(len(row) != len(slots) for row in rows):
                raise ValueError(f"a query of {name} must have {len(slots)} numbers")
            reported: dict[Split, list[Any]] = {split: [*every.values()]}
            if split != "train":
                hard = read_pickle(path.with_name(f"{path.stem}_hard.pkl"))
                reported[splits_to(split)[-2]] = [
                    {*found} - {*hard.get(each, ())} for each, found in every.items()
                ]
        yield FileQueries(str(path), split, query, slots, rows, reported)


def _query_of(structure: Any) -> tuple[Query | str, list[str]]:
    """The query of a structure, or why no formula says it, and its placeholders in the order of a query's numbers."""
    slots, numbers = list[str](), {"r": count(1), "s": count(1)}

    def slot(kind: str) -> str:
        slots.append(f"{kind}{next(numbers[kind])}")
        return slots[-1]

    def expression(structure: Any) -> Any:
        match structure:
            case (*operands, ("u",)) if len(operands) > 1:
                return Union(tuple(map(expression, operands)))
            case (base, ("r" | "n", *_) as steps):
                found: Any = Constant(slot("s")) if base == "e" else expression(base)
                for step in steps:
                    if step == "r":
                        found = Projection(slot("r"), found)
                    elif step == "n" and not isinstance(found, Constant):
                        found = Complement(found)
                    else:
                        raise QueryError(f"{structure!r} is not the structure of a query")
                return found
            case (_, _, *_):
                return Intersection(tuple(map(expression, structure)))
        raise QueryError(f"{structure!r} is not the structure of a query")

    try:
        return to_efo(expression(structure)), slots
    except QueryError as error:
        return str(error), slots


def _numbers(structure: Any, query: Any) -> list[int]:
    """The numbers of a query's entities and relations, in order; a `ValueError` where it has another structure."""
    if structure in ("e", "r") and type(query) is int:
        return [query]
    if structure in _MARKS and query == _MARKS[structure]:
        return []
    if isinstance(structure, tuple) and isinstance(query, tuple):
        return [number for pair in zip(structure, query, strict=True) for number in _numbers(*pair)]
    raise ValueError(f"{query!r} does not have this structure")


def _leaves(query: Any) -> Iterator[int]:
    for part in query:
        yield from _leaves(part) if isinstance(part, tuple) else (part,)


def structure_of(query: Query) -> Any:
    """The structure of an abstract query, with placeholders in it; a `QueryError` where sets cannot say it."""

    def structure(expression: SetExpression | Constant) -> Any:
        match expression:
            case Constant(name):
                return name
            case Intersection(operands):
                return tuple(map(structure, operands))
            case Union(operands):
                return (*map(structure, operands), ("u",))
            case Projection(step, operand):
                pass
            case Complement(operand):
                step = "n"
        found = structure(operand)
        base, steps = found if isinstance(operand, Projection | Complement) else (found, ())
        return base, (*steps, step)

    return structure(to_lisp(query))


def _fill(structure: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(structure, tuple):
        return tuple(_fill(part, values) for part in structure)
    return values[structure]


def _write_betae(folder: Path, content: Content) -> None:
    """Write queries as BetaE's files."""
    for split, sets in content.sets.items():
        queries, easy, hard = (defaultdict[Any, set[Any]](set) for _ in range(3))
        for sampled in sets:
            structure, query = structure_of(sampled.type.query), sampled.type.query
            names = {
                **dict.fromkeys(query.relations, "r"),
                **dict.fromkeys(query.constants, "e"),
                "n": "n",
                "u": "u",
            }
            kinds = _fill(structure, names)
            for ids, before, added in query_rows(sampled, content.graph.entities):
                ground = _fill(structure, {**ids, **_MARKS})
                queries[kinds].add(ground)
                easy[ground], hard[ground] = {*before}, {*added}
        files = {"easy-answers": easy, "hard-answers": hard} if split != "train" else {"answers": hard}
        for name, value in {"queries": queries, **files}.items():
            (folder / f"{split}-{name}.pkl").write_bytes(pickle.dumps(value, 4))


def query2box_type(query: Query) -> tuple[str, list[str]]:
    """What Query2box calls the type of an abstract query, and the placeholders of it in the order of Query2box's
    numbers; a `QueryError` where it has no such type."""
    for name, (_, structure) in _QUERY2BOX.items():
        theirs, slots = _query_of(structure)
        if isinstance(theirs, Query) and (names := correspondence(theirs, query)):
            return name, [names[slot] for slot in slots]
    raise QueryError(f"Query2box has only {', '.join(_QUERY2BOX)}")


def _layout(structure: Any) -> Any:
    """A structure as Query2box writes its queries: a tuple of paths, and of the relation that follows them."""
    match structure:
        case ("e", _):
            return (structure,)
        case (inner, ("r",)):
            return (*_layout(inner), "r")
        case (*paths, ("u",)):
            return tuple(paths)
    return structure


def _write_query2box(folder: Path, content: Content) -> None:
    """Write queries as Query2box's files."""

    def ground(layout: Any, numbers: Iterator[int]) -> Any:
        return tuple(ground(one, numbers) for one in layout) if isinstance(layout, tuple) else next(numbers)

    for split, sets in content.sets.items():
        for queries in sets:
            name, slots = query2box_type(queries.type.query)
            kind, structure = _QUERY2BOX[name]
            every, hard, triples = dict[Any, set[int]](), dict[Any, set[int]](), []
            for ids, before, added in query_rows(queries, content.graph.entities):
                query = ground(_layout(structure), iter([ids[slot] for slot in slots]))
                every[query], hard[query] = {*before, *added}, {*added}
                tail = (added or before)[0]
                triples.append(((*query[0], tail), kind) if len(query) == 1 else (*query, tail, kind))
            files = {f"ans_{name}": every, f"triples_{name}": triples}
            for stem, value in (files if split == "train" else files | {f"ans_{name}_hard": hard}).items():
                (folder / f"{split}_{stem}.pkl").write_bytes(pickle.dumps(value, 4))


def _write_names(folder: Path, graph: Graph, number: str) -> None:
    """Write what the numbers of a graph mean, both ways, and its sizes; `number` stands for them in names of files."""
    for name, table in (("ent", graph.entity_names), ("rel", graph.relation_names)):
        (folder / f"{number}2{name}.pkl").write_bytes(pickle.dumps(dict(enumerate(table)), 4))
        ids = {each: i for i, each in enumerate(table)}
        (folder / f"{name}2{number}.pkl").write_bytes(pickle.dumps(ids, 4))
    (folder / "stats.txt").write_text(f"numentity: {graph.entities}\nnumrelations: {graph.relations}\n")


def write_graph(folder: Path, graph: Graph) -> None:
    """Write a graph as BetaE has it: numbers, their names both ways, and sizes."""
    _write_names(folder, graph, "id")
    for split, triples in graph.added.items():
        (folder / f"{split}.txt").write_text("".join(f"{h}\t{r}\t{t}\n" for h, r, t in triples.tolist()))


class BetaE(GraphReader, QueryReader, QueryWriter):
    """BetaE's files, and those of "+H"."""

    graph_file, query_files = "id2ent.pkl", "*-queries.pkl"
    read_queries = staticmethod(_read_betae)
    write_graph = staticmethod(write_graph)
    write_queries = staticmethod(_write_betae)

    @staticmethod
    def read_graph(folder: Path) -> tuple[Graph, Ints, Ints]:
        """See `GraphReader.read_graph`."""
        return read_numbered(folder, ("id2ent.pkl", "id2rel.pkl"), "{}.txt")

    @staticmethod
    def check(query: Query) -> None:
        """See `QueryWriter.check`."""
        structure_of(query)


class Query2Box(GraphReader, QueryReader, QueryWriter):
    """Query2box's files; its graph is triples of names, and what the numbers in its queries mean."""

    graph_file, query_files = "ind2ent.pkl", "*_ans_*.pkl"
    read_queries = staticmethod(_read_query2box)
    write_queries = staticmethod(_write_query2box)

    @staticmethod
    def read_graph(folder: Path) -> tuple[Graph, Ints, Ints]:
        """See `GraphReader.read_graph`."""
        return read_numbered(folder, ("ind2ent.pkl", "ind2rel.pkl"), "{}.txt", by_name=True)

    @staticmethod
    def write_graph(folder: Path, graph: Graph) -> None:
        """See `GraphWriter.write_graph`."""
        _write_names(folder, graph, "ind")
        write_lines(folder, graph, "txt", tab_separated)

    @staticmethod
    def check(query: Query) -> None:
        """See `QueryWriter.check`."""
        query2box_type(query)
