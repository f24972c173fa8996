"""lmpnn: one-hop inferences of a link predictor as messages between the ends of a query's literals."""

from __future__ import annotations

import torch
from attrs import field, frozen, validators
from peirce.parts import Linear, Plan, dense
from torch import Tensor, nn

from peirce_kg.parts.systems.complex_numbers import conjugate, times
from peirce_kg.parts.systems.literals import DEPTH, ENTITY
from peirce_kg.parts.systems.system import Literals, QuerySystem, is_free, looked_up

INIT_STD = 0.02
FAR = 1 << 20
"""A distance that no path has."""


@frozen(kw_only=True)
class LmpnnOptions:
    """How variables keep what they were.

    Args:
        keep: epsilon, what a variable's own state weighs beside its messages.
    """

    keep: float = field(default=0.1, validator=validators.ge(0.0))


class Lmpnn(QuerySystem):
    """The numbers of a vector are real parts, then imaginary parts, as ComplEx has them.

    A literal r(h, t) sends t the message h r and h the message conj(r) t, the best tail and head of ComplEx with its
    regulariser's factor set to 1; a negated one sends them with a minus. A variable's next state is
    MLP(epsilon z + sum of its messages), with one MLP for all layers; entities keep their vectors. There
    are as many layers as the furthest end of a conjunction is literals away from the free variable. Existential
    variables share one learned vector and the free one has another. Union: by the disjunctive normal form.
    """

    name = "lmpnn"
    source = "LMPNN (Wang et al., 2023); ComplEx: Trouillon et al. (2016)"
    Options = LmpnnOptions
    widening = 8

    def __init__(self, options: LmpnnOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.keep = options.keep
        width, hidden = plan.dims.unary, plan.dims.feedforward_unary
        self.mix = nn.Sequential(Linear(width, hidden), nn.ReLU(), Linear(hidden, width))

    def beginning(self, count: int, width: int) -> Tensor:
        """Normal; trained vectors of a link predictor take the place of those of entities and relations."""
        return torch.randn(count, width) * INIT_STD

    def execute(self, literals: Literals, words: Tensor) -> Tensor:
        """See `QuerySystem.execute`."""
        ends = _Ends(literals)
        heads, tails = looked_up(words, literals.heads), looked_up(words, literals.tails)
        relations = looked_up(words, literals.relations)
        sign = torch.where(literals.negated, -1, 1).unsqueeze(2).to(words.dtype)
        layers = ends.layers()
        for layer in range(DEPTH):
            if not dense(layers) and not (layer < layers).any():
                break
            forwards = sign * times(heads, relations)
            backwards = sign * times(conjugate(relations), tails)
            going = (layer < layers).unsqueeze(2)
            fresh = []
            for state, numbers, leads, leaves in (
                (heads, literals.sources, ends.leads_to_head, ends.leaves_head),
                (tails, literals.targets, ends.leads_to_tail, ends.leaves_tail),
            ):
                told = leads.to(words.dtype) @ forwards + leaves.to(words.dtype) @ backwards
                mixed = self.mix(self.keep * state + told)
                fresh.append(torch.where(going & (numbers != ENTITY).unsqueeze(2), mixed, state))
            heads, tails = fresh
        return tails


class _Ends:
    """Which literals lead to, or leave, the variable at each end: bool [b, x, y]."""

    def __init__(self, literals: Literals) -> None:
        self.literals = literals
        self.leads_to_head = literals.same(literals.sources, literals.targets)
        self.leaves_head = literals.same(literals.sources, literals.sources)
        self.leads_to_tail = literals.same(literals.targets, literals.targets)
        self.leaves_tail = literals.same(literals.targets, literals.sources)

    def layers(self) -> Tensor:
        """How many literals lie between the free variable and the furthest end of each conjunction: int64 [b, x]."""
        literals = self.literals
        heads, tails = (
            torch.where(is_free(numbers) & literals.real, 0, FAR)
            for numbers in (literals.sources, literals.targets)
        )
        for _ in range(DEPTH):
            near = torch.minimum(heads, tails) + 1
            heads, tails = (
                torch.minimum(
                    torch.where(numbers == ENTITY, near, ends),
                    torch.where(leads | leaves, near.unsqueeze(1), FAR).amin(2),
                ).minimum(ends)
                for ends, numbers, leads, leaves in (
                    (heads, literals.sources, self.leads_to_head, self.leaves_head),
                    (tails, literals.targets, self.leads_to_tail, self.leaves_tail),
                )
            )
        furthest = torch.maximum(heads, tails)
        known = literals.real & (furthest < FAR)
        furthest = torch.where(known, furthest, 0).unsqueeze(1)
        return torch.where(literals.together(), furthest, 0).amax(2).clamp_max(DEPTH)
