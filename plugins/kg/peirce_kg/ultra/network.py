"""ultra: what follows from a graph's triples, by a network that knows no entity and no relation by name.

One network works on the graph of relations, whose edges say which relations meet at an entity. What it makes of them,
seen from the relation that is asked for, are the vectors of relations in a second network, on the entities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Scope, at_least_float32
from peirce.errors import PlanError
from peirce.model import Model
from peirce.parts import (
    Architecture,
    Encoded,
    Linear,
    Plan,
    TensorSpec,
    Tokens,
    has_static_shapes,
    without_autocast,
)
from peirce_kg.parts.support import QuerySupport, Scorer
from peirce_kg.ultra.messages import Edges, messages, swap_inverses, traced_messages
from peirce_kg.ultra.program import why_no_program
from peirce_queries import Index, Template

KINDS = 4
"""Which ends of two relations meet at an entity: both heads, both tails, a head and a tail, a tail and a head."""


@frozen(kw_only=True)
class UltraDims:
    """The sizes of a network; every one is a count.

    Args:
        layers: layers of the network on entities.
        relation_layers: layers of the network on relations.
        unary: the numbers of a state.
    """

    layers: int = field(default=6, validator=validators.ge(1))
    relation_layers: int = field(default=6, validator=validators.ge(1))
    unary: int = field(default=64, validator=validators.ge(1))


@frozen(kw_only=True)
class UltraOptions:
    """How far a set is believed.

    Args:
        threshold: an entity takes part in a set where it belongs to it further than this; about 0.8 for a network that
            was trained on links alone.
    """

    threshold: float = field(default=0.0, validator=[validators.ge(0.0), validators.lt(1.0)])


class Ultra(QuerySupport, Architecture):
    """NBFNet on relations, then NBFNet on entities: DistMult messages, sums, a residual in each layer.

    The unary atoms are the entities' last states, and the pooled output is the asked relation's vector. All is computed
    in float32 at least, since thousands of messages meet at one entity.
    """

    name = "ultra"
    source = "ULTRA (Galkin et al., 2023), Section 4; UltraQuery (Galkin et al., 2024), Section 4.1"
    Dims = UltraDims
    Options = UltraOptions
    places = frozenset()
    branches = "U"
    layer = ""
    rows = "entities"
    scope = "bidirectional"
    fixed_layer = True
    task = "links"
    inductive = True
    expected_failures: ClassVar = {
        "tensorrt": "TensorRT has no sum at computed places: it refuses ScatterElements with a reduction"
    }

    @classmethod
    def sizes(cls, options: UltraOptions, dims: UltraDims) -> Mapping[str, int]:
        """Layers, and one width."""
        return {"layers": dims.layers, "unary": dims.unary}

    @classmethod
    def why_unsupported(cls, template: Template) -> str | None:
        """Why operations on sets cannot say a query; None if they can."""
        return why_no_program(template.query)

    @classmethod
    def graph_scorer(cls, model: Model, index: Index) -> Scorer:
        """See `QuerySupport.graph_scorer`."""
        from peirce_kg.ultra.answering import UltraQuery

        return UltraQuery(model, index).scorer

    @classmethod
    def gives(cls, options: UltraOptions) -> frozenset[Literal["pooled", "binary", "past"]]:
        """The asked relation's vector is the pooled output."""
        return frozenset({"pooled"})

    def __init__(self, options: UltraOptions, plan: Plan) -> None:
        super().__init__(options, plan)
        for planned in plan.augmenters:
            raise PlanError(
                f"{plan.spec.at(planned.path)}: architecture {self.name!r} reads no tokens for {planned} to change; "
                "leave it out"
            )
        self.width = width = plan.dims.unary
        self.relations = nn.ModuleList(RelationLayer(width) for _ in range(plan.model_dims.relation_layers))
        self.entities = nn.ModuleList(EntityLayer(width) for _ in range(plan.dims.layers))

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The graph, what its relations share, and the sets and relations that are asked of."""
        ends: tuple[str | int, ...] = (2, "relations", 2, "relations")
        return (
            TensorSpec(
                name="triples", dtype="int64", dims=("triples", 3),
                meaning="Head, relation and tail, each once; one beyond the entities or the relations is padding.",
            ),
            TensorSpec(
                name="shared_heads", dtype="bool", dims=ends,
                meaning="Whether an entity is a head of both; axes of 2: a relation and its inverse.",
            ),
            TensorSpec(
                name="sets", dtype="float", dims=("batch", "entities"),
                meaning="How far each entity belongs to the set that is asked of; 1 at the entity of a single link.",
            ),
            TensorSpec(
                name="asked", dtype="int64", dims=("batch",),
                meaning="The relation from the set to the answers; the inverse of r is r + relations.",
            ),
            TensorSpec(
                name="condition", dtype="int64", dims=("batch",), required=False, default=-1,
                meaning="The relation that vectors of relations are made for; the asked one if it is -1.",
            ),
        )  # fmt: skip

    def outputs(self) -> tuple[TensorSpec, ...]:
        """The entities' states, and the asked relation's vector."""
        width = self.width
        return (
            TensorSpec(
                name="unary", dtype="float", dims=("batch", "entities", width), meaning="Of entities."
            ),
            TensorSpec(name="pooled", dtype="float", dims=("batch", width), meaning="Of the asked relation."),
        )

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Encoded, Tokens]:
        """Prepare the graph, and run both networks."""
        triples, sets, asked = inputs["triples"], inputs["sets"], inputs["asked"]
        shared, exact = inputs["shared_heads"].flatten(2, 3).flatten(0, 1), at_least_float32(sets)
        condition = inputs.get("condition", torch.full_like(asked, -1))
        entities, relations = sets.shape[1], inputs["shared_heads"].shape[1]
        edges = triples if has_static_shapes(triples) else Edges.of(triples, entities, relations)
        with without_autocast(exact):
            vectors = self.vectors(shared.to(exact.dtype), torch.where(condition == -1, asked, condition))
            unary, pooled = self.states(edges, exact, vectors, asked)
        index = torch.arange(entities, device=sets.device).unsqueeze(0)
        encoded = self.encoded(unary.to(sets.dtype), pooled.to(sets.dtype))
        return encoded, Tokens(inputs, None, index, entities)

    def encoded(self, unary: Tensor, pooled: Tensor) -> Encoded:
        """What heads are given, of what `states` gave."""
        return Encoded(unary, None, pooled, Scope.padding(None), unary.new_zeros(0, self.width))

    def vectors(self, shared: Tensor, condition: Tensor) -> Tensor:
        """The vectors of relations, seen from one of them.

        Args:
            shared: [2 relations, 2 relations], 1 where two relations, inverses included, have a head in common, else 0.
            condition: int64 [b].

        Returns:
            [2 relations, b, d].
        """
        first = _one_hot(condition, shared).T.unsqueeze(2).expand(-1, -1, self.width)
        states = first
        for layer in self.relations:
            states = layer(states, first, shared)
        return states

    def states(
        self, edges: Edges | Tensor, sets: Tensor, vectors: Tensor, asked: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The states of entities, and the asked relations' vectors.

        Args:
            edges: the graph, prepared; or the triples, int64 [n, 3], for a graph that is traced.
            sets: [b, entities].
            vectors: [2 relations, b, d], from `vectors`.
            asked: int64 [b].

        Returns:
            [b, entities, d] and [b, d].
        """
        query = (_one_hot(asked, vectors).T.unsqueeze(2) * vectors).sum(0)
        members = torch.where(sets > self.options.threshold, sets, 0)
        first = members.T.unsqueeze(2) * query
        states = first
        for layer in self.entities:
            states = layer(states, first, vectors, edges)
        return states.transpose(0, 1), query


class Layer(nn.Module):
    """What NBFNet's layers have in common: from the old state and what arrived to the new state."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def update(self, states: Tensor, first: Tensor, received: Tensor) -> Tensor:
        """[n, b, d] each -> [n, b, d]; the first state is added in every layer."""
        mixed = self.linear(torch.cat([states, received + first], -1))
        weight, bias = (each.to(mixed.dtype) for each in (self.norm.weight, self.norm.bias))
        return F.relu(F.layer_norm(mixed, weight.shape, weight, bias, self.norm.eps)) + states


class RelationLayer(Layer):
    """Relations learn from those that they meet at entities, by the ends that meet."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.kinds = nn.Parameter(torch.randn(KINDS, width))

    def forward(self, states: Tensor, first: Tensor, shared: Tensor) -> Tensor:
        """[2 relations, b, d] and [2 relations, 2 relations] -> [2 relations, b, d].

        An inverse's heads are the relation's tails, so one matrix says of all four kinds who meets whom.
        """
        heads, tails, head_tail, tail_head = self.kinds.to(states.dtype)
        inverse = swap_inverses(states)
        sent = torch.stack([heads * states + head_tail * inverse, tail_head * states + tails * inverse], 1)
        direct, turned = (shared @ sent.flatten(1)).view_as(sent).unbind(1)
        return self.update(states, first, direct + swap_inverses(turned))


class EntityLayer(Layer):
    """Entities learn from their neighbours, by the relations' vectors as the layer sees them."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.project = nn.Sequential(Linear(width, width), nn.ReLU(), Linear(width, width))

    def forward(self, states: Tensor, first: Tensor, vectors: Tensor, edges: Edges | Tensor) -> Tensor:
        """[entities, b, d], and vectors [2 relations, b, d] -> [entities, b, d]."""
        projected = self.project(vectors)
        received = (
            messages(states, projected, edges)
            if isinstance(edges, Edges)
            else traced_messages(states, projected, edges)
        )
        return self.update(states, first, received)


def _one_hot(numbers: Tensor, rows: Tensor) -> Tensor:
    """Which row each number is: int64 [b], [n, ...] -> [b, n], 1 for the row and 0 for the others, of `rows`' dtype."""
    return (numbers.unsqueeze(1) == torch.arange(rows.shape[0], device=rows.device)).to(rows.dtype)
