"""How well a scorer ranks the answers of queries: filtered MRR and Hits@k on entailed and on inferred answers.

Entailed answers are A(train), the answers that the training graph entails. Inferred ones are the answers on the graph
of the queries' split that the graph before it lacks: A(test) - A(valid) for test queries (TEGA, Appendix G, eq. 9-10).
Inferred answers are told apart by the links that they miss, where these were counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from peirce.errors import TaskError
from peirce_kg.encoding.literal_inputs import UnsupportedQueryError
from peirce_kg.parts.support import Scorer
from peirce_queries import (
    FREE,
    SPLITS,
    Answers,
    Bools,
    Floats,
    Groundings,
    Index,
    Missing,
    QuerySet,
    Split,
    Template,
)

Filtering = Literal["before", "graph", "graphs"]
"""Which other answers take no part in a ranking: those on the ranked answers' own graph and on the one before it, as in
the code of BetaE, SQE, ConE and LMPNN, those on their own graph alone, or those on any of the graphs."""
FILTERINGS: tuple[Filtering, ...] = get_args(Filtering)
PUBLISHED = FILTERINGS[0]
_FILTERED = {
    "before": "the other answers on the same graph and on the one before it (A(train) for entailed answers, "
    "A(valid) and A(test) for inferred ones of test queries)",
    "graph": "the other answers on the same graph (A(train) for entailed answers, A of the split for inferred ones)",
    "graphs": "the other members of A(train), A(valid) and A(test)",
}
Knowledge = Literal["entailed", "inferred", "missing-1", "missing-2", "missing-3", "missing-4+", "hard"]
"""Which answers are ranked. TEGA calls entailed ones ID (K) and inferred ones OOD (K); the rest are `STRATA`."""
KNOWLEDGE: tuple[Knowledge, ...] = get_args(Knowledge)[:2]
STRATA: tuple[Knowledge, ...] = get_args(Knowledge)[2:]
"""The inferred answers that miss 1, 2, 3, or 4 and more links, and those that are hard; see `engine.missing`."""
TypeGroup = Literal["seen", "unseen", "all"]
"""Which types a mean is over: those trained on, the others, or both; TEGA calls them ID (Q), OOD (Q) and all."""
TYPE_GROUPS: tuple[TypeGroup, ...] = get_args(TypeGroup)
TOP = (1, 3, 10)
"""The k of Hits@k."""

_Ranked = tuple[Answers, Floats]
"""Answers with the rank of each."""

MAX_ROWS = 256
"""The most queries that are scored at once."""
MAX_NUMBERS = 2**22
"""The most scores that are held at once: the fewer rows, the more entities there are."""


@frozen
class Cell:
    """One type's figures. mrr and hits (by k) are in [0, 1]; queries is how many had answers of this kind."""

    mrr: float
    hits: Mapping[int, float]
    queries: int
    answers: int


@frozen
class Report:
    """The figures of one scorer.

    Args:
        scorer: what is evaluated.
        split: where the queries were sampled.
        cells: by type name, then by kind of answers; a type without such answers has no cell.
        seen: the types that the scorer was trained on.
        filtering: which other answers took no part in a ranking.
        unsupported: the types that the scorer does not support, which have no cells, and why.
        beside: the same scores under the other filterings.
        shares: see `shares_of`; of the types that are supported, and empty where nobody counted missing links.
    """

    scorer: str
    split: Split
    cells: Mapping[str, Mapping[Knowledge, Cell]]
    seen: frozenset[str] = frozenset()
    filtering: Filtering = PUBLISHED
    unsupported: Mapping[str, str] = field(factory=dict)
    beside: Mapping[Filtering, Report] = field(factory=dict)
    shares: Mapping[Knowledge, float] = field(factory=dict)

    @property
    def filtered(self) -> Mapping[Filtering, Report]:
        """The reports under every filtering, this one first."""
        return {self.filtering: self, **self.beside}

    def cells_of(self, knowledge: Knowledge, types: TypeGroup = "all") -> dict[str, Cell]:
        """The cells of one kind of answers, by type."""
        cells = {name: by[knowledge] for name, by in self.cells.items() if knowledge in by}
        return {
            name: cell
            for name, cell in cells.items()
            if types == "all" or (name in self.seen) == (types == "seen")
        }

    def mean(self, knowledge: Knowledge, types: TypeGroup = "all") -> Cell:
        """The mean over types, queries and answers as totals; a `TaskError` where no type has answers of this kind."""
        cells = self.cells_of(knowledge, types).values()
        if not cells:
            raise TaskError(f"no {self.split} query of {types} types has {knowledge} answers")
        hits = {k: float(np.mean([cell.hits[k] for cell in cells])) for k in TOP}
        totals = (sum(getattr(cell, name) for cell in cells) for name in ("queries", "answers"))
        return Cell(float(np.mean([cell.mrr for cell in cells])), hits, *totals)

    def metrics(self, strata: bool = False) -> dict[str, float]:
        """Flat names, such as `entailed/mrr` for the mean over all types, `inferred/mrr/unseen` for that over those not
        trained on, and `inferred/hits@3/2in` for one type. The MRR under another filtering begins with its name, such
        as `graphs/entailed/mrr/seen`. `hard/share` is the share of the inferred answers that are hard; with `strata`
        there are the figures of `hard` and the other strata, too."""
        flat = {f"{knowledge}/share": share for knowledge, share in self.shares.items()}
        for knowledge in (*KNOWLEDGE, *STRATA) if strata else KNOWLEDGE:
            cells = {f"/{name}": cell for name, cell in self.cells_of(knowledge).items()}
            for end, cell in {**self._means(knowledge), **cells}.items():
                flat[f"{knowledge}/mrr{end}"] = cell.mrr
                flat.update({f"{knowledge}/hits@{k}{end}": value for k, value in cell.hits.items()})
                flat[f"{knowledge}/queries{end}"] = float(cell.queries)
            for filtering, report in self.beside.items():
                means = report._means(knowledge)
                flat |= {f"{filtering}/{knowledge}/mrr{end}": cell.mrr for end, cell in means.items()}
        if self.unsupported:
            flat["unsupported/types"] = float(len(self.unsupported))
        return flat

    def _means(self, knowledge: Knowledge) -> dict[str, Cell]:
        """The means that there are, by what their metrics' names end with."""
        ends: dict[TypeGroup, str] = {"all": "", "seen": "/seen", "unseen": "/unseen"}
        return {end: self.mean(knowledge, of) for of, end in ends.items() if self.cells_of(knowledge, of)}


def unsupported_text(scorer: str, types: Mapping[str, str]) -> str:
    """What a scorer does not support, types by their reasons, to stand beside figures."""
    reasons: dict[str, list[str]] = {}
    for name, reason in types.items():
        reasons.setdefault(reason, []).append(name)
    items = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
    return f"{scorer} does not support {items}"


def strata_of(missing: Missing) -> dict[Knowledge, Bools]:
    """Which inferred answers are in each of the `STRATA`: bool [m]."""
    *counted, hard = STRATA
    links = np.minimum(missing.links, len(counted))
    return {**{kind: links == number for number, kind in enumerate(counted, 1)}, hard: missing.hard}


def shares_of(missing: Sequence[Missing]) -> dict[Knowledge, float]:
    """The share of the inferred answers, those of all types together, that is in each of the `STRATA`."""
    every = [strata_of(each) for each in missing if len(each.links)]
    return {k: float(np.concatenate([each[k] for each in every]).mean()) for k in STRATA if every}


def shares_text(shares: Mapping[Knowledge, float]) -> str:
    """How many links inferred answers miss, to stand beside figures; empty where nobody counted."""
    *counted, hard = STRATA
    items = ", ".join(f"{k.removeprefix('missing-')} in {shares[k]:.1%}" for k in counted if shares.get(k))
    return (
        f"inferred answers miss links: {items}; all of their links in {shares[hard]:.1%} (hard)"
        if items
        else ""
    )


def protocol(filtering: Filtering) -> str:
    """What figures mean, to stand beside them."""
    return (
        f"filtered: {_FILTERED[filtering]} take no part in an answer's ranking; "
        "ties rank at the mean of the optimistic and the pessimistic rank; "
        "means over a query's answers, then over queries, then over types"
    )


def evaluate(
    name: str,
    sets: Sequence[QuerySet],
    scorer: Scorer,
    console: Console | None = None,
    *,
    entities: int,
    seen: Iterable[str] | None = None,
    filtering: Filtering = PUBLISHED,
    missing: Sequence[Missing] = (),
) -> Report:
    """Rank every answer of sampled queries, under every filtering at once.

    Args:
        name: what the report calls the scorer.
        sets: the queries, all of one split.
        scorer: what gives the scores.
        console: where a progress bar is shown; nowhere when None.
        entities: how many entities there are to score; queries are taken a few at a time where they are many.
        seen: the types that the scorer was trained on; all of them when None.
        filtering: which other answers take no part in the report's own ranking; the others stand in its `beside`.
        missing: for each of the sets the links that its inferred answers miss; without them there are no `STRATA`.

    Raises:
        TaskError: a score is not finite, or there are not as many as entities.
    """
    split = sets[0].split
    step = min(MAX_ROWS, max(1, MAX_NUMBERS // entities))
    batches = [
        (i, queries, start) for i, queries in enumerate(sets) for start in range(0, len(queries), step)
    ]
    found: dict[tuple[Filtering, str, Knowledge], list[_Ranked]] = {}
    unsupported: dict[str, str] = {}
    for number, queries, start in track(
        batches, f"evaluating {name}", console=console, disable=console is None, transient=True
    ):
        kind = queries.type.name
        if kind in unsupported:
            continue
        rows = np.arange(start, min(start + step, len(queries)))
        try:
            scores = scorer(queries.template, queries.groundings[rows])
        except UnsupportedQueryError as error:
            unsupported[kind] = error.reason
            continue
        if scores.shape != (len(rows), entities):
            raise TaskError(
                f"{name} gave scores {list(scores.shape)} to {len(rows)} queries about {entities} entities"
            )
        known = {s: a.select(rows) for s, a in queries.answers.items()}
        for filtered, knowledge, ranked in _rank_kinds(
            scores, known, split, missing[number].select(rows) if missing else None
        ):
            found.setdefault((filtered, kind, knowledge), []).append(ranked)
    types = [queries.type.name for queries in sets]
    trained = frozenset(types if seen is None else seen)
    shares = shares_of([each for each, kind in zip(missing, types, strict=False) if kind not in unsupported])

    def report(filtered: Filtering, beside: Mapping[Filtering, Report]) -> Report:
        cells: dict[str, dict[Knowledge, Cell]] = {kind: {} for kind in types}
        for (under, kind, knowledge), parts in found.items():
            if under == filtered and any(len(ranked) for _, ranked in parts):
                cells[kind][knowledge] = _cell(parts)
        return Report(name, split, cells, trained, filtered, unsupported, beside, shares)

    return report(filtering, {f: report(f, {}) for f in FILTERINGS if f != filtering})


def ranks(
    scores: Floats, targets: Answers, known: Answers, ordered: Floats | None = None
) -> NDArray[np.float64]:
    """The filtered rank of every target, 1 for the best, in the order of `targets.entities`.

    Args:
        scores: [n, entities].
        targets: the answers to rank, per query.
        known: what takes no part in the ranking, per query; the targets are among it.
        ordered: what `in_order` gives for the scores, where they are ranked more than once.

    Raises:
        TaskError: a score is not finite; a NaN would rank first.
    """
    found = np.empty(len(targets.entities))
    rows = sorted_scores(scores) if ordered is None else ordered
    for row, (everything, bounds) in enumerate(zip(rows, pairwise(targets.offsets.tolist()), strict=True)):
        wanted, filtered = scores[row, targets[row]], np.sort(scores[row, known[row]])
        below, up_to = (
            np.searchsorted(everything, wanted, side) - np.searchsorted(filtered, wanted, side)
            for side in ("left", "right")
        )
        # better ones, and half of the equal ones
        found[slice(*bounds)] = 1.0 + (len(everything) - len(filtered) - up_to) + (up_to - below) / 2
    return found


def sorted_scores(scores: Floats) -> Floats:
    """The scores of each query in ascending order, [n, entities]; a `TaskError` where one is not finite."""
    if not np.isfinite(scores).all():
        raise TaskError("a scorer gave a score that is not finite, so answers cannot be ranked")
    return np.sort(scores, axis=1)


def random_scorer(seed: int, entities: int) -> Scorer:
    """Uniformly random scores."""
    random = np.random.default_rng(seed)
    return lambda template, groundings: random.random((len(groundings), entities))


def frequency_scorer(index: Index) -> Scorer:
    """A baseline that ignores the query's entities: how often an entity is the head or tail of a relation.

    An atom with f in it holds with the share of its relation's triples that have the entity in f's place; shares
    combine as independent events do: products in a conjunction, 1 - p under a negation, p + q - pq in a disjunction.
    """
    head, relation, tail = index.triples()
    shape = (index.relations, index.entities)
    shares = []
    for ends in (head, tail):
        counts = np.bincount(relation * index.entities + ends, minlength=shape[0] * shape[1]).reshape(shape)
        shares.append(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))

    def score(template: Template, groundings: Groundings) -> Floats:
        some = np.zeros((len(groundings), index.entities))
        for conjunction in template.conjunctions:
            all_hold = np.ones_like(some)
            for slot in conjunction:
                for share, end in zip(shares, (slot.head, slot.tail), strict=True):
                    if end == FREE:
                        p = share[groundings.relations[:, slot.relation]]
                        all_hold *= p if slot.positive else 1 - p
            some += all_hold - some * all_hold
        return some

    return score


def table(reports: Iterable[Report], title: str) -> Table:
    """MRR in % per type and on average, a column per scorer and kind of answers."""
    reports = list(reports)
    first = reports[0]
    present = [k for k in KNOWLEDGE if first.cells_of(k)]
    notes = [unsupported_text(report.scorer, report.unsupported) for report in reports if report.unsupported]
    items = filter(None, [protocol(first.filtering), shares_text(first.shares), *notes])
    shown = Table(title=title, caption="; ".join(items))
    shown.add_column("type")
    for knowledge in present:
        for column in ("queries", *(report.scorer for report in reports)):
            shown.add_column(f"{knowledge}\n{column}", justify="right", overflow="fold")

    def add(name: str, cells_of: Callable[[Report, Knowledge], Cell | None]) -> None:
        row = [name]
        for knowledge in present:
            cells = [cells_of(report, knowledge) for report in reports]
            row.append(str(max(cell.queries if cell else 0 for cell in cells)))
            row += [f"{100 * cell.mrr:.1f}" if cell else "-" for cell in cells]
        shown.add_row(*row)

    for name in first.cells:
        add(name, lambda report, knowledge, name=name: report.cells[name].get(knowledge))  # type: ignore[misc]
    shown.add_section()
    for end in ("/seen", "/unseen", "") if first.cells_of(present[0], "unseen") else ("",):
        label = f"mean, {end[1:]} types" if end else "mean"
        add(label, lambda report, knowledge, end=end: report._means(knowledge).get(end))  # type: ignore[misc]
    return shown


def _rank_kinds(
    scores: Floats, found: Mapping[Split, Answers], split: Split, missing: Missing | None
) -> Iterator[tuple[Filtering, Knowledge, _Ranked]]:
    """Each kind of answers of some queries, with their ranks under each filtering."""
    entities, ordered = scores.shape[1], sorted_scores(scores)
    kinds: dict[Knowledge, Answers] = {"entailed": found["train"]}
    if split != "train":
        kinds["inferred"] = found[split].minus(found[SPLITS[SPLITS.index(split) - 1]], entities)
    for knowledge, targets in kinds.items():
        place = 0 if knowledge == "entailed" else SPLITS.index(split)
        graphs: dict[Filtering, tuple[Split, ...]] = {
            "before": SPLITS[max(place - 1, 0) : place + 1],
            "graph": (SPLITS[place],),
            "graphs": tuple(found),
        }
        ranked: dict[frozenset[Split], _Ranked] = {}
        for filtering, names in graphs.items():
            chosen = frozenset(names)
            if chosen not in ranked:
                union = np.unique(np.concatenate([found[name].keys(entities) for name in chosen]))
                answers = Answers.of(union, len(scores), entities)
                ranked[chosen] = targets, ranks(scores, targets, answers, ordered)
            yield filtering, knowledge, ranked[chosen]
            if knowledge == "inferred" and missing is not None:
                yield from ((filtering, *stratum) for stratum in _strata(ranked[chosen], missing))


def _strata(ranked: _Ranked, missing: Missing) -> Iterator[tuple[Knowledge, _Ranked]]:
    """The inferred answers in each of the strata."""
    answers, values = ranked
    for kind, chosen in strata_of(missing).items():
        counts = np.bincount(answers.queries[chosen], minlength=len(answers))
        yield kind, (Answers(np.append(0, np.cumsum(counts)), answers.entities[chosen]), values[chosen])


def _cell(parts: Sequence[_Ranked]) -> Cell:
    """Means over a query's answers, then over queries."""
    targets = Answers.concatenate([part for part, _ in parts])
    ranked = np.concatenate([values for _, values in parts])
    counts = targets.counts

    def mean(values: Floats) -> float:
        per_query = np.bincount(targets.queries, weights=values, minlength=len(counts))[counts > 0]
        return float((per_query / counts[counts > 0]).mean())

    hits = {k: mean((ranked <= k).astype(float)) for k in TOP}
    return Cell(mean(1 / ranked), hits, int((counts > 0).sum()), len(ranked))
