"""The plug-in of `peirce_relations`. Its parts, and torch with them, are imported when a registry asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.parts import Architecture, Head, Position, PureOperator, StateOperator


@hookimpl
def register_operators() -> list[type[PureOperator | StateOperator]]:
    """Attention through triangles of pairs, triangle updates, and attention that is told of relations."""
    from peirce_relations.operators.edge_attention import EdgeAttention
    from peirce_relations.operators.pair_feedforward import PairFeedForward
    from peirce_relations.operators.relation_attention import RelationAttention
    from peirce_relations.operators.triangles import TriangleAttention, TriangleMultiplication

    return [EdgeAttention, RelationAttention, TriangleMultiplication, TriangleAttention, PairFeedForward]


@hookimpl
def register_positions() -> list[type[Position]]:
    """The edges of a graph as initial relations."""
    from peirce_relations.positions.edges import Edges

    return [Edges]


@hookimpl
def register_architectures() -> list[type[Architecture]]:
    """Rounds of deduction on a graph."""
    from peirce_relations.architectures.relational import Relational

    return [Relational]


@hookimpl
def register_heads() -> list[type[Head]]:
    """Classes of named pairs."""
    from peirce_relations.heads.pairs import Pairs

    return [Pairs]


@hookimpl
def register_specs() -> list[Path]:
    """Networks over relations, small."""
    return [Path(__file__).parent / "specs"]


@hookimpl
def register_commands() -> dict[str, str]:
    """Models of published checkpoints."""
    return {"import.edge-transformer": "Import a published Edge Transformer."}
