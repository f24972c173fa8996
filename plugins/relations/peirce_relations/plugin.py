"""The plug-in of `peirce_relations`. Its parts, and torch with them, are imported when a registry asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce.parts import Architecture, Position, PureOperator, StateOperator


@hookimpl
def register_operators() -> list[type[PureOperator | StateOperator]]:
    """Attention through triangles of pairs, triangle updates, composition, and attention that is told of relations."""
    from peirce_relations.operators.chain import Chain
    from peirce_relations.operators.compose import Compose
    from peirce_relations.operators.edge_attention import EdgeAttention
    from peirce_relations.operators.pair_feedforward import PairFeedForward
    from peirce_relations.operators.relation_attention import RelationAttention
    from peirce_relations.operators.relational_attention import RelationalAttention
    from peirce_relations.operators.triangles import TriangleAttention, TriangleMultiplication

    return [
        Chain,
        Compose,
        EdgeAttention,
        RelationAttention,
        RelationalAttention,
        TriangleMultiplication,
        TriangleAttention,
        PairFeedForward,
    ]


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
def register_tasks() -> list[type[AnyTask]]:
    """The relation of two nodes of a graph."""
    from peirce_relations.task import RelationsTask

    return [RelationsTask]


@hookimpl
def register_calculi() -> dict[str, str]:
    """RCC-8, and Allen's relations of intervals."""
    return {
        "rcc8": "peirce_relations.calculi.algebra:rcc8",
        "interval": "peirce_relations.calculi.algebra:intervals",
    }


@hookimpl
def register_pipelines() -> dict[str, str]:
    """Graphs in words."""
    return {"relate": "peirce_relations.serving:RelationPipeline"}


@hookimpl
def register_specs() -> list[Path]:
    """Networks over relations, small."""
    return [Path(__file__).parent / "specs"]


@hookimpl
def register_commands() -> dict[str, str]:
    """Models of published checkpoints, problems of relations, and answers to them."""
    return {
        "import.edge-transformer": "Import a published Edge Transformer.",
        "relations": "Make problems of relations with exact answers, and solve them exactly.",
        "relate": "Name the relation of two nodes of a graph.",
    }
