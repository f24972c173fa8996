"""Queries as nested tuples: BetaE's and "+H" pickles, and Query2box's.

BetaE (Ren & Leskovec, 2020; github.com/snap-stanford/KGReasoning, README.md and create_queries.py) keeps queries by
structure: `('e', ('r', 'r', 'n'))` goes along two relations from an entity and takes the complement, several structures
in a tuple intersect, and with `('u',)` behind them they unite; in a query `n` is -2 and `u` is -1. A query's answers
are those of the graph before its split, in `SPLIT-easy-answers.pkl`, and those that its graph adds, in
`SPLIT-hard-answers.pkl`. "+H" files (github.com/april-tools/is-cqa-complex, create_queries.py) are the same, with fewer
hard answers and all others among the easy ones.

Query2box (Ren et al., 2020; github.com/hyren/query2box, codes/run.py and codes/model.py) has a file a type,
`SPLIT_ans_TYPE.pkl`, of queries with all their answers, and `SPLIT_ans_TYPE_hard.pkl` with those that the split adds.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from peirce.errors import TaskError

from peirce_kg.exchange.content import Content, Found, columns, inferred
from peirce_kg.exchange.pickles import read_pickle
from peirce_kg.graphs.graph import SPLITS, Graph, Split
from peirce_kg.queries.conversion import to_efo, to_lisp
from peirce_kg.queries.language import Constant, Query
from peirce_kg.queries.lisp import Complement, Intersection, Projection, SetExpression, Union
from peirce_kg.queries.parsing import QueryError

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
"""Query2box's types: what it calls them within a file, and their structure in BetaE's files."""


def read_betae(folder: Path) -> Iterator[Found]:
    """The queries of BetaE's files; a `TaskError` where one is missing or malformed."""
    for split in SPLITS:
        for path in sorted(folder.glob(f"{split}*-queries.pkl")):
            stem = path.name.removesuffix("queries.pkl")
            names = ("answers",) if split == "train" else ("easy-answers", "hard-answers")
            parts = [_mapping(folder / f"{stem}{name}.pkl") for name in names]
            for structure, queries in _mapping(path).items():
                place = f"{path}, {structure!r}"[:300]
                try:
                    listed = sorted(queries)
                    rows = [_numbers(structure, each) for each in listed]
                    found = [[part.get(each, ()) for each in listed] for part in parts]
                except (TypeError, ValueError) as error:
                    raise TaskError(
                        f"{place} is no structure of queries ({error}); get the file again"
                    ) from error
                own = SPLITS[SPLITS.index(split) - len(found) + 1 : SPLITS.index(split) + 1]
                told = dict(zip(own, found, strict=True))
                yield _found(place, split, structure, rows, told, adds=split != "train")


def read_query2box(folder: Path) -> Iterator[Found]:
    """The queries of Query2box's files; a `TaskError` where one is missing or malformed."""
    for split in SPLITS:
        for name, (_, structure) in _QUERY2BOX.items():
            path = folder / f"{split}_ans_{name}.pkl"
            if not path.is_file():
                continue
            every = _mapping(path)
            hard = {} if split == "train" else _mapping(folder / f"{split}_ans_{name}_hard.pkl")
            try:
                rows = [list(_leaves(query)) for query in every]
                told: dict[Split, list[Any]] = {split: list(every.values())}
                if split != "train":
                    before = SPLITS[SPLITS.index(split) - 1]
                    told[before] = [{*found} - {*hard.get(query, ())} for query, found in every.items()]
            except TypeError as error:
                raise TaskError(
                    f"{path} holds no queries with their answers ({error}); get it again"
                ) from error
            yield _found(str(path), split, structure, rows, told, adds=False)


def _mapping(path: Path) -> dict[Any, Any]:
    content = read_pickle(path)
    if not isinstance(content, dict):
        raise TaskError(
            f"{path} holds a {type(content).__name__}, where a dict of queries belongs; get it again"
        )
    return content


def _found(
    place: str,
    split: Split,
    structure: Any,
    rows: Sequence[list[int]],
    told: Mapping[Split, Sequence[Any]],
    *,
    adds: bool,
) -> Found:
    """The queries of a structure; those whose structure no formula says come with the reason."""
    slots: list[str] = []
    query, refusal = None, ""
    try:
        query = to_efo(_expression(structure, slots, {"r": count(1), "s": count(1)}))
    except QueryError as error:
        refusal = str(error)
    if any(len(row) != len(slots) for row in rows):
        raise TaskError(f"{place} has queries of another structure; get the file again")
    return Found(place, split, query, slots, rows, told, adds=adds, refusal=refusal)


def _expression(structure: Any, slots: list[str], numbers: Mapping[str, Iterator[int]]) -> SetExpression:
    """The set that a structure describes; its placeholders are added to `slots`, in the order of a query's numbers."""

    def slot(kind: str) -> str:
        slots.append(f"{kind}{next(numbers[kind])}")
        return slots[-1]

    match structure:
        case (*operands, ("u",)) if len(operands) > 1:
            return Union(tuple(_expression(operand, slots, numbers) for operand in operands))
        case (base, (_, *_) as steps) if all(step in ("r", "n") for step in steps):
            found = Constant(slot("s")) if base == "e" else _expression(base, slots, numbers)
            for step in steps:
                if step == "r":
                    found = Projection(slot("r"), found)
                elif isinstance(found, Constant):
                    raise QueryError(
                        f"{structure!r} is the complement of an entity, which is no set of a relation"
                    )
                else:
                    found = Complement(found)
            if not isinstance(found, Constant):
                return found
        case (_, _, *_):
            return Intersection(tuple(_expression(operand, slots, numbers) for operand in structure))
    raise QueryError(f"{structure!r} is no structure of a query")


def _numbers(structure: Any, query: Any) -> list[int]:
    """The numbers of a query's entities and relations, in order; a `ValueError` where it has another structure."""
    if structure in ("e", "r") and type(query) is int:
        return [query]
    if structure in _MARKS and query == _MARKS[structure]:
        return []
    if isinstance(structure, tuple) and isinstance(query, tuple):
        return [n for one, own in zip(structure, query, strict=True) for n in _numbers(one, own)]
    raise ValueError(f"{query!r} is no query of it"[:200])


def _leaves(query: Any) -> Iterator[int]:
    for part in query if isinstance(query, tuple) else ():
        if isinstance(part, tuple):
            yield from _leaves(part)
        else:
            yield part


def structure_of(query: Query) -> Any:
    """The structure of an abstract query, with placeholders in it; a `QueryError` where sets cannot say it."""
    return _structure(to_lisp(query))


def _structure(expression: SetExpression | Constant) -> Any:
    match expression:
        case Constant(name):
            return name
        case Projection(relation, operand):
            return _along(operand, relation)
        case Complement(operand):
            return _along(operand, "n")
        case Intersection(operands):
            return tuple(map(_structure, operands))
        case Union(operands):
            return (*map(_structure, operands), ("u",))


def _along(operand: SetExpression | Constant, step: str) -> Any:
    found = _structure(operand)
    base, steps = found if isinstance(operand, Projection | Complement) else (found, ())
    return base, (*steps, step)


def _filled(structure: Any, values: Mapping[str, Any]) -> Any:
    return (
        tuple(_filled(part, values) for part in structure)
        if isinstance(structure, tuple)
        else values[structure]
    )


def _kinds(structure: Any) -> Any:
    """A structure with `e` and `r` in place of its placeholders."""
    if isinstance(structure, tuple):
        return tuple(map(_kinds, structure))
    return structure if structure in _MARKS else {"s": "e", "r": "r"}[structure[0]]


def write_betae(folder: Path, content: Content) -> None:
    """Write the queries that sets can say as BetaE's files."""
    for split, sets in content.sets.items():
        queries: defaultdict[Any, set[Any]] = defaultdict(set)
        easy, hard = (defaultdict[Any, set[int]](set) for _ in range(2))
        for own in sets:
            structure = structure_of(own.type.query)
            before, added = inferred(own, content.graph.entities)
            for row, ids in enumerate(columns(own)):
                query = _filled(structure, {**ids, **_MARKS})
                queries[_kinds(structure)].add(query)
                easy[query], hard[query] = {*before[row].tolist()}, {*added[row].tolist()}
        files = {"queries": queries, "hard-answers": hard, "easy-answers": easy}
        if split == "train":
            files = {"queries": queries, "answers": hard}
        for name, value in files.items():
            (folder / f"{split}-{name}.pkl").write_bytes(pickle.dumps(value, 4))


def query2box_type(query: Query) -> str:
    """What Query2box calls the type of a query; a `QueryError` where it has none."""
    kinds = _kinds(structure_of(query))
    for name, (_, structure) in _QUERY2BOX.items():
        if kinds == structure:
            return name
    raise QueryError(f"it is none of Query2box's types, which are {', '.join(_QUERY2BOX)}")


def write_query2box(folder: Path, content: Content) -> None:
    """Write the queries of Query2box's types as its files."""
    for split, sets in content.sets.items():
        for own in sets:
            name = query2box_type(own.type.query)
            structure, (called, _) = structure_of(own.type.query), _QUERY2BOX[name]
            before, added = inferred(own, content.graph.entities)
            triples, every, hard = list[Any](), dict[Any, set[int]](), dict[Any, set[int]]()
            for row, ids in enumerate(columns(own)):
                query = _filled(structure, {**ids, **_MARKS})
                tail = next(iter(added[row].tolist()), -1)
                if name.endswith("c") and name[0].isdigit():
                    triples.append(((*query, tail), called))
                    query = (query,)
                else:
                    query = (
                        (*query[0][:2], query[1][0])
                        if name in ("ic", "uc")
                        else query[: 3 if name == "3i" else 2]
                    )
                    triples.append((*query, tail, called))
                every[query] = {*before[row].tolist(), *added[row].tolist()}
                hard[query] = {*added[row].tolist()}
            files = {f"triples_{name}": triples, f"ans_{name}": every, f"ans_{name}_hard": hard}
            for file in list(files)[: 2 if split == "train" else 3]:
                (folder / f"{split}_{file}.pkl").write_bytes(pickle.dumps(files[file], 4))


def write_numbered(
    folder: Path, graph: Graph, names: tuple[str, str], inverse: tuple[str, str] | None
) -> None:
    """Write a graph as numbers, with its vocabulary and sizes.

    Args:
        folder: where to.
        graph: the graph.
        names: the files of the names of entities and of relations by number.
        inverse: the files of their numbers by name, where the format has them.
    """
    tables = (graph.entity_names, graph.relation_names)
    for file, table in zip(names, tables, strict=True):
        (folder / file).write_bytes(pickle.dumps(dict(enumerate(table)), 4))
    for file, table in zip(inverse or (), tables if inverse else (), strict=True):
        (folder / file).write_bytes(pickle.dumps({name: i for i, name in enumerate(table)}, 4))
    (folder / "stats.txt").write_text(f"numentity: {graph.entities}\nnumrelations: {graph.relations}\n")
    for split, triples in graph.added.items():
        lines = "".join(f"{h}\t{r}\t{t}\n" for h, r, t in triples.tolist())
        (folder / f"{split}.txt").write_text(lines)
