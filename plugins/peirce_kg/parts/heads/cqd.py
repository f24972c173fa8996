"""CQD's searches: answers for whose query a link predictor finds the likeliest values of all variables.

A truth value is sigma of a ComplEx score, and values join by a t-norm: their product, or the least of them. All is
computed in logarithms, where it does not round to 1. In training a model is a link predictor: the head scores the one
literal of a query, by cross-entropy over all entities. Neither search is a network, so there is no export of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from peirce.algebra import at_least_float32
from peirce.errors import ExportError
from peirce.parts import Encoded, TensorSpec, Tokens, dense, ranking_loss
from torch import Tensor

from peirce_kg.parts.heads.sets import RankingOptions, SetRanking
from peirce_kg.parts.systems.complex_numbers import times
from peirce_kg.parts.systems.literals import DEPTH, ENTITY, VARIABLES
from peirce_kg.parts.systems.sets import levels_of
from peirce_kg.parts.systems.system import Literals, literal_specs, looked_up

NUMBERS = 2**24
"""Scores of candidates that are held at once."""
TNORMS = ("product", "min")
TNorm = Literal["product", "min"]
NO_NETWORK = {
    "onnx": "it searches for answers with a link predictor and is no network that could be exported"
}


@frozen(kw_only=True)
class SearchOptions(RankingOptions):
    """How truth values join.

    Args:
        tnorm: `product`, with p + q - p q for unions, or `min`, with the greatest.
        smoothing: label smoothing of the loss.
    """

    tnorm: TNorm = field(default="product", validator=validators.in_(TNORMS))
    smoothing: float = field(default=0.0, validator=[validators.ge(0.0), validators.lt(1.0)])


class Search(SetRanking):
    """What both searches share: training, unions, and what joins truth values."""

    expected_failures = NO_NETWORK

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The literals, as systems have them."""
        return tuple(spec for spec in literal_specs(self.vocabulary) if spec.name.startswith("atom_"))

    def __init__(self, options: Any, dims: Any) -> None:
        super().__init__(options, dims)
        self.vocabulary = dims.vocabulary

    @abstractmethod
    def search(self, literals: Literals, words: Tensor, entities: Tensor) -> Tensor:
        """The logarithm of the truth of each literal with every entity at its tail, joined over what leads to its head.

        [v, d1], [e, d1] -> [b, x, e].
        """

    def scores(self, sets: Tensor, entities: Tensor) -> Tensor:
        """The link predictor's scores, [n, d1], [e, d1] -> [n, e]."""
        return F.linear(sets, entities)

    def forward(self, encoded: Encoded, tokens: Tokens) -> dict[str, Tensor]:
        """The logarithms of truth values [b, entities]; of a link predictor in training, its scores."""
        if torch.compiler.is_compiling():
            raise ExportError(
                f"the head {self.name!r} searches for answers and is no network; evaluate it in torch"
            )
        if self.training or dense(encoded.unary):
            return super().forward(encoded, tokens)
        with torch.inference_mode(False), torch.no_grad():
            # Copies: what inference mode made cannot be optimised with.
            inputs = {name: value.clone() for name, value in tokens.inputs.items()}
            words = at_least_float32(encoded.embeddings.detach().clone())
            literals = Literals.of(inputs)
            entities = words[self.options.first : self.options.first + self.count]
            truths = self.search(literals, words, entities)
            asked = self._answers(tokens)
            joined = self.all_of(truths, literals.same(literals.targets, literals.targets))
            best = self._any_of(joined, asked.expand(joined.shape[:2]))
        kind = encoded.unary.dtype
        return {"logits": best.clamp_min(torch.finfo(kind).min).to(kind)}

    def all_of(self, truths: Tensor, chosen: Tensor) -> Tensor:
        """The t-norm over chosen literals: [b, y, e], bool [b, x, y] -> [b, x, e]; true where none is chosen."""
        if self.options.tnorm == "product":
            return chosen.to(truths.dtype) @ truths
        rows = [torch.where(own.unsqueeze(2), truths, 0).amin(1) for own in chosen.unbind(1)]
        return torch.stack(rows, 1)

    def both(self, left: Tensor, right: Tensor) -> Tensor:
        """The t-norm of two truth values."""
        return left + right if self.options.tnorm == "product" else torch.minimum(left, right)

    def _any_of(self, truths: Tensor, chosen: Tensor) -> Tensor:
        """The t-conorm over the answers of all conjunctions: [b, x, e], bool [b, x] -> [b, e]."""
        low = torch.finfo(truths.dtype).min / 4
        total = torch.full_like(truths[:, 0], low)
        for own, here in zip(truths.unbind(1), chosen.unbind(1), strict=True):
            if self.options.tnorm == "product":
                joined = torch.logaddexp(total, own + torch.log(-torch.expm1(total)))
            else:
                joined = torch.maximum(total, own)
            total = torch.where(here.unsqueeze(1), joined, total)
        return torch.where(chosen.any(1, keepdim=True), total, 0)

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Cross-entropy; labels are int64 [b], or float [b, entities], a distribution over the answers."""
        return ranking_loss(outputs["logits"], labels, self.options.smoothing)


@frozen(kw_only=True)
class BeamOptions(SearchOptions):
    """How wide the beam is.

    Args:
        candidates: the likeliest values of a variable that are tried.
    """

    candidates: int = field(default=16, validator=validators.ge(1))


class BeamSearch(Search):
    """Each variable takes its likeliest values, in the order from entities to the answer.

    With the value of a variable all literals that speak of it and of one other variable are judged together, so several
    edges between two variables mean one entity.
    """

    name = "cqd_beam"
    source = "CQD (Arakelyan et al., 2021), combinatorial optimisation"
    Options = BeamOptions

    def search(self, literals: Literals, words: Tensor, entities: Tensor) -> Tensor:
        """See `Search.search`; a second literal between two variables is judged with the first, and true by itself."""
        feeds = literals.same(literals.sources, literals.targets)
        levels, begun = levels_of(feeds), literals.real & ~feeds.any(2)
        group = literals.same(literals.sources, literals.sources) & literals.same(
            literals.targets, literals.targets
        )
        leading = feeds.any(2) & ~group.tril(-1).any(2)
        relations = looked_up(words, literals.relations)
        truths = words.new_zeros(*literals.real.shape, len(entities))
        asked = times(looked_up(words, literals.heads)[begun], relations[begun])
        truths[begun] = F.logsigmoid(F.linear(asked, entities))
        for level in range(1, DEPTH):
            places = (leading & (levels == level)).nonzero()
            size = max(1, NUMBERS // (self.options.candidates * len(entities) * literals.real.shape[1]))
            for rows, columns in (part.unbind(1) for part in torch.split(places, size)):
                before = self.all_of(truths[rows], feeds[rows, columns].unsqueeze(1)).squeeze(1)
                truths[rows, columns] = self._onwards(before, relations[rows], group[rows, columns], entities)
        return truths

    def _onwards(self, before: Tensor, relations: Tensor, group: Tensor, entities: Tensor) -> Tensor:
        """From the truth of a variable's values to that of the next one's: [n, e] -> [n, e].

        Args:
            before: [n, e], the logarithm of the truth of each value.
            relations: [n, y, d1], of the query's literals.
            group: bool [n, y], the literals between the two variables.
            entities: [e, d1].
        """
        likely, values = before.topk(min(self.options.candidates, before.shape[1]), 1)
        asked = times(entities[values].unsqueeze(1), relations.unsqueeze(2))
        edges = F.logsigmoid(F.linear(asked, entities))
        edges = torch.where(group[:, :, None, None], edges, 0)
        joined = edges.sum(1) if self.options.tnorm == "product" else edges.amin(1)
        return self.both(joined, likely.unsqueeze(2)).amax(1)


@frozen(kw_only=True)
class ContinuousOptions(SearchOptions):
    """How vectors are optimised.

    Args:
        steps: steps of Adam.
        lr: its learning rate.
    """

    steps: int = field(default=1000, validator=validators.ge(0))
    lr: float = field(default=0.1, validator=validators.gt(0.0))


class ContinuousSearch(Search):
    """Each variable takes a vector: those of all variables are optimised together, by Adam on the logarithm of truth.

    With the vectors found, each entity takes the free variable's place. Each conjunction is optimised by itself, and
    vectors begin with the same small random numbers in every query, so that a query's answer depends on it alone.
    """

    name = "cqd_continuous"
    source = "CQD (Arakelyan et al., 2021), continuous optimisation"
    Options = ContinuousOptions
    example: ClassVar = {"steps": 3}

    def search(self, literals: Literals, words: Tensor, entities: Tensor) -> Tensor:
        """See `Search.search`; what does not lead to the free variable counts with the first literal that does."""
        relations = looked_up(words, literals.relations)
        ends = _Vectors(literals, words)
        with torch.enable_grad():
            ends.optimise(lambda head, tail: self._truth(literals, head, relations, tail), self.options)
        head, tail = ends.vectors()
        truths = F.logsigmoid(F.linear(times(head, relations), entities))
        first = self._first(literals)
        others = F.logsigmoid((times(head, relations) * tail).sum(2))
        inner = literals.together() & ~self._leads(literals).unsqueeze(1)
        joined = self.all_of(others.unsqueeze(2), inner)
        return torch.where(first.unsqueeze(2), self.both(truths, joined), truths)

    def _truth(self, literals: Literals, head: Tensor, relations: Tensor, tail: Tensor) -> Tensor:
        """What is made as great as possible, summed over the conjunctions: a scalar."""
        truths = F.logsigmoid((times(head, relations) * tail).sum(2)).unsqueeze(2)
        total = self.all_of(truths, literals.together()).squeeze(2)
        return torch.where(self._first(literals), total, 0).sum()

    def _leads(self, literals: Literals) -> Tensor:
        """Whether a literal leads to the free variable: bool [b, x]."""
        return (literals.tails == self.options.free) & literals.real

    def _first(self, literals: Literals) -> Tensor:
        """The first literal of each conjunction that leads to the free variable: bool [b, x]."""
        leads = self._leads(literals)
        return leads & ~(literals.together() & leads.unsqueeze(1)).tril(-1).any(2)


class _Vectors:
    """The vectors at both ends of every literal: of entities, or of variables, which are optimised."""

    def __init__(self, literals: Literals, words: Tensor) -> None:
        self.literals = literals
        self.fixed = looked_up(words, literals.heads), looked_up(words, literals.tails)
        begin = torch.randn(VARIABLES, words.shape[1], generator=torch.Generator().manual_seed(0)) * 1e-3
        begin = begin.to(words)
        numbers = (literals.sources, literals.targets)
        # One vector for each variable of a row: that of the first end where it stands.
        joined = torch.cat(numbers, 1)
        known = joined != ENTITY
        same = (joined.unsqueeze(2) == joined.unsqueeze(1)) & known.unsqueeze(1) & known.unsqueeze(2)
        self.owner = same.long().argmax(2)
        self.free = torch.where(known.unsqueeze(2), begin[(joined - 1) % VARIABLES], 0)
        self.known = known

    def vectors(self) -> tuple[Tensor, Tensor]:
        """[b, x, d1] of heads, and of tails."""
        length = self.literals.real.shape[1]
        own = self.free.gather(1, self.owner.unsqueeze(2).expand_as(self.free))
        mixed = torch.where(self.known.unsqueeze(2), own, torch.cat(self.fixed, 1))
        return mixed[:, :length], mixed[:, length:]

    def optimise(self, truth: Any, options: ContinuousOptions) -> None:
        """Make `truth(head, tail)` as great as possible; each number has its own step of Adam."""
        self.free = self.free.clone().requires_grad_()
        adam = torch.optim.Adam([self.free], lr=options.lr)
        for _ in range(options.steps):
            adam.zero_grad()
            loss = -truth(*self.vectors())
            loss.backward()
            adam.step()
        self.free = self.free.detach()
