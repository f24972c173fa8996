"""CQD's searches: answers for whose query a link predictor finds the likeliest values of all variables.

A truth value is sigma of a ComplEx score, and values join by a t-norm: their product, or the least of them. All is
computed in logarithms, where it does not round to 1. In training a model is a link predictor: the head scores the one
literal of a query, by cross-entropy over all entities. Neither search is a network, so there is no export of them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor

from peirce.algebra import at_least_float32
from peirce.errors import ExportError
from peirce.parts import (
    Dims,
    Encoded,
    PlainMap,
    PlainScope,
    TensorSpec,
    Tokens,
    has_static_shapes,
    plain_sigmoid,
    without_autocast,
)
from peirce_kg.parts.heads.distances import SetRanking
from peirce_kg.parts.heads.links import KnownLinks
from peirce_kg.parts.systems.literals import DEPTH, ENTITY, VARIABLES
from peirce_kg.parts.systems.set_system import count_levels
from peirce_kg.parts.systems.system import (
    Literals,
    RankingOptions,
    complex_product,
    embed_tokens,
    is_free,
    literal_specs,
    random_tree,
)
from peirce_kg.parts.systems.unions import Unions, compose

NUMBERS = 2**24
"""Scores of candidates that are held at once."""
UNKNOWN = 0.9
"""The most that a link which is not known can be, where known ones are certain."""
NEVER = 1e-30
"""What has the logarithm of a truth value that is 0; no product of links is so small."""
NO_NETWORK = {
    "onnx": "it searches for answers with a link predictor, which cannot be exported as a network",
    "gradients": "a search has no gradients; in training the head is a link predictor",
    "modes": "in training it is the link predictor that the search queries",
}


@frozen(kw_only=True)
class SearchOptions(RankingOptions):
    """How truth values join.

    Args:
        tnorm: `product`, with p + q - p q for unions, or `min`, with the greatest.
        smoothing: label smoothing of the loss.
    """

    tnorm: Literal["product", "min"] = "product"
    smoothing: float = field(default=0.0, validator=[validators.ge(0.0), validators.lt(1.0)])


class Search(SetRanking):
    """What searches over a link predictor share: how it is trained, and that a search is not exported."""

    expected_failures = NO_NETWORK

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The literals, as systems have them."""
        return tuple(spec for spec in literal_specs(self.vocabulary) if spec.name.startswith("atom_"))

    def example_inputs(self, drawn: Mapping[str, Tensor], generator: torch.Generator) -> Mapping[str, Tensor]:
        """Literals of one conjunction that is a tree."""
        trees = [random_tree(row.shape[0], generator) for row in drawn["input_ids"]]
        sources, targets = torch.tensor(trees).view(len(trees), -1, 2).unbind(2)
        # no answer is asked for at another variable, and of some queries none
        tails = (drawn["input_ids"] + (drawn["input_ids"] == self.options.free)) % self.vocabulary
        asked = (targets == 1) & (torch.rand(len(trees), 1, generator=generator) < 0.8)
        tails = torch.where(targets == 1, torch.where(asked, self.options.free, drawn["input_ids"]), tails)
        return {"input_ids": tails, "atom_sources": sources, "atom_targets": targets}

    def scores(self, sets: Tensor, entities: Tensor) -> Tensor:
        """The link predictor's scores, [n, d1], [e, d1] -> [n, e]."""
        return F.linear(sets, entities)

    def plain_score(
        self, answer: list[float], entity: list[float], number: int, parameters: Mapping[str, Any]
    ) -> float:
        """See `scores`."""
        return sum(a * b for a, b in zip(answer, entity, strict=True))

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """The logarithms of truth values [b, entities]; of a link predictor in training, its scores."""
        if self.training or encoded.unary.is_meta:
            return super().forward(encoded, tokens)
        if has_static_shapes(encoded.unary):
            raise ExportError(
                f"the head {self.name!r} searches for answers and cannot be exported, compiled or recorded in a CUDA "
                "graph; evaluate it in torch"
            )
        with torch.inference_mode(False), torch.no_grad(), without_autocast(encoded.unary):
            # Copies: what inference mode made cannot be optimised with.
            literals = Literals.of({name: value.clone() for name, value in tokens.inputs.items()})
            points = encoded.embeddings if encoded.precise is None else encoded.precise[1]
            words = at_least_float32(points.detach().clone())
            entities = words[self.options.first : self.options.first + self.count]
            best = self.answer_scores(literals, words, entities, self._answers(tokens))
        kind = encoded.unary.dtype
        return {"logits": best.clamp_min(torch.finfo(kind).min).to(kind)}

    @abstractmethod
    def answer_scores(self, literals: Literals, words: Tensor, entities: Tensor, asked: Tensor) -> Tensor:
        """The logarithm of the truth of each entity as the answer: [v, d1], [e, d1], bool [b, x] -> [b, e]."""

    def plain_links(self, scores: list[float], known: list[int], negated: bool) -> Sequence[float]:
        """How true the links of one head are, by the scores of all tails and those that are known."""
        raise NotImplementedError

    def plain_search(
        self, given: Mapping[str, Any], parameters: Mapping[str, Any], join: Callable[..., Any],
        candidates: int | None = None,
    ) -> Mapping[str, Any]:  # fmt: skip
        """The search in a conjunction that is a tree, over nested lists, for the `reference` of a search.

        A variable's value is as true as all literals that lead to it are together; those from another variable are as
        true as with the best of that one's `candidates` likeliest values.
        """
        names = ("sources", "heads", "relations", "targets", "negated")
        literals = list(zip(*(given[f"atom_{name}"] for name in names), strict=True))
        words, first = given["embeddings"], self.options.first
        entities = words[first : first + (self.options.count or len(words))]
        triples = parameters.get("links.triples", [])

        def links(literal: tuple[int, ...], head: int) -> Sequence[float]:
            known = [t for h, r, t in triples if (h, r) == (head, literal[2])]
            scores = [plain_complex(words[first + head], words[literal[2]], tail) for tail in entities]
            return self.plain_links(scores, known, bool(literal[4]))

        def truth(variable: int, below: list[tuple[int, ...]]) -> list[float]:
            leading = [each for each in below if each[3] == variable]
            rest, found = [each for each in below if each[3] != variable], [[1.0] * len(entities)]
            found += [list(links(each, each[1] - first)) for each in leading if not each[0]]
            for source in {each[0] for each in leading if each[0]}:
                before, best = truth(source, rest), [0.0] * len(entities)
                for head in sorted(range(len(entities)), key=lambda u: -before[u])[:candidates]:
                    rows = [links(each, head) for each in leading if each[0] == source]
                    best = [max(b, join([before[head], *row])) for b, *row in zip(best, *rows, strict=True)]
                found.append(best)
            return [join(each) for each in zip(*found, strict=True)]

        if self.options.free not in given["input_ids"]:
            return {"logits": [0.0] * len(entities)}
        return {"logits": [math.log(max(each, NEVER)) for each in truth(1, literals)]}


def plain_complex(head: list[float], relation: list[float], tail: list[float]) -> float:
    """ComplEx: the real part of the sum of h r conj(t)."""
    h, r, t = (
        [complex(*pair) for pair in zip(each[: len(each) // 2], each[len(each) // 2 :], strict=True)]
        for each in (head, relation, tail)
    )
    return sum((x * y * z.conjugate()).real for x, y, z in zip(h, r, t, strict=True))


class TruthSearch(Search):
    """What both searches of CQD share: unions, and what joins truth values."""

    @abstractmethod
    def search(self, literals: Literals, words: Tensor, entities: Tensor) -> Tensor:
        """The logarithm of the truth of each literal with every entity at its tail, joined over what leads to its head.

        [v, d1], [e, d1] -> [b, x, e].
        """

    def answer_scores(self, literals: Literals, words: Tensor, entities: Tensor, asked: Tensor) -> Tensor:
        """See `Search.answer_scores`."""
        truths = self.search(literals, words, entities)
        joined = self.all_of(truths, literals.same_variable(literals.targets, literals.targets))
        return self.any_of(joined, asked.expand(joined.shape[:2]))

    def all_of(self, truths: Tensor, chosen: Tensor) -> Tensor:
        """The t-norm over chosen literals: [b, y, e], bool [b, x, y] -> [b, x, e]; true where none is chosen."""
        if self.options.tnorm == "product":
            return chosen.to(truths.dtype) @ truths
        if not chosen.numel():
            return truths.new_zeros(*chosen.shape[:2], truths.shape[2])
        rows = [torch.where(row.unsqueeze(2), truths, 0).amin(1) for row in chosen.unbind(1)]
        return torch.stack(rows, 1)

    def both(self, left: Tensor, right: Tensor) -> Tensor:
        """The t-norm of two truth values."""
        return left + right if self.options.tnorm == "product" else torch.minimum(left, right)

    def any_of(self, truths: Tensor, chosen: Tensor) -> Tensor:
        """The t-conorm over the answers of all conjunctions: [b, x, e], bool [b, x] -> [b, e]."""
        low = torch.finfo(truths.dtype).min / 4
        total = truths.new_full((len(truths), truths.shape[2]), low)
        for truth, here in zip(truths.unbind(1), chosen.unbind(1), strict=True):
            if self.options.tnorm == "product":
                joined = torch.logaddexp(total, truth + torch.log(-torch.expm1(total)))
            else:
                joined = torch.maximum(total, truth)
            total = torch.where(here.unsqueeze(1), joined, total)
        return torch.where(chosen.any(1, keepdim=True), total, 0)


@frozen(kw_only=True)
class BeamOptions(SearchOptions):
    """How wide the beam is.

    Args:
        candidates: the likeliest values of a variable that are tried.
        branches: `joined` tries that many values of each variable, each judged by all literals that lead to it; `apart`
            is the published code, see the class.
        unions: `apart` searches each conjunction of the disjunctive normal form by itself; `whole`, as published for
            CQD-Hybrid, unites where the branches of the formula meet, so that the variable of up has one set of values.
        links: a file that `peirce kg embed` wrote, whose training triples are certain, as in CQD-Hybrid; none is when
            empty.
    """

    candidates: int = field(default=16, validator=validators.ge(1))
    branches: Literal["joined", "apart"] = "joined"
    unions: Literal["apart", "whole"] = "apart"
    links: str = ""


class BeamSearch(TruthSearch):
    """Each variable takes its likeliest values, in the order from entities to the answer.

    With the value of a variable all literals that speak of it and of one other variable are judged together, so several
    edges between two variables mean one entity.

    With `branches = "apart"` as the published code does: each value of a variable goes on with `candidates` values of
    the next one, so the k-th variable of a path has candidates^k. Of several literals that lead to a variable the last
    one gives its values, and the others the truth of their own best value, which may be another one. Of a union
    below the answer only the first branch is read. The published code joins scores in place of truth values where its
    `scores_normalize` is 0; these are truth values always.

    With `links` it is CQD-Hybrid (Gregucci et al., 2025): a known link has the truth 1, and any other 0.9 sigma. The
    published code tries as many values more as there are known links; here `candidates` is all.
    """

    name = "cqd_beam"
    source = "CQD (Arakelyan et al., 2021), combinatorial optimisation"
    Options = BeamOptions

    def __init__(self, options: BeamOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        self.links = KnownLinks(options.links, dims.vocabulary) if options.links else None

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        """What is searched apart cannot be united on the way."""
        if options.branches == "apart" and options.unions == "whole":
            return "branches = 'apart' reads the first branch of a union alone; leave out unions = 'whole'"
        return super().check(options, dims, scope)

    def begin(self) -> None:
        """Read the known links."""
        if self.links is not None:
            self.links.begin()

    def reference(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap | None:
        """The search with the t-norm; none for `apart`, which does as the published code and as no equation."""
        if self.options.branches == "apart":
            return None
        join = math.prod if self.options.tnorm == "product" else min
        led = {*given["atom_targets"]}  # a variable that nothing leads to is as the entity of its token
        sources = [source if source in led else ENTITY for source in given["atom_sources"]]
        return self.plain_search(
            {**given, "atom_sources": sources}, parameters, join, self.options.candidates
        )

    def plain_links(self, scores: list[float], known: list[int], negated: bool) -> Sequence[float]:
        """1 where a link is known, and any other sigma of its score; 0.9 of that where some are known."""
        most = UNKNOWN if self.options.links else 1.0
        return [1.0 if t in known else most * each for t, each in enumerate(plain_sigmoid(scores).tolist())]

    def answer_scores(self, literals: Literals, words: Tensor, entities: Tensor, asked: Tensor) -> Tensor:
        """See `Search.answer_scores`."""
        if self.options.branches == "apart":
            asked = asked & ~_later_branches(literals)
        if self.options.unions == "whole":  # what was united below is one answer
            rows = torch.arange(len(asked), device=asked.device)
            asked = Unions(literals).branches[rows, asked.long().argmax(1)] & asked.any(1, keepdim=True)
        return super().answer_scores(literals, words, entities, asked)

    def search(self, literals: Literals, words: Tensor, entities: Tensor) -> Tensor:
        """See `Search.search`; a second literal between two variables is judged with the first, and true by itself."""
        sources, targets, options = literals.sources, literals.targets, self.options
        feeds = literals.same_variable(sources, targets)
        meets = Unions(literals) if options.unions == "whole" else None
        levels = count_levels(feeds if meets is None else compose(feeds, meets.united))
        begun = literals.real & ~feeds.any(2)
        group = literals.same_variable(sources, sources) & literals.same_variable(targets, targets)
        leading = feeds.any(2) & ~group.tril(-1).any(2)
        last, apart = is_free(targets), options.branches == "apart"
        relations = embed_tokens(words, literals.relations)
        truths = words.new_zeros(*literals.real.shape, len(entities))
        asked = complex_product(embed_tokens(words, literals.heads)[begun], relations[begun])
        first = literals.heads[begun] - self.options.first
        truths[begun] = self._links(F.linear(asked, entities), first, literals.relations[begun])
        if apart:
            truths = torch.where(last.unsqueeze(2), truths, _likeliest(truths, options.candidates))
        for level in range(1, DEPTH):
            width = min(options.candidates ** (level if apart else 1), len(entities))
            size = max(1, NUMBERS // (width * len(entities) * literals.real.shape[1]))
            places = (leading & (levels == level)).nonzero()
            for rows, columns in (part.unbind(1) for part in torch.split(places, size)):
                feeding = feeds[rows, columns]
                if meets is None:
                    before = self._source_truth(truths[rows], feeding)
                else:
                    branches = meets.branches[rows, feeding.long().argmax(1)]
                    before = self.any_of(self.all_of(truths[rows], meets.together[rows]), branches)
                truths[rows, columns] = self._project_on(
                    before, relations[rows], literals.relations[rows], group[rows, columns], entities, width,
                    last[rows, columns],
                )  # fmt: skip
        return truths

    def _links(self, scores: Tensor, heads: Tensor, relations: Tensor) -> Tensor:
        """The logarithms of the truth of links with all tails: [..., e], entities and tokens of relations [...]."""
        truths = F.logsigmoid(scores)
        if self.links is None:
            return truths
        rows, tails = self.links.tails(heads.flatten(), relations.flatten())
        flat = truths.flatten(0, -2) + math.log(UNKNOWN)
        flat[rows, tails] = 0
        return flat.view_as(truths)

    def _source_truth(self, truths: Tensor, feeds: Tensor) -> Tensor:
        """The truth of the values of the variable that chosen literals lead to: [n, x, e], bool [n, x] -> [n, e]."""
        if self.options.branches == "joined":
            return self.all_of(truths, feeds.unsqueeze(1)).squeeze(1)
        rows = torch.arange(len(feeds), device=feeds.device)
        last = feeds.shape[1] - 1 - feeds.flip(1).long().argmax(1)
        others = feeds.index_put((rows, last), torch.zeros_like(last, dtype=torch.bool))
        best = self.all_of(truths.amax(2, keepdim=True), others.unsqueeze(1)).squeeze(1)
        return self.both(truths[rows, last], best)

    def _project_on(
        self, before: Tensor, relations: Tensor, tokens: Tensor, group: Tensor, entities: Tensor, width: int,
        last: Tensor,
    ) -> Tensor:  # fmt: skip
        """From the truth of a variable's values to that of the next one's: [n, e] -> [n, e].

        relations, tokens: [n, y, d1] and [n, y], of the query's literals; group: bool [n, y], those between the two
        variables; width: how many values are tried; last: bool [n], whether the next variable is the answer, of which
        all values are wanted.
        """
        likely, values = before.topk(width, 1)
        asked = complex_product(entities[values].unsqueeze(1), relations.unsqueeze(2))
        heads, tokens = torch.broadcast_tensors(values.unsqueeze(1), tokens.unsqueeze(2))
        edges = self._links(F.linear(asked, entities), heads, tokens)
        edges = torch.where(group[:, :, None, None], edges, 0)
        joined = edges.sum(1) if self.options.tnorm == "product" else edges.amin(1)
        if self.options.branches == "apart":
            joined = torch.where(last[:, None, None], joined, _likeliest(joined, self.options.candidates))
        return self.both(joined, likely.unsqueeze(2)).amax(1)


def _likeliest(truths: Tensor, count: int) -> Tensor:
    """The greatest numbers of the last axis, the others as false as a sum of them can say: [..., e] -> [..., e]."""
    kept = truths.topk(min(count, truths.shape[-1]), -1)
    never = torch.full_like(truths, torch.finfo(truths.dtype).min / 2**10)
    return never.scatter(-1, kept.indices, kept.values)


def _later_branches(literals: Literals) -> Tensor:
    """Literals of conjunctions that share a literal of an existential variable with an earlier one: bool [b, x]."""
    existential = (literals.sources != ENTITY) & ~is_free(literals.sources)
    conjunction = literals.conjunctions()
    earlier = conjunction.unsqueeze(1) < conjunction.unsqueeze(2)
    repeats = (literals.equal() & earlier & existential.unsqueeze(2)).any(2)
    return (literals.same_conjunction() & repeats.unsqueeze(1)).any(2)


CONVERGED = 1e-9
"""A query whose objective changes by no more is done, as in the published code."""


@frozen(kw_only=True)
class ContinuousOptions(SearchOptions):
    """How vectors are optimised.

    Args:
        steps: steps of Adam, at most.
        lr: its learning rate.
        objective: what is made as great as possible: the `logarithm` of the truth value, or the `truth` value itself,
            as published, until it changes no more.
        n3: what the sum of the cubed moduli of the variables' complex numbers weighs against it; published are 0.01 on
            FB15k and 0.05 on FB15k-237 and NELL, with which its link predictors were trained.
        unions: `apart` optimises each conjunction of the disjunctive normal form by itself; `whole`, as published,
            has one vector for a variable of the formula. What all conjunctions share stands outside the union.
        intersections: what ranks the answers of 2i, 3i and the like, conjunctions without an existential variable:
            `truth` values, or, as in the published code, raw `scores` of ComplEx, joined by the same product or
            minimum. Two scores below zero then make an answer likely, and such logits are no logarithms.
    """

    steps: int = field(default=1000, validator=validators.ge(0))
    lr: float = field(default=0.1, validator=validators.gt(0.0))
    objective: Literal["logarithm", "truth"] = "logarithm"
    n3: float = field(default=0.0, validator=validators.ge(0.0))
    unions: Literal["apart", "whole"] = "apart"
    intersections: Literal["truth", "scores"] = "truth"


class ContinuousSearch(TruthSearch):
    """Each variable takes a vector: those of all variables are optimised together, by Adam.

    What is made as great as possible is T - n3 sum_v |v|^3, with the truth value T of the query or its logarithm. With
    the vectors found, each entity takes the free variable's place. Vectors begin with the same small random numbers in
    every query and each query has its own objective, so that its answer depends on it alone.
    """

    name = "cqd_continuous"
    expected_failures: ClassVar = {
        **NO_NETWORK,
        "precision": "the search begins at vectors that are drawn in float32, the same in every dtype",
    }
    source = "CQD (Arakelyan et al., 2021), continuous optimisation; N3: Lacroix et al. (2018)"
    Options = ContinuousOptions
    example: ClassVar = {"steps": 3}

    def search(self, literals: Literals, words: Tensor, entities: Tensor) -> Tensor:
        """See `Search.search`; what does not lead to the free variable counts with the first literal that does."""
        truths, inner = self._search_vectors(literals, words, entities)
        inside = literals.same_conjunction() & ~self._leads_to_free(literals).unsqueeze(1)
        joined = self.both(truths, self.all_of(inner, inside))
        return torch.where(self._first_to_free(literals).unsqueeze(2), joined, truths)

    def answer_scores(self, literals: Literals, words: Tensor, entities: Tensor, asked: Tensor) -> Tensor:
        """See `Search.answer_scores`."""
        if self.options.unions == "apart":
            best = super().answer_scores(literals, words, entities, asked)
        else:
            truths, inner = self._search_vectors(literals, words, entities)
            best = self._formula_truth(
                literals, torch.where(self._leads_to_free(literals).unsqueeze(2), truths, inner)
            )
        if self.options.intersections == "truth":
            return best
        real = literals.real
        alone = (((literals.sources == ENTITY) & (literals.targets == 1)) | ~real).all(1) & (real.sum(1) > 1)
        led = complex_product(
            embed_tokens(words, literals.heads[alone]), embed_tokens(words, literals.relations[alone])
        )
        scores, ours = F.linear(led, entities), real[alone].unsqueeze(2)
        product = self.options.tnorm == "product"
        scores = scores.masked_fill(~ours, 1.0 if product else torch.inf)
        best[alone] = scores.prod(1) if product else scores.amin(1)
        return best

    def _search_vectors(self, literals: Literals, words: Tensor, entities: Tensor) -> tuple[Tensor, Tensor]:
        """The truth of each literal with every entity at its tail, [b, x, e], and with the vector found, [b, x, 1]."""
        ends = _Vectors(literals, words, shared=self.options.unions == "whole")
        relations = embed_tokens(words, literals.relations)
        with torch.enable_grad():
            ends.optimise(lambda head, tail: self._objective(literals, head, relations, tail), self.options)
        head, tail = ends.vectors()
        led = complex_product(head, relations)
        return F.logsigmoid(F.linear(led, entities)), F.logsigmoid((led * tail).sum(2, keepdim=True))

    def _objective(self, literals: Literals, head: Tensor, relations: Tensor, tail: Tensor) -> Tensor:
        """What is maximised, without N3: a number for each query, [b]."""
        truths = F.logsigmoid((complex_product(head, relations) * tail).sum(2, keepdim=True))
        if self.options.unions == "whole":
            total, whose = self._formula_truth(literals, truths), literals.real.any(1, keepdim=True)
        else:
            total, whose = (
                self.all_of(truths, literals.same_conjunction()).squeeze(2),
                self._first_to_free(literals),
            )
        wanted = total.exp() if self.options.objective == "truth" else total
        return torch.where(whose, wanted, 0).sum(1)

    def _formula_truth(self, literals: Literals, truths: Tensor) -> Tensor:
        """The logarithm of the truth of the formula, from that of its literals: [b, x, e] -> [b, e].

        Literals that all conjunctions have stand outside the union, once: those of (A and C) or (B and C) make
        (A or B) and C.
        """
        ours = literals.conjunctions()
        numbers = torch.arange(int(ours.amax().item()) + 1 if ours.numel() else 1, device=ours.device)
        member = literals.real.unsqueeze(2) & (ours.unsqueeze(2) == numbers)
        there = member.any(1)
        equal = literals.equal()
        has = (equal.unsqueeze(3) & member.unsqueeze(1)).any(2)
        common = (has | ~there.unsqueeze(1)).all(2) & literals.real
        outside = (common & ~equal.tril(-1).any(2)).unsqueeze(1)
        inside = (member & ~common.unsqueeze(2)).transpose(1, 2)
        shared = self.all_of(truths, outside).squeeze(1)
        if len(numbers) == 1:
            return shared
        return self.both(shared, self.any_of(self.all_of(truths, inside), there))

    def _leads_to_free(self, literals: Literals) -> Tensor:
        """Whether a literal leads to the free variable: bool [b, x]."""
        return (literals.tails == self.options.free) & literals.real

    def _first_to_free(self, literals: Literals) -> Tensor:
        """The first literal of each conjunction that leads to the free variable: bool [b, x]."""
        leads = self._leads_to_free(literals)
        return leads & ~(literals.same_conjunction() & leads.unsqueeze(1)).tril(-1).any(2)


class _Vectors:
    """The vectors at both ends of every literal: of entities, or of variables, which are optimised."""

    def __init__(self, literals: Literals, words: Tensor, *, shared: bool) -> None:
        self.literals = literals
        self.fixed = embed_tokens(words, literals.heads), embed_tokens(words, literals.tails)
        begin = torch.randn(VARIABLES, words.shape[1], generator=torch.Generator().manual_seed(0)) * 1e-3
        # One vector for each variable of a row: that of the first end where it stands.
        joined = torch.cat((literals.sources, literals.targets), 1)
        self.known, variable = joined != ENTITY, (joined - 1) % VARIABLES
        names = torch.where(self.known, variable if shared else joined, -1)
        same = (names.unsqueeze(2) == names.unsqueeze(1)) & self.known.unsqueeze(1)
        self.owner, self.owns = same.long().argmax(2), self.known & ~same.tril(-1).any(2)
        self.free = torch.where(self.known.unsqueeze(2), begin.to(words)[variable], 0)

    def vectors(self) -> tuple[Tensor, Tensor]:
        """[b, x, d1] of heads, and of tails."""
        length = self.literals.real.shape[1]
        free = self.free.gather(1, self.owner.unsqueeze(2).expand_as(self.free))
        mixed = torch.where(self.known.unsqueeze(2), free, torch.cat(self.fixed, 1))
        return mixed[:, :length], mixed[:, length:]

    def penalty(self) -> Tensor:
        """The sum of the cubed moduli of each query's variables, every one once: [b]."""
        real, imaginary = self.free.chunk(2, 2)
        cubes = (real.square() + imaginary.square()).pow(1.5).sum(2)
        return torch.where(self.owns, cubes, 0).sum(1)

    def optimise(self, truths: Any, options: ContinuousOptions) -> None:
        """Make `truths(head, tail)`, [b], as great as possible; each number has its own step of Adam."""
        self.free = self.free.clone().requires_grad_()
        adam = torch.optim.Adam([self.free], lr=options.lr)
        going = torch.ones(len(self.free), dtype=torch.bool, device=self.free.device)
        last = torch.full(going.shape, torch.inf, dtype=self.free.dtype, device=self.free.device)
        for _ in range(options.steps):
            adam.zero_grad()
            losses = -truths(*self.vectors())
            if options.n3:
                losses = losses + options.n3 * self.penalty()
            losses.sum().backward()
            before = self.free.detach().clone()
            adam.step()
            if options.objective == "logarithm":
                continue
            with torch.no_grad():
                self.free.copy_(torch.where(going[:, None, None], self.free, before))
            going = going & ((losses.detach() - last).abs() > CONVERGED)
            if not going.any():
                break
            last = losses.detach()
        self.free = self.free.detach()
