"""Execution with sets: each literal projects a set, and where several meet their intersection goes on."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peirce.kernels import on_cpu
from peirce.parts import Linear, plain_linear, plain_relu, plain_sigmoid
from peirce_kg.parts.systems.literals import DEPTH, Rule, no_shared_set, tree
from peirce_kg.parts.systems.system import Literals, Numbers, PlainLiteral, QuerySystem, embed_tokens


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

    def plain_entity(self, vector: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """`entities` of one entity, for `reference`."""
        return vector

    def plain_project(
        self, begun: Numbers, relation: Numbers, parameters: Mapping[str, Any]
    ) -> Numbers | None:
        """`project` of one set; None where it is not stated."""
        return None

    def plain_intersect(self, sets: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """`intersect` of several sets, [n, d1] -> [d1]."""
        raise NotImplementedError

    def plain_complement(self, begun: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """`complement` of one set."""
        return begun

    def plain_refine(self, begun: Numbers, parameters: Mapping[str, Any]) -> Numbers:
        """`refine` of one set."""
        return begun

    def plain_execute(
        self, literals: Sequence[PlainLiteral], vectors: Numbers, parameters: Mapping[str, Any]
    ) -> list[Numbers] | None:
        """What leads to each variable, from the entities on."""
        entity = self.plain_entity(vectors[0], parameters)
        if self.plain_project(entity, vectors[0], parameters) is None:
            return None

        def led_to(number: int) -> Numbers:
            sets = [led_by(each) for each in literals if each.target == number]
            return sets[0] if len(sets) == 1 else self.plain_intersect(np.stack(sets), parameters)

        def led_by(literal: PlainLiteral) -> Numbers:
            begins = all(each.target != literal.source for each in literals)
            begun = (
                self.plain_entity(vectors[literal.head], parameters)
                if begins
                else self.plain_refine(led_to(literal.source), parameters)
            )
            found: Any = self.plain_project(begun, vectors[literal.relation], parameters)
            return self.plain_complement(found, parameters) if literal.negated else found

        return [led_to(each.target) for each in literals]

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


def plain_mlp(name: str, values: Numbers, parameters: Mapping[str, Any]) -> Numbers:
    """An `Mlp` of sets, for `reference`."""
    layers = [key[: -len(".bias")] for key in parameters if re.fullmatch(rf"{name}\.\d+\.bias", key)]
    for layer in layers:
        values = plain_linear(values, parameters, layer, len(parameters[f"{layer}.bias"]))
        values = values if layer == layers[-1] else plain_relu(values)
    return values


def plain_narrowing(sets: Numbers, parameters: Mapping[str, Any]) -> Numbers:
    """How much of the least of several sets is left, by DeepSets: [n, d] -> [d]."""
    inner = plain_linear(sets, parameters, "narrowing.0", len(parameters["narrowing.0.bias"]))
    mean = plain_relu(inner).mean(0)
    return plain_sigmoid(plain_linear(mean, parameters, "narrowing.1", len(parameters["narrowing.1.bias"])))


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
