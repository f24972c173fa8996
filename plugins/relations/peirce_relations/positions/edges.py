"""edges: the labelled edges of a graph as the network's initial relations."""

from __future__ import annotations

from typing import ClassVar

import torch
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.parts import BinaryPosition, Dims, PlainMap, PlainScope, TensorSpec, Tokens, new_table


@frozen(kw_only=True)
class EdgesOptions:
    """What an edge may be.

    Args:
        relations: how many relations there are, with the ids 0, 1, ...; the next id is that of an unknown edge.
        converse: whether a pair also has a vector for the edge that points back.
        blank: whether a pair whose edge is unknown has zeros, and not a learned vector.
        spread: the standard deviation of what is learnt at the start, with `blank`, so that `compose` tells it from
            zeros.
    """

    relations: int = field(validator=validators.ge(1))
    converse: bool = False
    blank: bool = False
    spread: float = field(default=1.0, validator=validators.gt(0))


class Edges(BinaryPosition):
    """u(x,y) = R[e(x,y)], or R[e(x,y)] + C[e(y,x)] with `converse`; an unknown edge is one of its own, or zero.

    The input `edge_ids` has the relation of each pair, or the id `relations` where none is known; where `edge_mask` is
    false, an id counts as unknown whatever it is.
    """

    name = "edges"
    source = "Edge Transformer (Bergen et al., 2021), Section 3; FOLNet (Chen, 2023), Section 3.1: relations are atoms"
    Options = EdgesOptions
    example: ClassVar = {"relations": 3, "converse": True}

    @classmethod
    def check(cls, options: EdgesOptions, dims: Dims, scope: str) -> str | None:
        """There is something to put the relations in, and the graph is there as a whole."""
        if not dims.binary:
            return "it gives the initial binary atoms, and the model has none"
        if scope in ("causal", "prefix"):
            return (
                f"edges are known of a whole graph, and the scope {scope!r} is for nodes that come one by one"
            )
        return None

    def __init__(self, options: EdgesOptions, dims: Dims) -> None:
        super().__init__(options, dims)
        entries = options.relations + (not options.blank)
        self.table = new_table(entries, dims.binary)
        self.converse = new_table(entries, dims.binary) if options.converse else None
        for each in (self.table, self.converse):
            if options.blank and each is not None:
                nn.init.normal_(each.weight, std=options.spread)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """The relation of each pair, and whether it is known."""
        pairs = ("batch", "length", "length")
        ids = TensorSpec(
            name="edge_ids", dtype="int64", dims=pairs, high=self.options.relations + 1,
            meaning=f"The relation of the first node to the second; {self.options.relations} where none is known.",
        )  # fmt: skip
        known = TensorSpec(
            name="edge_mask", dtype="bool", dims=pairs, required=False, default=True,
            meaning="False where the relation is not known, whatever its id.",
        )  # fmt: skip
        return (ids, known)

    def binary(self, tokens: Tokens) -> Tensor:
        """[b, x, y, d2]."""
        ids, known = tokens.inputs["edge_ids"], tokens.inputs.get("edge_mask")
        if known is not None:
            ids = torch.where(known, ids, self.options.relations)
        atoms = self._of(self.table, tokens.rows(ids))
        if self.converse is None:
            return atoms
        return atoms + self._of(self.converse, tokens.rows(ids.transpose(1, 2)))

    def _of(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        if not self.options.blank:
            return table(ids)
        known = ids < self.options.relations
        return table(ids.clamp(max=self.options.relations - 1)) * known.unsqueeze(-1)

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """Pair by pair: the vector of its edge, and that of the edge back."""
        options, nodes = self.options, range(len(scope))
        ids, known = given["edge_ids"], given.get("edge_mask")

        def vector(table: str, x: int, y: int) -> list[float]:
            edge = ids[x][y] if known is None or known[x][y] else options.relations
            unknown = edge == options.relations and options.blank
            row: list[float] = parameters[f"{table}.weight"][0 if unknown else edge]
            return [0.0] * dims.binary if unknown else row

        def pair(x: int, y: int) -> list[float]:
            edge, back = vector("table", x, y), [0.0] * dims.binary
            if options.converse:
                back = vector("converse", y, x)
            return [one + other for one, other in zip(edge, back, strict=True)]

        return {"binary": [[pair(x, y) for y in nodes] for x in nodes]}
