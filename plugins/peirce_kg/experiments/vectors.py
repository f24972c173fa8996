"""The vectors of link predictors that some models begin with; each file is trained once and kept."""

from __future__ import annotations

from pathlib import Path

from peirce.experiments import digest
from peirce.training import plain
from rich.console import Console

from peirce_kg.embedding.training import EmbeddingOptions, embed
from peirce_kg.graphs.graph import Graph
from peirce_kg.parts.augmenters.kge_files import Predictor, write_kge
from peirce_kg.sampling.files import fingerprint

FOLDER = "vectors"


def embedding_options(predictor: Predictor, width: int) -> EmbeddingOptions:
    """How the vectors of an experiment are trained."""
    return EmbeddingOptions(model=predictor, dim=width)


def vectors_file(directory: Path, graph: Graph, predictor: Predictor, width: int, console: Console) -> Path:
    """The file of trained vectors, which is made where it is missing; its name tells graphs and options apart.

    Args:
        directory: the experiment's.
        graph: what they are trained on.
        predictor: how.
        width: the numbers of a vector.
        console: where it is told what is done.
    """
    options = embedding_options(predictor, width)
    identity = digest(fingerprint(graph), plain(options))
    path = directory / FOLDER / f"{graph.name}-{predictor}-{width}-{identity}.safetensors"
    if not path.exists():
        console.print(f"training {predictor} on {graph.name}: {options.epochs} epochs", highlight=False)
        found = embed(graph, options)
        console.print(f"{predictor}: validation MRR {found.mrr:.3f}" if found.mrr is not None else predictor)
        write_kge(path, found.facts, found.entities, found.relations)
    return path
