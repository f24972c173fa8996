"""What files of queries have in common: numbers that a vocabulary explains, shapes, and answers on some graphs.

Every format is read into the project's own `Graph` and `QuerySet`, and written from them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from peirce.errors import TaskError
from peirce.files import read_json

from peirce_kg.engine.answers import Answers, answers
from peirce_kg.engine.template import Groundings, Template
from peirce_kg.exchange.pickles import read_pickle
from peirce_kg.graphs.files import Triple, read_triples
from peirce_kg.graphs.graph import SPLITS, Graph, Ints, Split, from_names
from peirce_kg.graphs.ntriples import MalformedError
from peirce_kg.queries.language import Query, parse
from peirce_kg.queries.querygraph import QueryGraph
from peirce_kg.queries.types import QueryType
from peirce_kg.sampling.sampler import QuerySet

VOCABULARIES = {
    "betae": ("id2ent.pkl", "id2rel.pkl", "{}.txt"),
    "query2box": ("ind2ent.pkl", "ind2rel.pkl", "{}.txt"),
    "efok": ("kgindex.json", "kgindex.json", "{}_kg.tsv"),
}
"""By format: the names of entities and of relations, and the triples of a split."""
_FURTHER = {
    "4p": "(r1(s1,e1))&(r2(e1,e2))&(r3(e2,e3))&(r4(e3,f))",
    "4i": "(r1(s1,f))&(r2(s2,f))&(r3(s3,f))&(r4(s4,f))",
}
"""Types that the "+H" benchmarks have beside those of TEGA (Gregucci et al., 2025)."""


@frozen(eq=False)
class Numbering:
    """What the numbers of files mean: the own id of each entity and each relation, -1 where the graph has none."""

    entities: Ints
    relations: Ints


@frozen(eq=False)
class Found:
    """The queries of one shape in a file.

    Args:
        place: the file, and where in it; for messages.
        split: whose queries they are.
        query: the abstract query; None with the reason in `refusal` where there is no formula.
        slots: the placeholders, in the order of the columns.
        rows: the file's number of each placeholder of each query.
        answers: by split, the file's numbers of the answers of each query; for the graphs that the file tells of.
        adds: whether the answers of the own split are those alone that its graph adds.
        name: what the file calls the type, if it does.
    """

    place: str
    split: Split
    query: Query | None
    slots: Sequence[str] = ()
    rows: Sequence[Sequence[int]] = ()
    answers: Mapping[Split, Sequence[Collection[int]]] = field(factory=dict)
    adds: bool = False
    name: str = ""
    refusal: str = ""


@frozen(eq=False)
class Content:
    """A graph, its queries by split, a set per type, and what became of each type of the source.

    told: a row of split, type, queries, how many of them have exactly the graph's answers, and why they were left out;
    source: where the queries come from.
    """

    graph: Graph
    sets: Mapping[Split, Sequence[QuerySet]] = field(factory=dict)
    told: Sequence[tuple[str, str, int, int | None, str]] = ()
    source: str = ""


def vocabulary_of(folder: Path) -> str | None:
    """The format of the vocabulary in a folder."""
    return next((name for name, files in VOCABULARIES.items() if (folder / files[0]).is_file()), None)


def read_numbered(folder: Path, form: str) -> tuple[Graph, Numbering]:
    """The graph of a folder whose triples are numbers, or names where Query2box has them, and what its numbers mean.

    Raises:
        TaskError: a file is missing or damaged, or a number has no name; it is named by file and line.
    """
    *vocabularies, pattern = VOCABULARIES[form]
    entities, relations = (_names(folder / file, key) for file, key in zip(vocabularies, "er", strict=True))
    # ICEWS18+H has its triples in a folder of their own
    inner = folder / "KG_splits" if (folder / "KG_splits").is_dir() else folder
    named = ({*entities.values()}, {*relations.values()}) if form == "query2box" else ((), ())

    def triple(line: str) -> Triple:
        fields = line.split("\t") if "\t" in line else line.split()
        if len(fields) != 3:
            raise MalformedError(f"expected three numbers with tabs between, found {line[:200]!r}")
        found = []
        for text, names, known in zip(fields, (entities, relations, entities), (named * 2)[:3], strict=True):
            name = text if text in known else names.get(int(text)) if text.isdecimal() else None
            if name is None:
                raise MalformedError(
                    f"{text[:200]!r} is no number of {' or '.join(dict.fromkeys(vocabularies))}"
                )
            found.append(name)
        return found[0], found[1], found[2]

    triples = {split: read_triples(inner / pattern.format(split), triple) for split in SPLITS}
    graph = from_names(folder.resolve().name, triples)
    own = ({n: i for i, n in enumerate(names)} for names in (graph.entity_names, graph.relation_names))
    numbers = []
    for names, ids in zip((entities, relations), own, strict=True):
        numbers.append(np.full(max(names) + 1, -1, np.int64))
        for number, name in names.items():
            numbers[-1][number] = ids.get(name, -1)
    return graph, Numbering(*numbers)


def _names(path: Path, key: str) -> dict[int, str]:
    """The names of a vocabulary by number."""
    found = read_object(path).get(key) if path.suffix == ".json" else read_pickle(path)
    if isinstance(found, dict) and path.suffix == ".json":
        found = {number: name for name, number in found.items()}
    well = (
        isinstance(found, dict)
        and found
        and {*map(type, found)} == {int}
        and {*map(type, found.values())} == {str}
    )
    if not well or min(found) < 0 or max(found) >= 100 * len(found) or len({*found.values()}) < len(found):
        raise TaskError(f"{path} does not give each number a name of its own; get it from its authors again")
    return found


def read_object(path: Path) -> dict[str, Any]:
    """The object of a JSON file; a `TaskError` with its line where it is none."""
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise TaskError(f"{path} cannot be read as JSON: {error}; get it from its authors again") from error
    if not isinstance(content, dict):
        raise TaskError(f"{path} holds no JSON object; give a file of queries")
    return content


def convert(
    found: Iterable[Found], graph: Graph, numbering: Numbering, types: Mapping[str, QueryType], only: bool
) -> Content:
    """The queries of files as sets of a graph: with own ids, names of types, and answers on every graph.

    Answers stay as the file has them. Those on graphs that it does not tell of are computed, and so are all of them to
    say how many queries have exactly the graph's answers; in "+H" files few do, as what is easy is no target there.

    Args:
        found: what was read.
        graph, numbering: what its numbers mean.
        types: the types that are known by name.
        only: whether other types are left out.

    Raises:
        TaskError: a number means nothing, or a query is malformed.
    """
    known = (
        dict(types)
        if only
        else {**{n: QueryType(n, parse(f), seen=False) for n, f in _FURTHER.items()}, **types}
    )
    sets: dict[Split, dict[str, list[QuerySet]]] = {}
    told: dict[tuple[str, str, str], list[int]] = {}
    for each in found:
        kind, slots = _kind(each, known, only)
        refusal = (
            each.refusal if kind is None and each.refusal else "" if kind else "it is none of the types given"
        )
        row = told.setdefault((each.split, kind.name if kind else each.name or each.place, refusal), [0, 0])
        row[0] += len(each.rows)
        if kind is not None and len(each.rows):
            queries, exact = _complete(each, kind, slots, graph, numbering)
            row[1] += exact
            sets.setdefault(each.split, {}).setdefault(kind.name, []).append(queries)
    joined = {s: [QuerySet.joined(parts) for parts in of.values()] for s, of in sets.items()}
    trained = {one.type.name for one in joined.get("train", ())}
    for split, of_split in joined.items():
        joined[split] = [
            one
            if one.type.name in types
            else evolve(one, type=evolve(one.type, seen=one.type.name in trained))
            for one in of_split
        ]
    rows = [(s, name, n, None if why else exact, why) for (s, name, why), (n, exact) in told.items()]
    return Content(graph, joined, rows)


def _kind(each: Found, known: dict[str, QueryType], only: bool) -> tuple[QueryType | None, Sequence[str]]:
    """The type of some queries, and its placeholder for each of theirs; a new type where none is like them."""
    if each.query is None:
        return None, ()
    for kind in known.values():
        if (names := alike(each.query, kind.query)) is not None:
            return kind, [names[slot] for slot in each.slots]
    if only:
        return None, ()
    unnamed = sum(name.startswith("type-") for name in known)
    name = each.name if each.name and each.name not in known else f"type-{unnamed + 1}"
    known[name] = QueryType(name, each.query, seen=False)
    return known[name], each.slots


def alike(query: Query, other: Query) -> dict[str, str] | None:
    """The other query's placeholder for each of a query's, where both say the same but for names and order.

    Their query graphs are held against each other, in which the order of atoms does not show.
    """
    from networkx import DiGraph
    from networkx.algorithms.isomorphism import DiGraphMatcher

    graphs = [QueryGraph.of(each) for each in (query, other)]
    if len({(len(graph.nodes), len(graph.edges)) for graph in graphs}) > 1:
        return None
    drawn = []
    for graph in graphs:
        drawn.append(DiGraph(graph.edges))
        drawn[-1].add_nodes_from((number, {"kind": node.kind}) for number, node in enumerate(graph.nodes))
    matcher = DiGraphMatcher(*drawn, node_match=lambda one, two: one["kind"] == two["kind"])
    for image in matcher.isomorphisms_iter():
        pairs = {
            (graphs[0].nodes[one].name, graphs[1].nodes[two].name)
            for one, two in image.items()
            if graphs[0].nodes[one].kind in ("entity", "relation")
        }
        names = dict(pairs)
        if len(pairs) == len(names) == len({*names.values()}):
            return names
    return None


def _complete(
    each: Found, kind: QueryType, slots: Sequence[str], graph: Graph, numbering: Numbering
) -> tuple[QuerySet, int]:
    """The queries with own ids and answers on every graph, and how many have exactly the graph's answers."""
    template = Template.of(kind.query)
    rows = np.array(each.rows, np.int64).reshape(len(each.rows), len(slots))
    columns = {
        slot: _own(rows[:, i], numbering.relations if slot[0] == "r" else numbering.entities, each)
        for i, slot in enumerate(slots)
    }
    relations, constants = (
        np.array([columns[slot] for slot in of]).reshape(len(of), len(rows)).T
        for of in (template.relations, template.constants)
    )
    groundings = Groundings(relations, constants)
    exact = {s: answers(template, groundings, graph.index(s)) for s in SPLITS}
    given = {s: _answers(sets, numbering, each) for s, sets in each.answers.items()}
    if each.adds:  # of the answers before, a negation can take some away
        before, own = (
            given[SPLITS[SPLITS.index(each.split) + step]].keys(graph.entities) for step in (-1, 0)
        )
        still = np.intersect1d(before, exact[each.split].keys(graph.entities), assume_unique=True)
        given[each.split] = Answers.of(np.union1d(own, still), len(rows), graph.entities)
    same = np.ones(len(rows), dtype=bool)
    for split, own in given.items():
        different = np.setxor1d(
            own.keys(graph.entities), exact[split].keys(graph.entities), assume_unique=True
        )
        same[different // graph.entities] = False
    answered = {s: given.get(s, exact[s]) for s in SPLITS}
    return QuerySet(kind, each.split, template, groundings, answered), int(same.sum())


def _answers(sets: Sequence[Collection[int]], numbering: Numbering, each: Found) -> Answers:
    counts = np.fromiter(map(len, sets), np.int64, len(sets))
    own = _own(np.fromiter(chain.from_iterable(sets), np.int64, int(counts.sum())), numbering.entities, each)
    order = np.lexsort((own, np.repeat(np.arange(len(sets)), counts)))
    return Answers(np.concatenate([[0], np.cumsum(counts)]), own[order])


def _own(numbers: Ints, meaning: Ints, each: Found) -> Ints:
    """The own ids of a file's numbers."""
    known = (numbers >= 0) & (numbers < len(meaning))
    own = np.where(known, meaning[np.where(known, numbers, 0)], -1)
    if (own < 0).any():
        raise TaskError(
            f"{each.place} has the number {numbers[own < 0][0]}, which has no name or no triple in the graph; give "
            "--graph the folder that the queries were made from"
        )
    return own


def inferred(queries: QuerySet, entities: int) -> tuple[Answers, Answers]:
    """The answers on the graph before a set's split, and those that its own graph adds; for train none and all."""
    own = queries.answers[queries.split]
    if queries.split == "train":
        return Answers(np.zeros(len(own) + 1, np.int64), np.empty(0, np.int64)), own
    before = queries.answers[SPLITS[SPLITS.index(queries.split) - 1]]
    return before, own.minus(before, entities)


def columns(queries: QuerySet) -> Iterator[dict[str, int]]:
    """The ids of each query's placeholders."""
    names = (*queries.template.relations, *queries.template.constants)
    ids = np.concatenate([queries.groundings.relations, queries.groundings.constants], axis=1)
    return (dict(zip(names, row, strict=True)) for row in ids.tolist())
