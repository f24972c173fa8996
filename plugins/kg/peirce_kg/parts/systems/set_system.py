"""Execution with sets: each literal projects a set, and where several meet their intersection goes on."""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peirce.kernels import on_cpu
from peirce.parts import Linear
from peirce_kg.parts.systems.literals import DEPTH, Rule, no_shared_set, tree
from peirce_kg.parts.systems.system import Literals, QuerySystem, embed_tokens


class SetSystem(QuerySystem):
    """A system in which a literal is a projection, a negated one the complement of its projection.

    A literal begins with the entity at its head, or with the intersection of what leads to the variable there. The
    union is left to the head: each conjunction of the disjunctive normal form has an answer set of its own.
    """

    rules: ClassVar[tuple[Rule, ...]] = (tree, no_shared_set)

    @abstractmethod
    def entities(self, vectors: Tensor) -> Tensor:
        """The set of one entity, from its vector: [..., d1] -> [..., d1]."""

    @abstractmethod
    def project(self, sets: Tensor, relations: Tensor) -> Tensor:
        """What a relation leads to from a set: [..., d1], the vectors of relations [..., d1] -> [..., d1]."""

    @abstractmethod
    def intersect(self, sets: Tensor, chosen: Tensor) -> Tensor:
        """Intersections of chosen sets: [b, y, d1], bool [b, x, y] -> [b, x, d1]; anything where none is chosen."""

    @abstractmethod
    def complement(self, sets: Tensor) -> Tensor:
        """What is not in a set: [..., d1] -> [..., d1]."""

    def refine(self, sets: Tensor) -> Tensor:
        """What a set that literals led to is before the next ones project it: [..., d1] -> [..., d1]."""
        return sets

    def execute(self, literals: Literals, words: Tensor) -> Tensor:
        """See `QuerySystem.execute`."""
        feeds = literals.same_variable(literals.sources, literals.targets)
        levels = count_levels(feeds)
        begun = self.entities(embed_tokens(words, literals.heads))
        relations = embed_tokens(words, literals.relations)
        sets = torch.zeros_like(begun)
        for level in range(DEPTH):
            here = literals.real & (levels == level)
            if on_cpu(here) and not here.any():
                continue
            starts = begun
            if level:
                starts = torch.where(
                    feeds.any(2, keepdim=True), self.refine(self._intersection(sets, feeds)), begun
                )
            if on_cpu(here):
                done = self._literal(starts[here], relations[here], literals.negated[here])
                sets = sets.index_put(tuple(here.nonzero(as_tuple=True)), done)
            else:  # all are projected where shapes are fixed, or a GPU would wait for the count
                every = self._literal(starts, relations, literals.negated)
                sets = torch.where(here.unsqueeze(2), every, sets)
        return self._intersection(sets, literals.same_variable(literals.targets, literals.targets))

    def _literal(self, starts: Tensor, relations: Tensor, negated: Tensor) -> Tensor:
        projected = self.project(starts, relations)
        return torch.where(negated.unsqueeze(-1), self.complement(projected), projected)

    def _intersection(self, sets: Tensor, chosen: Tensor) -> Tensor:
        """Intersections; of a single set, the set itself."""
        single = chosen.to(sets.dtype) @ sets
        several = chosen.sum(2, keepdim=True) > 1
        if on_cpu(several) and not several.any():
            return single
        return torch.where(several, self.intersect(sets, chosen), single)


class Mlp(nn.ModuleList):
    """Linear layers from each width to the next, with rectifiers between them.

    They begin as in the code of BetaE and ConE: weights by Xavier's uniform numbers, biases uniform to 1 / sqrt(width).
    """

    def __init__(self, *widths: int) -> None:
        super().__init__(Linear(one, next_) for one, next_ in pairwise(widths))
        for layer, width in zip(self, widths, strict=False):
            nn.init.xavier_uniform_(layer.get_parameter("weight"))
            nn.init.uniform_(layer.get_parameter("bias"), -(width**-0.5), width**-0.5)

    def forward(self, values: Tensor) -> Tensor:
        """[..., first width] -> [..., last width]."""
        *hidden, last = self
        for layer in hidden:
            values = F.relu(layer(values))
        return last(values)


def count_levels(feeds: Tensor) -> Tensor:
    """How many literals lie before each literal, below `DEPTH`: bool [b, x, y] -> int64 [b, x]."""
    levels = torch.zeros_like(feeds[:, :, 0], dtype=torch.int64)
    for _ in range(DEPTH - 1):
        levels = torch.where(feeds, levels.unsqueeze(1) + 1, 0).amax(2)
    return levels


def softmax_over_chosen(scores: Tensor, chosen: Tensor) -> Tensor:
    """Softmax over the chosen sets, for each number: [b, y, n], bool [b, x, y] -> [b, x, y, n].

    Where none is chosen all weigh the same.
    """
    masked = torch.where(chosen.unsqueeze(3), scores.unsqueeze(1), torch.finfo(scores.dtype).min)
    return masked.softmax(2)
