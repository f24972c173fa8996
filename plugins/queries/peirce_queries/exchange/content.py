"""What files of queries have in common: numbers that a vocabulary explains, shapes, and answers on some graphs.

Every format is read into the project's own `Graph` and `QuerySet`, and written from them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from attrs import field, frozen

from peirce.errors import TaskError
from peirce.files import read_json
from peirce_queries.engine.answers import Answers, answers
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.exchange.pickles import read_pickle
from peirce_queries.graphs.files import Triple, read_triples
from peirce_queries.graphs.graph import SPLITS, Graph, Ints, Split, from_names
from peirce_queries.graphs.ntriples import MalformedError
from peirce_queries.languages.language import Query
from peirce_queries.languages.querygraph import QueryGraph
from peirce_queries.languages.types import QueryType, longer_types
from peirce_queries.sampling.sampler import QuerySet


@frozen(eq=False)
class FileQueries:
    """The queries of one shape in a file.

    Args:
        place: the file, and where in it.
        split: whose queries they are.
        query: the abstract query, or why there is none.
        slots: its placeholders, in the order of the columns.
        rows: the file's number of each placeholder of each query.
        answers: by split, the file's numbers of the answers of each query.
        adds: whether the answers of the own split are those alone that its graph adds.
        name: what the file calls the type, if it does.
    """

    place: str
    split: Split
    query: Query | str
    slots: Sequence[str]
    rows: Sequence[Sequence[int]]
    answers: Mapping[Split, Sequence[Collection[int]]]
    adds: bool = False
    name: str = ""


class Count(NamedTuple):
    """How many queries of a type there are, how many have exactly the graph's answers, and why they are left out."""

    split: Split
    type: str
    queries: int
    exact: int | None = None
    left_out: str = ""


@frozen(eq=False)
class Content:
    """A graph and its queries by split, a set per type.

    counts: of each split and type; source: where the queries come from.
    """

    graph: Graph
    sets: Mapping[Split, Sequence[QuerySet]] = field(factory=dict)
    counts: Sequence[Count] = ()
    source: str = ""


@contextmanager
def check_format(place: str) -> Iterator[None]:
    """Turn errors inside the block into a `TaskError` that names the place: the file does not follow its format."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        message = f"{type(error).__name__}: {error}"[:200]
        raise TaskError(
            f"{place[:300]}: the file does not follow the published format ({message}); fetch it again"
        ) from error


def split_of(path: Path) -> Split:
    """The split with which the name of a file begins."""
    for split in SPLITS:
        if path.name.startswith(split):
            return split
    raise TaskError(
        f"{path}: the name does not begin with a split; begin it with {', '.join(SPLITS)}, as its authors do"
    )


def splits_to(split: Split) -> tuple[Split, ...]:
    """The splits up to one."""
    return SPLITS[: SPLITS.index(split) + 1]


def read_object(path: Path) -> dict[str, Any]:
    """The object of a JSON file; a `TaskError` with the line if it is not one."""
    try:
        return dict(read_json(path))
    except (OSError, TypeError, ValueError) as error:
        raise TaskError(f"{path} cannot be read as a JSON object: {error}; get the file again") from error


def read_numbered(
    folder: Path, vocabularies: tuple[str, str], pattern: str, *, by_name: bool = False
) -> tuple[Graph, Ints, Ints]:
    """The graph of a folder whose triples are numbers, and what the numbers mean.

    Args:
        folder: the folder.
        vocabularies: its files with the names of entities and of relations.
        pattern: its files of triples, with `{}` for the split.
        by_name: whether names stand for themselves in triples.

    Returns:
        The graph, and the own ids of the entities and of the relations with each number; -1 where there is none.

    Raises:
        TaskError: a file is missing or damaged, or a number has no name; it is named by file and line.
    """
    tables = [_names(folder / file, key) for file, key in zip(vocabularies, "er", strict=True)]
    named = [{str(number): name for number, name in table.items()} for table in tables]
    if by_name:
        named = [known | {name: name for name in known.values()} for known in named]
    # ICEWS18+H has its triples in a folder of their own
    inner = folder / "KG_splits" if (folder / "KG_splits").is_dir() else folder

    def triple(line: str) -> Triple:
        try:
            head, relation, tail = line.split("\t")
            return named[0][head], named[1][relation], named[0][tail]
        except (KeyError, ValueError):
            known = " and ".join(dict.fromkeys(vocabularies))
            raise MalformedError(
                f"expected three numbers of {known} with tabs between, found {line[:200]!r}"
            ) from None

    triples = {split: read_triples(inner / pattern.format(split), triple) for split in SPLITS}
    graph = from_names(folder.resolve().name, triples)
    meanings = []
    for table, names in zip(tables, (graph.entity_names, graph.relation_names), strict=True):
        numbers = {name: i for i, name in enumerate(names)}
        meanings.append(np.full(max(table) + 1, -1, np.int64))
        meanings[-1][[*table]] = [numbers.get(name, -1) for name in table.values()]
    return graph, meanings[0], meanings[1]


def _names(path: Path, key: str) -> dict[int, str]:
    """The names of a vocabulary by number."""
    with check_format(str(path)):
        if path.suffix == ".json":
            table = {int(number): str(name) for name, number in read_object(path)[key].items()}
        else:
            table = {int(number): str(name) for number, name in read_pickle(path).items()}
        if len({*table.values()}) < len(table) or min(table) < 0 or max(table) >= 100 * len(table):
            raise ValueError("each number needs a name of its own")
        "".join(table.values()).encode()  # a file cannot hold every name that JSON and pickles can
    return table


def convert(
    found: Iterable[FileQueries],
    graph: Graph,
    meanings: Sequence[Ints],
    types: Mapping[str, QueryType],
    only: bool,
) -> Content:
    """The queries of files as sets of a graph: with own ids, names of types, and answers on every graph.

    Answers stay as the file has them, so that those of "+H" files that are easy do not become targets. Those on graphs
    that it does not tell of are computed, and so are all others, to say how many queries have exactly these.

    Args:
        found: what was read.
        graph, meanings: what its numbers mean, as `read_numbered` gives it.
        types: the types that are known by name.
        only: whether other types are left out.

    Raises:
        TaskError: a number means nothing.
    """
    known = {**({} if only else longer_types()), **types}
    sets: dict[Split, dict[str, list[QuerySet]]] = {}
    counts: dict[tuple[Split, str, str], list[int]] = {}
    for each in found:
        kind, slots = _match_type(each, known, only)
        refusal = (
            "" if kind else each.query if isinstance(each.query, str) else "its type is not among those given"
        )
        row = counts.setdefault((each.split, kind.name if kind else each.name or each.place, refusal), [0, 0])
        row[0] += len(each.rows)
        if kind is not None and len(each.rows):
            queries, exact = _complete_answers(each, kind, slots, graph, meanings)
            row[1] += exact
            sets.setdefault(each.split, {}).setdefault(kind.name, []).append(queries)
    joined = {split: [QuerySet.concatenate(parts) for parts in of.values()] for split, of in sets.items()}
    rows = [Count(s, name, n, None if why else exact, why) for (s, name, why), (n, exact) in counts.items()]
    return Content(graph, joined, sorted(rows, key=lambda row: SPLITS.index(row.split)))


def _match_type(
    each: FileQueries, known: dict[str, QueryType], only: bool
) -> tuple[QueryType | None, Sequence[str]]:
    """The type of some queries, and its placeholder for each of theirs; a new type if none matches."""
    if isinstance(each.query, str):
        return None, ()
    for kind in known.values():
        if names := correspondence(each.query, kind.query):
            return kind, [names[slot] for slot in each.slots]
    if only:
        return None, ()
    unnamed = sum(name.startswith("type-") for name in known)
    name = each.name if each.name and each.name not in known else f"type-{unnamed + 1}"
    known[name] = QueryType(name, each.query, seen=each.split == "train")
    return known[name], each.slots


def correspondence(query: Query, other: Query) -> dict[str, str] | None:
    """The other query's placeholder for each of a query's, where both say the same but for names and order.

    Compares the query graphs, in which the order of atoms does not matter.
    """
    from networkx import DiGraph
    from networkx.algorithms.isomorphism import DiGraphMatcher

    nodes, drawn = [], []
    for graph in map(QueryGraph.of, (query, other)):
        nodes.append(graph.nodes)
        drawn.append(DiGraph(graph.edges))
        drawn[-1].add_nodes_from((number, {"kind": node.kind}) for number, node in enumerate(graph.nodes))
    matcher = DiGraphMatcher(drawn[0], drawn[1], node_match=lambda one, two: bool(one["kind"] == two["kind"]))
    for image in matcher.isomorphisms_iter():
        pairs = {(nodes[0][one], nodes[1][two]) for one, two in image.items()}
        named = {(one.name, two.name) for one, two in pairs if one.kind in ("entity", "relation")}
        if len(named) == len(dict(named)) == len({name for _, name in named}):
            return dict(named)
    return None


def _complete_answers(
    each: FileQueries, kind: QueryType, slots: Sequence[str], graph: Graph, meanings: Sequence[Ints]
) -> tuple[QuerySet, int]:
    """The queries with own ids and answers on every graph, and how many have exactly the graph's answers."""

    def graph_ids(numbers: Any, meaning: Ints) -> Ints:
        numbers = np.asarray(numbers, np.int64)
        known = (numbers >= 0) & (numbers < len(meaning))
        ids = np.where(known, meaning[np.where(known, numbers, 0)], -1)
        if (ids < 0).any():
            raise TaskError(
                f"{each.place} has the number {numbers[ids < 0][0]}, which has no name or no triple in the graph; give "
                "--graph the folder that the queries were made from"
            )
        return ids

    template = Template.of(kind.query)
    with check_format(each.place):
        columns = [
            graph_ids([row[slots.index(slot)] for row in each.rows], meanings[slot[0] == "r"])
            for slot in (*template.relations, *template.constants)
        ]
        given = {}
        for split, sets in each.answers.items():
            entities = graph_ids(list(chain.from_iterable(sets)), meanings[0])
            keys = np.repeat(np.arange(len(sets)), [*map(len, sets)]) * graph.entities + entities
            given[split] = np.unique(keys)
    relations, constants = np.split(np.stack(columns, axis=1), [len(template.relations)], axis=1)
    groundings = Groundings(relations, constants)
    exact = {s: answers(template, groundings, graph.index(s)) for s in SPLITS}
    if each.adds:  # of the answers before, a negation can take some away
        still = np.intersect1d(given[splits_to(each.split)[-2]], exact[each.split].keys(graph.entities))
        given[each.split] = np.union1d(given[each.split], still)
    same = np.ones(len(each.rows), dtype=bool)
    for split, keys in given.items():
        same[np.setxor1d(keys, exact[split].keys(graph.entities)) // graph.entities] = False
        exact[split] = Answers.of(keys, len(same), graph.entities)
    return QuerySet(kind, each.split, template, groundings, exact), int(same.sum())


def query_rows(queries: QuerySet, entities: int) -> Iterator[tuple[dict[str, int], list[int], list[int]]]:
    """Of each query the ids of its placeholders, the answers on the graph before its split, and those that are new."""
    template, ids, added = queries.template, queries.groundings, queries.answers[queries.split]
    before = Answers.of(np.empty(0, np.int64), len(queries), entities)
    if queries.split != "train":
        before = queries.answers[splits_to(queries.split)[-2]]
        added = added.minus(before, entities)
    names = (*template.relations, *template.constants)
    for row, values in enumerate(np.concatenate([ids.relations, ids.constants], axis=1).tolist()):
        yield dict(zip(names, values, strict=True)), before[row].tolist(), added[row].tolist()
