"""The vectors of link predictors that some models begin with; each file is trained once and kept."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from peirce_plugins.kge_files import Predictor, write_kge
from peirce_plugins.tasks.kgqa.embedding import EmbeddingOptions, embed
from peirce_plugins.tasks.kgqa.graph import Graph

FOLDER = "vectors"


def vectors_file(directory: Path, graph: Graph, predictor: Predictor, width: int, console: Console) -> Path:
    """The file of trained vectors, which is made where it is missing.

    Args:
        directory: the experiment's.
        graph: what they are trained on.
        predictor: how.
        width: the numbers of a vector.
        console: where it is told what is done.
    """
    options = EmbeddingOptions(model=predictor, dim=width)
    path = directory / FOLDER / f"{graph.name}-{predictor}-{width}.safetensors"
    if not path.exists():
        console.print(f"training {predictor} on {graph.name}: {options.epochs} epochs", highlight=False)
        found = embed(graph, options)
        console.print(f"{predictor}: validation MRR {found.mrr:.3f}" if found.mrr is not None else predictor)
        write_kge(path, found.facts, found.entities, found.relations)
    return path
