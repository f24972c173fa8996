"""QTO and FIT: the answer for which a query is most likely true, found over a link predictor's matrix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import ClassVar, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor

from peirce.parts import Dims, PlainMap, PlainScope, plain_softmax
from peirce_kg.parts.heads.cqd import NEVER, NO_NETWORK, Search
from peirce_kg.parts.heads.links import KnownLinks
from peirce_kg.parts.systems.literals import ENTITY, VARIABLES
from peirce_kg.parts.systems.system import Literals, RankingOptions, complex_product

PORTION = 2**21
"""Numbers of a matrix that are made at once: few enough for a cache."""
CERTAIN = 0.9999
"""What a link is in QTO that is not known and would be 1 or more."""
ALMOST = 0.999
"""The most that a link which is not known is in FIT."""


@frozen(kw_only=True)
class QtoOptions(RankingOptions):
    """How scores become truth values.

    Args:
        links: a file that `peirce kg embed` wrote, whose training triples are certain; none is when empty.
        threshold: truth values below it are 0, which keeps the matrix sparse. Published are 0.0002 on FB15k-237 and
            NELL, and 0.001 on FB15k.
        negation: what a truth value is multiplied by, 1 at most, before it is taken from 1. Published are 3 on
            FB15k-237, and 6 on FB15k and NELL.
        smoothing: label smoothing of the loss.
    """

    links: str = ""
    threshold: float = field(default=0.0002, validator=[validators.ge(0.0), validators.lt(1.0)])
    negation: float = field(default=3.0, validator=validators.ge(0.0))
    smoothing: float = field(default=0.0, validator=[validators.ge(0.0), validators.lt(1.0)])


@frozen(kw_only=True)
class FitOptions(QtoOptions):
    """How scores become truth values, and how wide cycles are searched.

    Args:
        threshold: as for QTO; published are 0.005 on FB15k and FB15k-237, and 0.0002 on NELL.
        negation: as for QTO; published is 1.
        candidates: the likeliest values that a variable is tried with where a cycle is cut, beside all that are
            certain; 10 are published.
    """

    threshold: float = field(default=0.005, validator=[validators.ge(0.0), validators.lt(1.0)])
    negation: float = field(default=1.0, validator=validators.ge(0.0))
    candidates: int = field(default=10, validator=validators.ge(1))


class _Atom(NamedTuple):
    """A literal: the number of the variable at its head, 0 for an entity; that entity, -1 for a variable.

    again: how often its conjunction has said the same before; every time counts.
    """

    source: int
    entity: int
    relation: int
    target: int
    negated: bool
    again: int = 0


_Tree: TypeAlias = frozenset[_Atom]
"""The literals below a variable."""


class _Factor(NamedTuple):
    """Literals between two variables, and the trees of the first one, a union; of an entity one literal, source 0."""

    source: int
    atoms: tuple[_Atom, ...]
    trees: tuple[tuple[_Atom, ...], ...]


class QueryTreeSearch(Search):
    """The greatest truth of the query over all values of its variables, from entities to the answer.

    The matrix of a relation has softmax_t(score(h, r, t)) max(1, n) at (h, t), with n the known tails of h; less than
    `threshold` is 0, a known link is 1, and what would be 1 or more else is 0.9999. A variable's value is as true as
    the product of the literals that lead to it; along literals r from u to v, T(v) = max_u T(u) prod M_r(u, v); a
    negated literal has 1 - min(1, `negation` M_r) in place of M_r. A union is 1 - prod (1 - T) where its branches meet;
    one branch that says the same as another does not count.

    Rows of a matrix are made when they are asked for, of the heads whose truth is not zero, a portion at a time.
    """

    name = "qto_tree"
    source = "QTO (Bai et al., 2023), Sections 3 and 4"
    Options = QtoOptions

    def __init__(self, options: QtoOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.links = KnownLinks(options.links, dims.vocabulary) if options.links else None

    def begin(self) -> None:
        """Read the known links."""
        if self.links is not None:
            self.links.begin()

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """The search with products, over all values."""
        return self.plain_search(given, parameters, math.prod)

    def plain_links(self, scores: list[float], known: list[int], negated: bool) -> Sequence[float]:
        """See the class."""
        shares = plain_softmax(scores).tolist()
        factor = self.plain_factor(shares, known)
        likely = [share * factor for share in shares]
        links = [self.plain_unknown(each) if each > self.options.threshold else 0.0 for each in likely]
        links = [1.0 if t in known else each for t, each in enumerate(links)]
        return [1 - min(1.0, self.options.negation * each) for each in links] if negated else links

    def plain_factor(self, shares: Sequence[float], known: list[int]) -> float:
        """What shares of the softmax are multiplied by."""
        return max(1, len(known))

    def plain_unknown(self, truth: float) -> float:
        """How true a link is that is not known."""
        return CERTAIN if truth >= 1 else truth

    def answer_scores(self, literals: Literals, words: Tensor, entities: Tensor, asked: Tensor) -> Tensor:
        """See `Search.answer_scores`."""
        truths = [
            self._truth(1, conjunctions or [frozenset()], words, entities)
            for conjunctions in self._conjunctions(literals)
        ]
        return torch.where(asked.any(1, keepdim=True), torch.stack(truths).clamp_min(NEVER).log(), 0)

    def _conjunctions(self, literals: Literals) -> list[list[_Tree]]:
        """The conjunctions of each query; variables have their numbers of the first one, 1 for the free variable."""

        def names(ends: Tensor) -> list[list[int]]:
            return torch.where(ends == ENTITY, 0, 1 + (ends - 1) % VARIABLES).tolist()

        heads = (literals.heads - self.options.first).tolist()
        numbers = torch.where(literals.real, literals.conjunctions(), -1).tolist()
        rows = zip(
            numbers, names(literals.sources), heads, literals.relations.tolist(), names(literals.targets),
            literals.negated.tolist(), strict=True,
        )  # fmt: skip
        queries = []
        for row in rows:
            found: dict[int, list[_Atom]] = {}
            for number, source, head, *rest in zip(*row, strict=True):
                if number >= 0:
                    atoms, atom = found.setdefault(number, []), _Atom(source, -1 if source else head, *rest)
                    atoms.append(atom._replace(again=sum(other[:5] == atom[:5] for other in atoms)))
            queries.append([frozenset(atoms) for atoms in found.values()])
        return queries

    def _truth(self, variable: int, trees: Iterable[_Tree], words: Tensor, entities: Tensor) -> Tensor:
        """How true each value of a variable is by the union of some trees: [e]."""
        branches = _merge(sorted({_factors(variable, tree) for tree in trees}, key=sorted))
        shared = frozenset.intersection(*branches)
        truths = {
            factor: self._factor(factor, words, entities) for factor in sorted(frozenset().union(*branches))
        }

        def both(factors: frozenset[_Factor]) -> Tensor:
            return torch.stack(
                [entities.new_ones(len(entities)), *(truths[f] for f in sorted(factors))]
            ).prod(0)

        never = torch.stack([1 - both(branch - shared) for branch in branches]).prod(0)
        return both(shared) * (1 - never)

    def _factor(self, factor: _Factor, words: Tensor, entities: Tensor) -> Tensor:
        """How true each value is by some literals from one end: [e]."""
        if not factor.source:
            return self._rows(factor.atoms, torch.tensor([factor.atoms[0].entity]), words, entities)[0]
        before = self._truth(factor.source, map(frozenset, factor.trees), words, entities)
        return self._project_on(before, factor.atoms, words, entities)

    def _project_on(self, before: Tensor, edges: Sequence[_Atom], words: Tensor, entities: Tensor) -> Tensor:
        """From the truth of one variable's values to that of the next one's: [e] -> [e]."""
        best = torch.zeros_like(before)
        for heads in self._portions(before):
            rows = self._rows(edges, heads, words, entities).mul_(before[heads].unsqueeze(1))
            best = torch.maximum(best, rows.amax(0))
        return best

    def _portions(self, truths: Tensor) -> Iterator[Tensor]:
        """The values whose truth is not 0, as many at a time as a portion has rows of; none where nothing is true."""
        found = truths.nonzero()[:, 0]
        yield from found.split(max(1, PORTION // len(truths))) if len(found) else ()

    def _rows(self, edges: Sequence[_Atom], heads: Tensor, words: Tensor, entities: Tensor) -> Tensor:
        """The product of the matrices of some literals, in the rows of some heads: [n] -> [n, e]."""
        heads = heads.to(entities.device)
        first, *others = (self._matrix(edge, heads, words, entities) for edge in edges)
        for other in others:
            first *= other
        return first

    def _matrix(self, edge: _Atom, heads: Tensor, words: Tensor, entities: Tensor) -> Tensor:
        """The matrix of a literal in the rows of some heads, [n] -> [n, e]; large numbers are changed in place."""
        # a token that is not an entity may stand at a head of literals whose answers are not used
        asked = complex_product(
            words[self.options.first + heads], words[edge.relation].expand(len(heads), -1)
        )
        rows = tails = heads.new_empty(0)
        if self.links is not None:
            rows, tails = self.links.tails(heads, torch.full_like(heads, edge.relation))
        matrix = self.truths(F.linear(asked, entities).softmax(1), rows, tails)
        matrix[rows, tails] = 1
        return matrix.mul_(-self.options.negation).clamp_min_(-1).add_(1) if edge.negated else matrix

    def truths(self, likely: Tensor, rows: Tensor, tails: Tensor) -> Tensor:
        """How true links are of which no more is known: softmax [n, e], changed in place, and known tails by row."""
        likely *= torch.bincount(rows, minlength=len(likely)).clamp_min(1).unsqueeze(1)
        F.threshold(likely, self.options.threshold, 0, inplace=True)
        return likely.masked_fill_(likely >= 1, CERTAIN)


class GraphSearch(QueryTreeSearch):
    """Search in queries that are no trees, each conjunction of the disjunctive normal form by itself.

    The matrix of a relation has softmax_t(score(h, r, t)) n / p at (h, t), with n the known tails of h and p the sum of
    their softmax, both 1 where there are none; at most `threshold` is 0, a known link is 1, and others are at most
    0.999. A negated literal has 1 - min(1, `negation` M_r).

    A variable that is joined to one other alone is folded into it: T(v) max_u T(u) M(u, v). An existential leaf, to
    which nothing leads, begins with T = 1. Where all stand on cycles, one of the variables with the fewest neighbours
    takes each of its `candidates` likeliest values in turn, and every value whose truth is 1. With all entities as
    candidates the truth is exact.
    """

    name = "fit_graph"
    source = "FIT (Yin et al., 2024), Section 5"
    Options = FitOptions
    expected_failures: ClassVar = {
        **NO_NETWORK,
        "options": "`candidates` counts on cycles, and the suite's random literals have none that end at f",
    }

    def truths(self, likely: Tensor, rows: Tensor, tails: Tensor) -> Tensor:
        """See `QueryTreeSearch.truths`."""
        count = torch.bincount(rows, minlength=len(likely))
        known = likely.new_zeros(len(likely)).index_add_(0, rows, likely[rows, tails]).clamp_min(NEVER)
        likely *= torch.where(count > 0, count / known, 1).unsqueeze(1)
        return F.threshold(likely, self.options.threshold, 0, inplace=True).clamp_max_(ALMOST)

    def plain_factor(self, shares: Sequence[float], known: list[int]) -> float:
        """See the class."""
        return len(known) / sum(shares[t] for t in known) if known else 1.0

    def plain_unknown(self, truth: float) -> float:
        """See the class."""
        return min(truth, ALMOST)

    def _truth(self, variable: int, trees: Iterable[_Tree], words: Tensor, entities: Tensor) -> Tensor:
        """How true each value of a variable is by the union of some conjunctions: [e]."""
        truths = [self._conjunction(variable, tree, words, entities) for tree in sorted(trees, key=sorted)]
        return 1 - torch.stack([1 - truth for truth in truths]).prod(0) if len(truths) > 1 else truths[0]

    def _conjunction(self, variable: int, tree: _Tree, words: Tensor, entities: Tensor) -> Tensor:
        graph = _Graph({variable: entities.new_ones(len(entities))}, {})
        for atom in sorted(atom for atom in tree if atom.target):
            for end in {atom.source, atom.target} - {0}:
                graph.values.setdefault(end, torch.ones_like(graph.values[variable]))
            if atom.source not in (0, atom.target):
                graph.edges.setdefault((atom.source, atom.target), []).append(atom)
                continue
            before = graph.values[atom.target]
            if not atom.source:
                truth = self._rows([atom], torch.tensor([atom.entity]), words, entities)[0]
            else:  # an edge from the variable to itself
                truth = torch.zeros_like(before)
                for heads in self._portions(before):
                    rows = self._rows([atom], heads, words, entities)
                    truth[heads] = rows.gather(1, heads.unsqueeze(1)).squeeze(1)
            graph.values[atom.target] = before * truth
        return self._solve(variable, graph, words, entities)

    def _solve(self, variable: int, graph: _Graph, words: Tensor, entities: Tensor) -> Tensor:
        """How true each value of a variable is by a graph: [e]."""
        around = graph.around()
        if not around:
            return graph.values[variable]
        leaves = [node for node, others in around.items() if len(others) == 1]
        if variable in leaves:  # what the only neighbour is by all else goes on to it
            (other,) = around[variable]
            before = self._solve(other, graph.without(variable), words, entities)
            return graph.values[variable] * self._cross(other, variable, before, graph, words, entities)

        def possible(node: int) -> int:
            return int(graph.values[node].count_nonzero())

        if leaves:
            leaf = min(leaves, key=possible)
            return self._solve(
                variable, self._fold(leaf, graph.values[leaf], graph, words, entities), words, entities
            )
        node = min(
            (node for node in around if node != variable),
            key=lambda node: (len(around[node]), possible(node)),
        )
        truths = graph.values[node]
        best, count = torch.zeros_like(truths), self.options.candidates + int((truths == 1).sum())
        for value in truths.topk(min(count, possible(node))).indices:
            alone = torch.zeros_like(truths).index_fill_(0, value, 1)
            rest = self._fold(node, alone, graph, words, entities)
            best = torch.maximum(best, truths[value] * self._solve(variable, rest, words, entities))
        return best

    def _fold(self, node: int, truths: Tensor, graph: _Graph, words: Tensor, entities: Tensor) -> _Graph:
        """The graph without a variable, whose neighbours are as true as it lets them be."""
        rest = graph.without(node)
        for other in graph.around()[node]:
            rest.values[other] = rest.values[other] * self._cross(node, other, truths, graph, words, entities)
        return rest

    def _cross(
        self, one: int, other: int, truths: Tensor, graph: _Graph, words: Tensor, entities: Tensor
    ) -> Tensor:
        """From the truth of one variable's values to that of another's, whichever way edges point: [e] -> [e]."""
        forth, back = (graph.edges.get(ends, []) for ends in ((one, other), (other, one)))
        if not back:
            return self._project_on(truths, forth, words, entities)
        found = torch.zeros_like(truths)
        for heads in self._portions(graph.values[other]):
            rows = self._rows(back, heads, words, entities)
            if forth:
                every = torch.arange(len(truths), device=heads.device)
                rows *= self._rows(forth, every, words, entities)[:, heads].T
            found[heads] = rows.mul_(truths).amax(1)
        return found


class _Graph(NamedTuple):
    """Variables with the truth of each value, [e], and the literals from one variable to another."""

    values: dict[int, Tensor]
    edges: dict[tuple[int, int], list[_Atom]]

    def around(self) -> dict[int, set[int]]:
        """The neighbours of every variable that has some."""
        found: dict[int, set[int]] = {}
        for one, other in self.edges:
            found.setdefault(one, set()).add(other)
            found.setdefault(other, set()).add(one)
        return found

    def without(self, node: int) -> _Graph:
        """The graph without a variable and its literals."""
        values = {each: truths for each, truths in self.values.items() if each != node}
        return _Graph(values, {ends: atoms for ends, atoms in self.edges.items() if node not in ends})


def _merge(branches: list[frozenset[_Factor]]) -> list[frozenset[_Factor]]:
    """The trees of a variable as factors; two that differ below one variable alone are one with a union there.

    So (A & C) | (B & C) is (A | B) & C, as the formula had it before its disjunctive normal form.
    """
    for one, other in combinations(branches, 2):
        mine, theirs = one - other, other - one
        if len(mine) == len(theirs) == 1:
            (a,), (b,) = mine, theirs
            if a.source and a[:2] == b[:2]:
                joined = one - mine | {a._replace(trees=tuple(sorted({*a.trees, *b.trees})))}
                return _merge([joined, *(branch for branch in branches if branch not in (one, other))])
    return branches


def _factors(variable: int, tree: _Tree) -> frozenset[_Factor]:
    """The literals of a tree that lead to a variable, those from one variable together, and what is below.

    What is below has fewer literals, so this ends in a cycle, too, which no query that is supported has.
    """
    leading = sorted(atom for atom in tree if atom.target == variable)
    found = [_Factor(0, (atom,), ()) for atom in leading if not atom.source]
    for source in sorted({atom.source for atom in leading if atom.source}):
        atoms = tuple(atom for atom in leading if atom.source == source)
        found.append(_Factor(source, atoms, (tuple(sorted(_subtree(source, tree.difference(leading)))),)))
    return frozenset(found)


def _subtree(variable: int, tree: _Tree) -> _Tree:
    """The literals of a tree that lead to a variable, directly or by others."""
    leading = frozenset(atom for atom in tree if atom.target == variable)
    return leading.union(*(_subtree(atom.source, tree - leading) for atom in leading if atom.source))
