"""The commands of peirce_kg: `peirce kg embed`, `peirce import ultra`, and what became of `peirce kg attention`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peirce.commands import (
    Json,
    NewModel,
    Overwrite,
    add_moved_command,
    application,
    print_json,
    print_new_model,
    refuse_existing,
)
from peirce.progress import progress_bars
from peirce_kg.parts.augmenters.kge_files import Optimizer, Predictor
from peirce_queries import GraphOption, progress_console

attention = application()
add_moved_command(
    attention, "attention", "peirce kg attention", "peirce look MODEL QUERY -o FILE --beside MODEL"
)


def embed(
    graph: GraphOption,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The vectors, a .safetensors file.")
    ],
    model: Annotated[Predictor, typer.Option(help="The link predictor that is trained.")] = "complex",
    dim: Annotated[int, typer.Option(min=1, help="Numbers of a vector; complex has two for each.")] = 400,
    epochs: Annotated[int, typer.Option(min=1, help="How often each training triple is seen.")] = 100,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Triples of a step; 1000 if none is given, 512 of transe.")
    ] = None,
    optimizer: Annotated[
        Optimizer | None, typer.Option(help="What trains; adagrad if none is given, adam for transe.")
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(help="Its learning rate; 0.1 of adagrad and 0.001 of adam if none is given."),
    ] = None,
    n3: Annotated[
        float | None,
        typer.Option(min=0, help="The weight of the N3 penalty; 0.05 if none is given, 0 of transe."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="What the vectors depend on.")] = 0,
    device: Annotated[str, typer.Option(help="Where to train, such as cpu or cuda.")] = "cpu",
    half: Annotated[
        bool, typer.Option("--half", help="Compare with all tails in bfloat16, faster on most processors.")
    ] = False,
    inverses: Annotated[
        bool, typer.Option("--inverses", help="Keep vectors of inverse relations, as the data of BetaE have.")
    ] = False,
    json: Json = False,
) -> None:
    """Train entity and relation vectors by link prediction, for a spec's augmenter kge."""
    from peirce.errors import TaskError
    from peirce.files import explain_disk_errors, hold_lock
    from peirce_kg.embedding.training import EmbeddingOptions, embed
    from peirce_queries import load_graph

    options = EmbeddingOptions(
        model=model, dim=dim, epochs=epochs, batch_size=batch_size, optimizer=optimizer, lr=lr, n3=n3, seed=seed,
        device=device, half=half, inverses=inverses,
    )  # fmt: skip
    loaded = load_graph(graph)
    # a place that no file can be written to is refused before the vectors are trained for it
    if output.exists() and not output.is_file():
        raise TaskError(f"{output} cannot be written: it is a directory or a device; choose another -o")
    with (
        explain_disk_errors(str(output)),
        hold_lock(output, folder=False),
        progress_bars(progress_console()) as progress,
    ):
        bar = progress.add_task("epochs", total=epochs, shown="")

        def after(epoch: int, loss: float) -> None:
            progress.update(bar, completed=epoch, shown=f"loss {loss:.4f}")

        embedding = embed(loaded, options, after)
        embedding.write(output)
    if json:
        print_json(
            "peirce.kg.embed/1", file=str(output), model=model, graph=loaded.name, entities=len(embedding.entities),
            relations=len(embedding.relations), width=dim, epochs=epochs, seed=seed, loss=embedding.losses[-1],
            validation_mrr=embedding.mrr,
        )  # fmt: skip
        return
    quality = "" if embedding.mrr is None else f"; filtered MRR of the validation triples {embedding.mrr:.3f}"
    sizes = (
        f"{len(embedding.entities):,} entities and {len(embedding.relations):,} relations, {dim} numbers each"
    )
    typer.echo(f"{output}: {model} of {loaded.name}, {sizes}{quality}")


def ultra(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="WEIGHTS", help="Its tensors: a safetensors file, or a torch file of a state dict."
        ),
    ],
    output: NewModel,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Import a published ULTRA or UltraQuery, which answers on any graph."""
    refuse_existing(output, ("spec.toml",), overwrite)
    from peirce_kg.ultra.checkpoint import read_ultra

    model = read_ultra(checkpoint, output.resolve().name)
    model.save(output)
    print_new_model(json, model, output, threshold=model.spec.options["threshold"])
