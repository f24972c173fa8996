"""Answers of queries as fuzzy sets, by a network that was trained on other graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from peirce.errors import ModelFileError
from peirce.model import Model
from peirce.parts import Tokens
from peirce_kg.encoding.literal_inputs import UnsupportedQueryError
from peirce_kg.parts.support import support_of
from peirce_kg.ultra.head import Fuzzy
from peirce_kg.ultra.messages import Edges
from peirce_kg.ultra.program import NoProgramError, Program, Step, program_of
from peirce_kg.ultra.relations import shared_heads
from peirce_queries import Floats, Groundings, Index, Ints, Logic, Template

STATE_BYTES = 4 << 20
"""What the states of the queries that go through the network together may take, one query at least.

About six such tensors exist at once. More of them are slower, as they leave the cache and their memory is not reused.
"""
KEPT_BYTES = 256 << 20
"""What the vectors of relations that are kept, one set for each relation that was asked, may take."""
TINY = 1e-10
"""What keeps the logarithm of a membership finite, as in the published code."""
Done: TypeAlias = Callable[[], Any]

"""What is called as work goes on."""


class UltraQuery:
    """A model of the architecture `ultra` with a head `fuzzy`, and a graph that is prepared once.

    Args:
        model: the model; it is put into evaluation mode.
        index: the triples that are known.
        logic: how sets are joined.

    Raises:
        ModelFileError: the model is another one.
    """

    def __init__(self, model: Model, index: Index, logic: Logic = "product") -> None:
        self.head: Any = model.heads[fuzzy_head(model)]
        self.network: Any = model.eval().network
        self.logic = logic
        self.name, self.relations, self.entities = model.spec.name, index.relations, index.entities
        weight = next(model.parameters())
        self.dtype = torch.float64 if weight.dtype == torch.float64 else torch.float32
        triples = np.stack(index.triples(), 1)
        shared = shared_heads(triples, index.entities, index.relations).reshape(2 * index.relations, -1)
        self.shared = torch.from_numpy(shared).to(weight.device, self.dtype)
        self.edges = Edges.of(torch.from_numpy(triples).to(weight.device), index.entities, index.relations)
        self._vectors: dict[int, Tensor] = {}

    def scores(
        self, sets: Tensor, relations: Ints, condition: Ints | None = None, done: Done = lambda: None
    ) -> Tensor:
        """The scores of entities as what relations lead to from sets.

        Args:
            sets: [n, entities].
            relations: int64 [n]; the inverse of r is r + their number.
            condition: int64 [n], the relations that vectors of relations are made for; `relations` if None.
            done: called after each row.

        Returns:
            [n, entities].
        """
        size = self.entities * self.network.width * self.dtype.itemsize
        step, found = max(1, STATE_BYTES // size), []
        condition = relations if condition is None else condition
        with torch.inference_mode():
            for start in range(0, len(relations), step):
                some = slice(start, start + step)
                vectors = self.vectors(condition[some])
                which = torch.from_numpy(relations[some]).to(self.shared.device)
                members = sets[some].to(self.shared.device, self.dtype)
                encoded = self.network.encoded(*self.network.states(self.edges, members, vectors, which))
                found.append(self.head(encoded, Tokens({}, None, which, self.entities))["logits"])
                for _ in range(len(which)):
                    done()
        return torch.cat(found)

    def vectors(self, condition: Ints) -> Tensor:
        """The vectors of relations, [2 relations, n, d]; those of each relation are made once."""
        new = np.array([each for each in np.unique(condition) if each not in self._vectors])
        size = 2 * self.relations * self.network.width * self.dtype.itemsize
        kept = max(1, KEPT_BYTES // size)
        if len(self._vectors) + len(new) > kept:
            self._vectors.clear()
            new = np.unique(condition)
        for start in range(0, len(new), step := max(1, STATE_BYTES // size)):
            some = new[start : start + step]
            vectors = self.network.vectors(self.shared, torch.from_numpy(some).to(self.shared.device))
            self._vectors.update(zip(some.tolist(), vectors.unbind(1), strict=True))
        return torch.stack([self._vectors[each] for each in condition.tolist()], 1)

    def run(
        self,
        program: Program,
        relations: Mapping[str, Ints],
        entities: Mapping[str, Ints],
        done: Done = lambda: None,
    ) -> Iterator[tuple[Step, Tensor]]:
        """Run a program for n groundings.

        Args:
            program: from `program_of`.
            relations: those that each name in the program stands for, int64 [n].
            entities: likewise.
            done: called after each projection of a row.

        Yields:
            each step, and the set that it leaves on the stack, [n, entities] in float64.
        """
        stack: list[Tensor] = []
        count = len(next(iter(relations.values())))
        for step in program:
            match step.operation:
                case "entity":
                    found = torch.zeros(count, self.entities, dtype=torch.float64)
                    found[torch.arange(count), torch.from_numpy(entities[step.name])] = 1
                case "every":
                    found = torch.ones(count, self.entities, dtype=torch.float64)
                case "project":
                    direct = relations[step.name] + step.inverse * self.relations
                    found = (
                        self.scores(stack.pop(), direct % (2 * self.relations), done=done)
                        .cpu()
                        .double()
                        .sigmoid()
                    )
                case "not":
                    found = 1 - stack.pop()
                case _:
                    right, left = stack.pop(), stack.pop()
                    found = combine(left, right, self.logic, step.operation == "and")
            stack.append(found)
            yield step, found

    def memberships(self, template: Template, groundings: Groundings) -> Floats:
        """How far each entity is an answer of each grounding: [n, entities] in float64.

        Raises:
            NoProgramError: operations on sets cannot say the query.
        """
        relations = dict(zip(template.relations, groundings.relations.T, strict=True))
        constants = dict(zip(template.constants, groundings.constants.T, strict=True))
        *_, (_, found) = self.run(program_of(template.query), relations, constants)
        return found.numpy()

    def scorer(self, template: Template, groundings: Groundings) -> Floats:
        """The scorer that `peirce_kg.evaluation.evaluate` takes: ln (p + 1e-10) / (1 - p + 1e-10), as published."""
        try:
            found = self.memberships(template, groundings)
        except NoProgramError as error:
            raise UnsupportedQueryError(self.name, template.query, error.reason) from error
        return np.log((found + TINY) / (1 - found + TINY))


def fuzzy_head(model: Model) -> str:
    """The prefix of the head that makes fuzzy sets of what `ultra` gives; a `ModelFileError` where there is none."""
    heads = [planned.prefix for planned in model.plan.heads if issubclass(planned.part, Fuzzy)]
    if not support_of(type(model.network)).inductive or not heads:
        raise ModelFileError(
            f"{model.spec.name!r} has the architecture {model.spec.architecture!r}, and answers on any graph are those "
            "of 'ultra' with the head 'fuzzy'; `peirce import ultra` makes such a model"
        )
    return heads[0]


def combine(left: Tensor, right: Tensor, logic: Logic, all_of: bool) -> Tensor:
    """The intersection of two fuzzy sets, or their union."""
    match logic:
        case "product":
            return left * right if all_of else left + right - left * right
        case "godel":
            return torch.minimum(left, right) if all_of else torch.maximum(left, right)
        case _:
            return (left + right - 1).clamp_min(0) if all_of else (left + right).clamp_max(1)
