"""lmpnn: one-hop inferences of a link predictor as messages between the ends of a query's literals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.kernels import on_cpu
from peirce.parts import Linear, Plan
from peirce_kg.parts.systems.literals import DEPTH, ENTITY, VARIABLES
from peirce_kg.parts.systems.set_system import plain_mlp
from peirce_kg.parts.systems.system import (
    Literals,
    Numbers,
    PlainLiteral,
    QuerySystem,
    as_complex,
    complex_product,
    conjugate,
    embed_tokens,
    is_free,
    ranked_tokens,
)

INIT_STD = 0.02
FAR = 1 << 20
"""A distance that no path has."""


@frozen(kw_only=True)
class LmpnnOptions:
    """Which nodes change, how often, and what a union is; the ready spec has the published code's.

    Args:
        keep: epsilon, what a node's own state weighs beside its messages.
        nodes: which nodes take messages: `variables`, or, as in the published code, `all` of them, so that an entity's
            vector changes, too.
        passes: how many layers there are: as many as the furthest end is literals away from the free variable
            (`path`), or, as in the published code, as there are `variables`, the free one included.
        unions: `apart` answers each conjunction of the disjunctive normal form by itself; `whole`, as in the published
            code, passes messages along all atoms of the formula, as if a union were a conjunction.
    """

    keep: float = field(default=0.1, validator=validators.ge(0.0))
    nodes: Literal["variables", "all"] = "variables"
    passes: Literal["path", "variables"] = "path"
    unions: Literal["apart", "whole"] = "apart"


class Lmpnn(QuerySystem):
    """The numbers of a vector are real parts, then imaginary parts, as ComplEx has them.

    A literal r(h, t) sends t the message h r and h the message conj(r) t, the best tail and head of ComplEx with its
    regulariser's factor set to 1; a negated one sends them with a minus. A node's next state is
    MLP(epsilon z + sum of its messages), with one MLP for all layers. Each entity of a literal is a node of its own.
    Existential variables share one learned vector and the free one has another.
    """

    name = "lmpnn"
    source = "LMPNN (Wang et al., 2023); ComplEx: Trouillon et al. (2016)"
    Options: ClassVar[type] = LmpnnOptions
    widening = 8

    def __init__(self, options: LmpnnOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        self.mix = self.mixer(plan)

    def mixer(self, plan: Plan) -> nn.Module:
        """The network that all layers have."""
        width, hidden = plan.dims.unary, plan.dims.feedforward_unary
        return nn.Sequential(Linear(width, hidden), nn.ReLU(), Linear(hidden, width))

    def update(
        self, state: Tensor, forwards: Tensor, backwards: Tensor, leads: Tensor, leaves: Tensor
    ) -> Tensor:
        """The next states of nodes: [b, x, d1].

        forwards, backwards: [b, y, d1], what literals send to their tails and heads; leads, leaves: bool [b, x, y],
        which of them lead to a node and which leave it.
        """
        received = leads.to(state.dtype) @ forwards + leaves.to(state.dtype) @ backwards
        return self.mix(self.options.keep * state + received)

    def initial_vectors(self, count: int, width: int) -> Tensor:
        """Normal, and those of variables uniform in [0, 1), as in the published code.

        Trained vectors of a link predictor take the place of those of entities and relations.
        """
        vectors, variables = torch.randn(count, width) * INIT_STD, ranked_tokens(self.plan).start
        vectors[:variables] = torch.rand(variables, width)
        return vectors

    def execute(self, literals: Literals, words: Tensor) -> Tensor:
        """See `QuerySystem.execute`."""
        if self.options.unions == "whole":
            return self._free_states(literals, self._pass_messages(literals.merged(), words))
        return self._pass_messages(literals, words)

    def _pass_messages(self, literals: Literals, words: Tensor) -> Tensor:
        """The states at the tails of literals after all layers: [b, x, d1]."""
        every = self.options.nodes == "all"
        ends = _Ends(literals, entities=every)
        heads, tails = embed_tokens(words, literals.heads), embed_tokens(words, literals.tails)
        relations = embed_tokens(words, literals.relations)
        sign = torch.where(literals.negated, -1, 1).unsqueeze(2).to(words.dtype)
        by_path = self.options.passes == "path"
        layers = ends.layers() if by_path else literals.variables().unsqueeze(1)
        for layer in range(DEPTH if by_path else VARIABLES):
            if on_cpu(layers) and not (layer < layers).any():
                break
            forwards = sign * complex_product(heads, relations)
            backwards = sign * complex_product(conjugate(relations), tails)
            going, fresh = (layer < layers).unsqueeze(2), []
            for state, (numbers, leads, leaves) in zip((heads, tails), ends.both(), strict=True):
                mixed = self.update(state, forwards, backwards, leads, leaves)
                changes = going if every else going & (numbers != ENTITY).unsqueeze(2)
                fresh.append(torch.where(changes, mixed, state))
            heads, tails = fresh
        return tails

    def plain_update(self, state: Numbers, received: list[Numbers], parameters: Mapping[str, Any]) -> Numbers:
        """`update` of one node, for `reference`."""
        return plain_mlp("mix", self.options.keep * state + sum(received), parameters)

    def plain_execute(
        self, literals: Sequence[PlainLiteral], vectors: Numbers, parameters: Mapping[str, Any]
    ) -> list[Numbers] | None:
        """The states at both ends of each literal, layer by layer."""
        if self.options.unions == "whole":
            return None
        every, passes = self.options.nodes == "all", self._plain_passes(literals)
        ends = [[each.source, each.target] for each in literals]
        states = [[vectors[each.head], vectors[each.tail]] for each in literals]
        for layer in range(max(passes)):
            sent = []
            for (head, tail), literal in zip(states, literals, strict=True):
                relation, sign = as_complex(vectors[literal.relation]), -1 if literal.negated else 1
                both = relation.conj() * as_complex(tail), as_complex(head) * relation
                sent.append([sign * np.append(each.real, each.imag) for each in both])
            fresh = []
            for i, pair in enumerate(ends):
                for at, number in enumerate(pair):
                    # what leads to a node is sent forwards, what leaves it backwards; an entity is its own node
                    known = [sent[j][k] for j, other in enumerate(ends) for k in (0, 1) if other[k] == number]
                    received = known if number else [sent[i][at]]
                    changes = layer < passes[i] and (every or number != ENTITY)
                    fresh.append(
                        self.plain_update(states[i][at], received, parameters) if changes else states[i][at]
                    )
            states = [fresh[i : i + 2] for i in range(0, len(fresh), 2)]
        return [tail for _, tail in states]

    def _plain_passes(self, literals: Sequence[PlainLiteral]) -> list[int]:
        """How many layers each literal has."""
        pairs = [(each.source, each.target) for each in literals]
        if self.options.passes == "variables":
            return [len({number for pair in pairs for number in pair} - {ENTITY})] * len(pairs)
        far = {number: 0 if number % VARIABLES == 1 else FAR for pair in pairs for number in pair}
        for one, other in (*pairs, *((other, one) for one, other in pairs)) * DEPTH:
            if one != ENTITY != other:
                far[other] = min(far[other], far[one] + 1)
        reached = [
            max(far[one] if one else far[other] + 1 for one, other in (pair, pair[::-1])) for pair in pairs
        ]
        conjunctions = [(max(pair) - 1) // VARIABLES for pair in pairs]
        return [
            max(r if r < FAR else 0 for r, n in zip(reached, conjunctions, strict=True) if n == own)
            for own in conjunctions
        ]

    def _free_states(self, literals: Literals, tails: Tensor) -> Tensor:
        """The free variable's state wherever it stands, also at literals that were left out: [b, x, d1]."""
        merged = literals.merged()
        free = is_free(merged.targets) & merged.real
        first = free & (free.long().cumsum(1) == 1)
        answer = (first.unsqueeze(2).to(tails.dtype) * tails).sum(1, keepdim=True)
        return torch.where(is_free(literals.targets).unsqueeze(2), answer, tails)


class _Ends:
    """Which literals lead to, or leave, the variable at each end, or its own entity: bool [b, x, y]."""

    def __init__(self, literals: Literals, *, entities: bool) -> None:
        self.literals = literals
        self.leads_to_head = literals.same_variable(literals.sources, literals.targets)
        self.leaves_head = literals.same_variable(literals.sources, literals.sources)
        self.leads_to_tail = literals.same_variable(literals.targets, literals.targets)
        self.leaves_tail = literals.same_variable(literals.targets, literals.sources)
        if entities:
            place = torch.arange(literals.real.shape[1], device=literals.real.device)
            itself = (place.unsqueeze(1) == place) & literals.real.unsqueeze(2)
            self.leaves_head = self.leaves_head | (itself & (literals.sources == ENTITY).unsqueeze(2))
            self.leads_to_tail = self.leads_to_tail | (itself & (literals.targets == ENTITY).unsqueeze(2))

    def both(self) -> tuple[tuple[Tensor, Tensor, Tensor], ...]:
        """Of heads, and of tails: their numbers, what leads to them, and what leaves them."""
        heads = self.literals.sources, self.leads_to_head, self.leaves_head
        return heads, (self.literals.targets, self.leads_to_tail, self.leaves_tail)

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
                for ends, (numbers, leads, leaves) in zip((heads, tails), self.both(), strict=True)
            )
        furthest = torch.maximum(heads, tails)
        known = literals.real & (furthest < FAR)
        furthest = torch.where(known, furthest, 0).unsqueeze(1)
        return torch.where(literals.same_conjunction(), furthest, 0).amax(2).clamp_max(DEPTH)
