"""Queries as JSON: SQE's, which writes sets, and EFOK-CQA's, which writes formulas.

SQE (Bai et al., 2023; github.com/HKUST-KnowComp/SQE, sampling/sample.py and model/dataloader.py) keeps queries by
pattern: `{"(p,(p,(e)))": {"(p,(40),(p,(3),(e,(2429))))": {"train_answers": ["5", ...], ...}}}`, with the answers on
every cumulative graph up to the file's split. Numbers are those of BetaE's folders.

EFOK-CQA (Yin et al., 2023; github.com/HKUST-KnowComp/EFOK-CQA, README.md and data_preparation/sample_query.py) does by
formula: `{"(r1(s1,e1))&(r2(e1,f1))": [[{"r1": 40, "s1": 2429, ...}, {"f1": [[5], ...]}, {"f1": [[7], ...]}], ...]}`:
placeholders, the answers before, and those that the split adds. Earlier files write `f`, and answers without a list of
their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from peirce_queries.exchange.content import (
    Content,
    FileQueries,
    check_format,
    query_rows,
    read_numbered,
    read_object,
    split_of,
    splits_to,
)
from peirce_queries.exchange.contract import GraphReader, QueryReader, QueryWriter
from peirce_queries.exchange.tuples import structure_of, write_graph
from peirce_queries.graphs.graph import SPLITS, Graph, Ints, Split
from peirce_queries.languages.conversion import to_efo, to_lisp
from peirce_queries.languages.language import Query, parse
from peirce_queries.languages.lisp import parse_lisp
from peirce_queries.languages.parsing import QueryError

_GROUND = re.compile(r"\((p|e),\((\d+)\)")


def _read_sqe(paths: Sequence[Path]) -> Iterator[FileQueries]:
    """The queries of SQE's files; a `TaskError` where one is malformed."""
    for path in paths:
        for pattern, queries in read_object(path).items():
            query, slots = _pattern(pattern)
            with check_format(f"{path}, {pattern}"):
                wrong = next((text for text in queries if _GROUND.sub(r"(\1", text) != pattern), None)
                if wrong is not None:
                    raise ValueError(f"{wrong!r} is not a query of this pattern")
                rows = [[int(number) for _, number in _GROUND.findall(text)] for text in queries]
                known = [s for s in SPLITS if any(f"{s}_answers" in found for found in queries.values())]
                reported: dict[Split, list[list[int]]] = {
                    s: [[int(entity) for entity in found[f"{s}_answers"]] for found in queries.values()]
                    for s in known
                }
            yield FileQueries(
                f"{path}, {pattern}", known[-1] if known else "train", query, slots, rows, reported
            )


def _pattern(pattern: str) -> tuple[Query | str, list[str]]:
    """The query of a pattern, or why no formula says it, and its placeholders in the order of a query's numbers."""
    kinds = ["r" if kind == "p" else "s" for kind in re.findall(r"\((p),|\(e\)", pattern)]
    slots = [f"{kind}{kinds[: place + 1].count(kind)}" for place, kind in enumerate(kinds)]
    named = iter(slots)
    text = re.sub(
        r"(\(p,)|\(e\)", lambda match: f"{match[1] or ''}({next(named)})" + "," * bool(match[1]), pattern
    )
    try:
        return to_efo(parse_lisp(text)), slots
    except QueryError as error:
        return str(error), slots


def _write_sqe(folder: Path, content: Content) -> None:
    """Write queries as SQE's files."""
    for split, sets in content.sets.items():
        every: dict[str, dict[str, Any]] = {}
        for queries in sets:
            text = str(to_lisp(queries.type.query))
            pattern = re.sub(r"\(r\d+\),", "", re.sub(r"\(s\d+\)", "(e)", text))
            ground = re.sub(r"\((r\d+)\)", r"({\1})", re.sub(r"\((s\d+)\)", r"(e,({\1}))", text))
            for row, (ids, *_) in enumerate(query_rows(queries, content.graph.entities)):
                answers = {
                    f"{s}_answers": [*map(str, queries.answers[s][row].tolist())] for s in splits_to(split)
                }
                every.setdefault(pattern, {})[ground.format(**ids)] = answers
        (folder / f"{content.graph.name}_{split}_queries.json").write_text(json.dumps(every))


def _read_efok(paths: Sequence[Path]) -> Iterator[FileQueries]:
    """The queries of EFOK-CQA's files; a `TaskError` where one is malformed."""

    def entities(answers: Any) -> list[int]:
        found = [entity for values in answers.values() for entity in values] if answers else []
        return [entity[0] if isinstance(entity, list) else int(entity) for entity in found]

    for path in paths:
        split, name = split_of(path), next(iter(re.findall(r"type\d+", path.name)), "")
        for formula, queries in read_object(path).items():
            query, slots = _formula(formula)
            with check_format(f"{path}, {formula}"):
                rows = [[int(each[0][slot]) for slot in slots] for each in queries]
                parts = [[entities(each[part]) for each in queries] for part in (1, 2)]
            reported = dict(zip(splits_to(split)[-2:], parts, strict=False))
            yield FileQueries(
                f"{path}, {formula}", split, query, slots, rows, reported, split != "train", name
            )


def _formula(text: str) -> tuple[Query | str, list[str]]:
    """The query of a formula, or why it cannot be sampled, and its placeholders."""
    try:
        query = parse(text, pairs=True)
    except QueryError as error:
        return str(error), []
    if query.pairs:
        return "it asks for pairs, which only `peirce kg answer` and `peirce ask` take", []
    if not query.abstract:
        return "it names more than r1, r2, ... and s1, s2, ...", []
    return query, [*query.relations, *query.constants]


def _write_efok(folder: Path, content: Content) -> None:
    """Write queries as EFOK-CQA's files."""
    for split, sets in content.sets.items():
        every: dict[str, list[Any]] = {}
        for queries in sets:
            found = every.setdefault(re.sub(r"\bf\b", "f1", str(queries.type.query)), [])
            for ids, *answers in query_rows(queries, content.graph.entities):
                before, added = ({"f1": [[entity] for entity in of]} for of in answers)
                found.append([ids, added, []] if split == "train" else [ids, before, added])
        (folder / f"{split}-qaa.json").write_text(json.dumps(every))


def _write_efok_graph(folder: Path, graph: Graph) -> None:
    """Write a graph as EFOK-CQA has it: each file has the triples of the splits before, too."""
    tables = {"e": graph.entity_names, "r": graph.relation_names}
    names = {key: {name: i for i, name in enumerate(table)} for key, table in tables.items()}
    (folder / "kgindex.json").write_text(json.dumps(names))
    lines = ""
    for split, triples in graph.added.items():
        lines += "".join(f"{h}\t{r}\t{t}\n" for h, r, t in triples.tolist())
        (folder / f"{split}_kg.tsv").write_text(lines)


class Sqe(QueryReader, QueryWriter):
    """SQE's files, beside a graph as BetaE has it."""

    query_files = "*_queries*.json"
    read_queries = staticmethod(_read_sqe)
    write_graph = staticmethod(write_graph)
    write_queries = staticmethod(_write_sqe)

    @staticmethod
    def check(query: Query) -> None:
        """See `QueryWriter.check`."""
        structure_of(query)


class Efok(GraphReader, QueryReader, QueryWriter):
    """EFOK-CQA's files."""

    graph_file, query_files = "kgindex.json", "*qaa.json"
    read_queries = staticmethod(_read_efok)
    write_graph = staticmethod(_write_efok_graph)
    write_queries = staticmethod(_write_efok)

    @staticmethod
    def read_graph(folder: Path) -> tuple[Graph, Ints, Ints]:
        """See `GraphReader.read_graph`."""
        return read_numbered(folder, ("kgindex.json", "kgindex.json"), "{}_kg.tsv")

    @staticmethod
    def check(query: Query) -> None:
        """Every query can be said."""
