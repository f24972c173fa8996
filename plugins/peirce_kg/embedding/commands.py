"""`peirce kg embed`: train entity and relation vectors for the augmenter `kge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from peirce.commands import Json, as_json
from peirce.extras import require
from peirce.progress import progress_bars

from peirce_kg.graphs.commands import GRAPH_HELP
from peirce_kg.parts.augmenters.kge_files import Predictor, write_kge


def embed(
    graph: Annotated[str, typer.Option(metavar="GRAPH", help=GRAPH_HELP)],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The vectors, a .safetensors file.")
    ],
    model: Annotated[Predictor, typer.Option(help="The link predictor that is trained.")] = "complex",
    dim: Annotated[int, typer.Option(min=1, help="Numbers of a vector; complex has two for each.")] = 400,
    epochs: Annotated[int, typer.Option(min=1, help="How often each training triple is seen.")] = 100,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Triples, or heads with a relation, of a step.")
    ] = 512,
    lr: Annotated[float, typer.Option(help="The learning rate of Adam.")] = 1e-3,
    seed: Annotated[int, typer.Option(min=0, help="What the vectors depend on.")] = 0,
    device: Annotated[str, typer.Option(help="Where to train, such as cpu or cuda.")] = "cpu",
    json: Json = False,
) -> None:
    """Train entity and relation vectors by link prediction, for a spec's augmenter kge."""
    from peirce.errors import TaskError
    from rich.console import Console

    require("peirce kg embed", "pykeen", extra="kg")
    from peirce_kg.embedding.training import EmbeddingOptions, embed
    from peirce_kg.graphs.graph import load_graph

    if not lr > 0:
        raise TaskError(f"--lr {lr} must be above 0")
    options = EmbeddingOptions(
        model=model, dim=dim, epochs=epochs, batch_size=batch_size, lr=lr, seed=seed, device=device
    )
    loaded = load_graph(graph)
    _check_writable(output)
    console = Console(stderr=True)
    with progress_bars(console if console.is_terminal else None) as progress:
        bar = progress.add_task("epochs", total=epochs, shown="")

        def after(epoch: int, loss: float) -> None:
            progress.update(bar, completed=epoch, shown=f"loss {loss:.4f}")

        made = embed(loaded, options, after)
    write_kge(output, made.facts, made.entities, made.relations)
    if json:
        as_json(
            "peirce.kg.embed/1",
            file=str(output),
            model=model,
            graph=loaded.name,
            entities=len(made.entities),
            relations=len(made.relations),
            width=dim,
            epochs=epochs,
            seed=seed,
            loss=made.losses[-1],
            validation_mrr=made.mrr,
        )
        return
    quality = "" if made.mrr is None else f"; filtered MRR of the validation triples {made.mrr:.3f}"
    sizes = f"{len(made.entities):,} entities and {len(made.relations):,} relations, {dim} numbers each"
    typer.echo(f"{output}: {model} of {loaded.name}, {sizes}{quality}")


def _check_writable(output: Path) -> None:
    """Refuse a place that no file can be written to, before the vectors are trained for it."""
    from tempfile import TemporaryFile

    from peirce.errors import TaskError

    problem: object = None
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=output.parent):
            if output.exists() and not output.is_file():
                problem = "it is a directory or a device"
    except OSError as error:
        problem = error.strerror or error
    if problem is not None:
        raise TaskError(f"{output} cannot be written: {problem}; choose another -o")
