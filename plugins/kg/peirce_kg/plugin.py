"""The plug-in of `peirce_kg`. Its parts, and torch with them, are imported when a registry asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.model import AnyTask
    from peirce.parts import Architecture, Augmenter, Head, Position


@hookimpl
def register_positions() -> list[type[Position]]:
    """Positions that tell of queries: literals, the query graph, LogiRPE."""
    from peirce_kg.parts.positions.adjacency import Adjacency
    from peirce_kg.parts.positions.atoms import GraphAtoms
    from peirce_kg.parts.positions.directed_distance import DirectedDistance
    from peirce_kg.parts.positions.logirpe import LogiRPE

    return [LogiRPE, DirectedDistance, Adjacency, GraphAtoms]


@hookimpl
def register_augmenters() -> list[type[Augmenter]]:
    """Entities begin with the vectors of a trained link predictor."""
    from peirce_kg.parts.augmenters.kge import Kge

    return [Kge]


@hookimpl
def register_heads() -> list[type[Head]]:
    """Heads that rank entities."""
    from peirce_kg.parts.heads.cqd import BeamSearch, ContinuousSearch
    from peirce_kg.parts.heads.distances import (
        BetaRanking,
        BoxRanking,
        ConeRanking,
        CosineRanking,
        ParticleRanking,
        PointRanking,
    )
    from peirce_kg.parts.heads.entities import Entities
    from peirce_kg.parts.heads.qto import GraphSearch, QueryTreeSearch
    from peirce_kg.ultra.head import Fuzzy

    by_distance: list[type[Head]] = [BetaRanking, BoxRanking, ConeRanking, CosineRanking, PointRanking]
    searches: list[type[Head]] = [BeamSearch, ContinuousSearch, QueryTreeSearch, GraphSearch]
    return [Entities, *by_distance, ParticleRanking, *searches, Fuzzy]


@hookimpl
def register_architectures() -> list[type[Architecture]]:
    """Systems that execute a query themselves, and ULTRA, which knows a graph by its relations alone."""
    from peirce_kg.parts.systems.betae import BetaE
    from peirce_kg.parts.systems.boxes import Gqe, Query2Box
    from peirce_kg.parts.systems.clmpt import Clmpt
    from peirce_kg.parts.systems.cone import ConE
    from peirce_kg.parts.systems.cqd import Cqd, Fit, Qto
    from peirce_kg.parts.systems.fuzzqe import FuzzQE
    from peirce_kg.parts.systems.lmpnn import Lmpnn
    from peirce_kg.parts.systems.q2p import Q2P
    from peirce_kg.ultra.network import Ultra

    return [BetaE, Clmpt, ConE, Cqd, Fit, FuzzQE, Gqe, Lmpnn, Q2P, Qto, Query2Box, Ultra]


@hookimpl
def register_tasks() -> list[type[AnyTask]]:
    """First-order queries over knowledge graphs, and links of any graph."""
    from peirce_kg.task import KgQa
    from peirce_kg.ultra.links import Links

    return [KgQa, Links]


@hookimpl
def register_specs() -> list[Path]:
    """TEGA with its ablations, the encoders it is compared with, and the query systems."""
    return [Path(__file__).parent / "specs"]


@hookimpl
def register_pipelines() -> dict[str, str]:
    """First-order queries."""
    return {"ask": "peirce_kg.serving:QueryAnswers"}


@hookimpl(optionalhook=True)
def register_views() -> dict[str, str]:
    """First-order queries in tokens."""
    return {"queries": "peirce_kg.viewing:Queries"}


@hookimpl
def register_answerers() -> dict[str, str]:
    """Exported models of a graph, and ULTRA for any graph."""
    return {"exported": "peirce_kg.exported:ExportedModel", "ultra": "peirce_kg.ultra.zero_shot:ZeroShot"}


@hookimpl
def register_commands() -> dict[str, str]:
    """Vectors of link predictors, and published models of any graph."""
    return {
        "import.ultra": "Import a published ULTRA or UltraQuery, which answers on any graph.",
        "kg.attention": "Older name of `peirce look`.",
        "kg.embed": "Train entity and relation vectors by link prediction, for a spec's augmenter kge.",
    }
