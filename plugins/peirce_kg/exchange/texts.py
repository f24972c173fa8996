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
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from peirce.errors import TaskError

from peirce_kg.exchange.content import Content, Found, columns, inferred, read_object
from peirce_kg.graphs.graph import SPLITS, Graph, Split
from peirce_kg.queries.conversion import to_efo, to_lisp
from peirce_kg.queries.language import parse
from peirce_kg.queries.lisp import parse_lisp
from peirce_kg.queries.parsing import QueryError

_PART = re.compile(r"\(p,|\(e\)")
_GROUND = re.compile(r"\((p|e),\((\d+)\)")


def read_sqe(paths: list[Path]) -> Iterator[Found]:
    """The queries of SQE's files; a `TaskError` where one is malformed."""
    for path in paths:
        for pattern, queries in read_object(path).items():
            place = f"{path}, {pattern}"[:300]
            slots = list[str]()
            query, refusal = None, ""
            try:
                query = to_efo(parse_lisp(_numbered(pattern, slots)))
            except QueryError as error:
                refusal = str(error)
            rows, told = [], dict[Split, list[list[int]]]()
            for text, found in _of(dict, queries, place).items():
                rows.append([int(number) for _, number in _GROUND.findall(text)])
                if _GROUND.sub(lambda match: f"({match[1]}", text) != pattern:
                    raise TaskError(
                        f"{place}: {text[:200]!r} is no query of this pattern; get the file again"
                    )
                for split in SPLITS:
                    if f"{split}_answers" in _of(dict, found, place):
                        told.setdefault(split, []).append(_numbers(found[f"{split}_answers"], place))
            if len({len(rows), *map(len, told.values())}) > 1 or not told:
                raise TaskError(
                    f"{place}: queries need train_answers, and all the same further answers; get it again"
                )
            yield Found(place, list(told)[-1], query, slots, rows, told, refusal=refusal)


def _numbered(pattern: str, slots: list[str]) -> str:
    """A pattern in the Lisp-like syntax; its placeholders are added to `slots`, in their order."""
    numbers = {"r": count(1), "s": count(1)}

    def named(match: re.Match[str]) -> str:
        kind = "r" if match[0] == "(p," else "s"
        slots.append(f"{kind}{next(numbers[kind])}")
        return f"(p,({slots[-1]})," if kind == "r" else f"({slots[-1]})"

    return _PART.sub(named, pattern)


def write_sqe(folder: Path, content: Content) -> None:
    """Write the queries that sets can say as SQE's files."""
    for split, sets in content.sets.items():
        every: dict[str, dict[str, Any]] = {}
        for own in sets:
            sets_text = str(to_lisp(own.type.query))
            pattern = re.sub(r"\(r\d+\),", "", re.sub(r"\(s\d+\)", "(e)", sets_text))
            ground = re.sub(r"\((r\d+)\)", r"({\1})", re.sub(r"\((s\d+)\)", r"(e,({\1}))", sets_text))
            known = SPLITS[: SPLITS.index(split) + 1]
            for row, ids in enumerate(columns(own)):
                answers = {f"{s}_answers": [str(e) for e in own.answers[s][row].tolist()] for s in known}
                every.setdefault(pattern, {})[ground.format(**ids)] = answers
        (folder / f"{content.graph.name}_{split}_queries.json").write_text(json.dumps(every))


def read_efok(paths: list[Path]) -> Iterator[Found]:
    """The queries of EFOK-CQA's files; a `TaskError` where one is malformed."""
    for path in paths:
        split = next((s for s in SPLITS if path.name.startswith(s)), None)
        if split is None:
            raise TaskError(
                f"{path}: the name begins with no split; call it train, valid or test-...-qaa.json"
            )
        name = next(iter(re.findall(r"type\d+", path.name)), "")
        for formula, queries in read_object(path).items():
            place = f"{path}, {formula}"[:300]
            query, refusal = None, ""
            try:
                query = parse(formula, pairs=True)
                if query.pairs or not query.abstract:
                    asks = (
                        "asks for pairs, which samples cannot hold"
                        if query.pairs
                        else "names more than r1 and s1"
                    )
                    query, refusal = None, f"it {asks}"
            except QueryError as error:
                refusal = str(error)
            slots = list[str]() if query is None else [*query.relations, *query.constants]
            rows, before, own = [], list[list[int]](), list[list[int]]()
            for each in _of(list, queries, place):
                if not isinstance(each, list) or len(each) != 3:
                    raise TaskError(f"{place}: a query is a list of its numbers and of two kinds of answers")
                grounding = _of(dict, each[0], place)
                if query is None:
                    rows.append([])
                    continue
                if missing := [slot for slot in slots if type(grounding.get(slot)) is not int]:
                    raise TaskError(
                        f"{place}: a query has no number for {', '.join(missing)}; get the file again"
                    )
                rows.append([grounding[slot] for slot in slots])
                for found, part in zip((before, own), each[1:], strict=True):
                    found.append(_numbers([n for ns in (part or {}).values() for n in ns], place))
            told = (
                {split: before} if split == "train" else {SPLITS[SPLITS.index(split) - 1]: before, split: own}
            )
            yield Found(
                place, split, query, slots, rows, told, adds=split != "train", name=name, refusal=refusal
            )


def write_efok(folder: Path, content: Content) -> None:
    """Write queries as EFOK-CQA's files."""
    for split, sets in content.sets.items():
        every: dict[str, list[Any]] = {}
        for own in sets:
            before, added = inferred(own, content.graph.entities)
            found = every.setdefault(re.sub(r"\bf\b", "f1", str(own.type.query)), [])
            for row, ids in enumerate(columns(own)):
                easy, hard = ({"f1": [[e] for e in of[row].tolist()]} for of in (before, added))
                found.append([ids, hard, []] if split == "train" else [ids, easy, hard])
        (folder / f"{split}-qaa.json").write_text(json.dumps(every))


def write_kgindex(folder: Path, graph: Graph) -> None:
    """Write a graph as EFOK-CQA has it: each file has the triples of the splits before, too."""
    tables = {"e": graph.entity_names, "r": graph.relation_names}
    names = {key: {name: i for i, name in enumerate(table)} for key, table in tables.items()}
    (folder / "kgindex.json").write_text(json.dumps(names))
    lines = ""
    for split, triples in graph.added.items():
        lines += "".join(f"{h}\t{r}\t{t}\n" for h, r, t in triples.tolist())
        (folder / f"{split}_kg.tsv").write_text(lines)


def _of(kind: type, value: Any, place: str) -> Any:
    if not isinstance(value, kind):
        raise TaskError(
            f"{place}: expected a {kind.__name__}, found {str(value)[:100]!r}; get the file again"
        )
    return value


def _numbers(values: Any, place: str) -> list[int]:
    """The numbers of answers, which may be text, or stand in lists of their own."""
    try:
        return [int(n[0]) if isinstance(n, list) and len(n) == 1 else int(n) for n in values]
    except (TypeError, ValueError) as error:
        raise TaskError(f"{place}: answers must be numbers ({error}); get the file again") from error
